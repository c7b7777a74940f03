"""`GET /debug/cache` and `POST /slots/{id}`: what is retained, and what whoever runs the server may do about it.

A picture has lengths and counts and no token. Where keys are needed, a key sees the runs of its own scopes only: that
another key's prefix is there is what scopes keep from it. The figures beside it are those of the whole server, as on
`/metrics`.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, Final, TypeAlias, cast

from starlette.requests import Request
from starlette.responses import Response

from arriero.core.errors import InvalidRequest, Refused
from arriero.core.events import RetainedAction
from arriero.http.desk import Desk, tenant_of
from arriero.http.errors import NoSuchPath
from arriero.http.operations import json_response
from arriero.http.scopes import belongs_to, shown
from arriero.kv.reuse import CachePicture, RetainedRun, ReuseFigures
from arriero.prefix.cache import RunKey
from arriero.prefix.radix import PicturedNode

Trees: TypeAlias = tuple[tuple[str, tuple[object, ...]], ...]

ALL: Final = "all"
"""The one name that stands for slots: a run belongs to its tokens and its scope, and moves between sequence ids."""


class CachePages:
    """The endpoints of one application."""

    def __init__(self, desk: Desk) -> None:
        """They ask the engine, and are answered at its next step boundary."""
        self._service = desk.service

    async def cache(self, request: Request) -> Response:
        """The trees of the caller's scopes, the runs in them, and the figures of the whole server."""
        service = self._service
        try:
            picture = await asyncio.wait_for(service.engine.ask_cache(), service.options.ask_timeout_s)
        except TimeoutError:
            raise Refused("no step has ended for a while, so nobody can look; ask /health") from None
        mode, tenant = service.options.cache_scope, tenant_of(request.scope)
        body = {"reuse": service.no_reuse or "on", "cache_scope": mode.value}
        if picture is None:
            return json_response(body)
        own = {scope for scope in _scopes(picture) if belongs_to(scope, mode, tenant.scope)}
        scopes = [_scope(picture, each) for each in sorted(own)]
        return json_response(body | {"figures": _figures(picture.figures), "scopes": scopes})

    async def slots(self, request: Request) -> Response:
        """Save, restore or erase what is retained; `id` is `all`."""
        action = _action(request.query_params.get("action"))
        name: str = request.path_params["id"]
        if name != ALL:
            message = (
                f"there is no slot {name[:40]!r}: runs belong to no slot and are saved, restored and erased together; "
                f"use /slots/{ALL}"
            )
            raise NoSuchPath(message, field="id")
        report = await self._service.engine.ask_retained(action)
        if action is RetainedAction.SAVE and self._service.flush is not None:
            await asyncio.to_thread(self._service.flush)  # waits for the disk, so not on a tokenizer worker
        body = {"id_slot": ALL, "action": action.value, "runs": report.num_runs, "tokens": report.num_tokens}
        return json_response(body)


def _action(word: str | None) -> RetainedAction:
    try:
        return RetainedAction(word or "")
    except ValueError:
        words = ", ".join(RetainedAction)
        raise InvalidRequest(f"action must be one of {words}", field="action") from None


def _scopes(picture: CachePicture) -> Iterable[str]:
    yield from (scope for scope, _ in (*picture.trees, *picture.host_trees))
    yield from (run.scope for run in picture.runs)


def _scope(picture: CachePicture, scope: str) -> dict[str, object]:
    runs = [run for run in picture.runs if run.scope == scope]
    return {
        "scope": shown(scope),
        "runs": [_run(run) for run in runs],
        "tree": _tree(picture.trees, scope),
        "host_tree": _tree(picture.host_trees, scope),
    }


def _tree(trees: Trees, scope: str) -> list[dict[str, int]]:
    """A line for each edge, a branch before its twigs: how deep it is, its tokens, and how many runs end there."""
    rows = next((tree for each, tree in trees if each == scope), ())
    nodes = cast("tuple[PicturedNode[RunKey], ...]", rows)
    return [{"level": node.level, "tokens": node.num_tokens, "runs": len(node.runs)} for node in nodes]


def _figures(figures: ReuseFigures) -> dict[str, object]:
    values: dict[str, Any] = {each.name: getattr(figures, each.name) for each in fields(figures)}
    return {name: _plain(value) for name, value in values.items()}


def _plain(value: object) -> object:
    return dict(cast("Mapping[str, int]", value)) if isinstance(value, Mapping) else value


def _run(run: RetainedRun) -> dict[str, object]:
    return {
        "place": f"saved {run.key}" if run.sequence_id is None else f"sequence {run.sequence_id}",
        "tokens": run.length,
        "hits": run.num_hits,
        "last_used": run.tick,
        "on_disk": run.is_on_disk,
    }
