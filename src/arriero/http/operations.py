"""Endpoints for whoever runs the server or looks at it; none of them waits for the engine, except `/debug/state`.

`/health` and `/metrics` show what the engine published at its last step, so a long decode call cannot delay them.
"""

import asyncio
from dataclasses import asdict
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from arriero.core.errors import ArrieroError, KeyLimit, QueueFull, UnknownModel
from arriero.engine.door import Place
from arriero.http.bodies import parse
from arriero.http.desk import Desk, tenant_of
from arriero.http.errors import Dialect, failure
from arriero.http.exchange import ClientGone, Exchange
from arriero.http.sampling_fields import check_tokens
from arriero.tokens.detokenizer import text_of

_encode: Final = msgspec.json.Encoder(enc_hook=str).encode


class TokenizeBody(Struct, kw_only=True):
    """The body of `/tokenize`."""

    content: str
    add_special: bool = False
    parse_special: bool = False
    with_pieces: bool = False


class DetokenizeBody(Struct, kw_only=True):
    """The body of `/detokenize`."""

    tokens: list[Annotated[int, Meta(ge=0)]]


_TOKENIZE: Final = msgspec.json.Decoder(TokenizeBody)
_DETOKENIZE: Final = msgspec.json.Decoder(DetokenizeBody)


def json_response(value: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A body in JSON; what JSON has no form for is written as text."""
    return Response(_encode(value), status, headers, "application/json")


def error_response(error: ArrieroError, dialect: Dialect) -> Response:
    """An error as a response."""
    found = failure(error, dialect)
    headers = {name.decode(): value.decode() for name, value in found.headers}
    return Response(found.body, found.status, headers, "application/json")


class Operations:
    """The endpoints of one application."""

    def __init__(self, desk: Desk) -> None:
        """All of them read; only `cancel` and `shutdown` change anything."""
        self._desk = desk
        self._service = desk.service

    async def health(self, _: Request) -> Response:
        """200 while work is taken and done, else 503 with the reason."""
        health = self._service.engine.health
        is_well = health.alive and health.accepting and not health.stuck
        body = {
            "status": "ok" if is_well else "unavailable",
            "reason": None if is_well else health.reason or "the engine does not run",
            "busy": health.has_work,
            "step_age_s": round(health.step_age_us / 1e6, 3),
        }
        return json_response(body) if is_well else json_response(body, 503, {"retry-after": "1"})

    async def metrics(self, _: Request) -> Response:
        """The Prometheus page."""
        page = self._service.page
        assert page is not None, "the route exists only where there is a page"
        return Response(page.render(), headers={"content-type": page.content_type.decode()})

    async def models(self, _: Request) -> Response:
        """What can be named as `model`."""
        return json_response({"object": "list", "data": [self._model()]})

    async def model(self, request: Request) -> Response:
        """The served model by its name."""
        try:
            self._service.check_model(request.path_params["name"])
        except UnknownModel as error:
            return error_response(error, Dialect.OPENAI)
        return json_response(self._model())

    async def tokenize(self, request: Request) -> Response:
        """Text → token ids, on a worker."""
        body = parse(await self._read(request), _TOKENIZE)
        vocabulary = self._service.vocabulary

        def work() -> dict[str, object]:
            ids = vocabulary.encode(body.content, add_special=body.add_special, parse_special=body.parse_special)
            if not body.with_pieces:
                return {"tokens": ids}
            pieces = [vocabulary.piece(token, special=True).decode(errors="replace") for token in ids]
            return {"tokens": [{"id": each, "piece": piece} for each, piece in zip(ids, pieces, strict=True)]}

        # it uses the workers that prompts need, so it waits in the same backlog
        with self._enter(request):
            return json_response(await self._desk.on_worker(work))

    async def detokenize(self, request: Request) -> Response:
        """Token ids → text, on a worker."""
        body = parse(await self._read(request), _DETOKENIZE)
        check_tokens(body.tokens, self._service.vocabulary.size, "tokens")
        with self._enter(request):
            text = await self._desk.on_worker(lambda: text_of(self._service.vocabulary, body.tokens))
        return json_response({"content": text})

    async def cancel(self, request: Request) -> Response:
        """Cancel a request that is being answered."""
        answer_id: str = request.path_params["id"]
        self._desk.live.cancel(tenant_of(request.scope), answer_id)
        return json_response({"id": answer_id, "status": "cancelling"})

    async def config(self, _: Request) -> Response:
        """The effective configuration, without secrets."""
        return json_response(self._service.config)

    async def state(self, _: Request) -> Response:
        """Fresh figures of the engine's next step boundary; the last ones if that takes too long."""
        engine = self._service.engine
        try:
            snapshot = await asyncio.wait_for(engine.ask_snapshot(), self._service.options.ask_timeout_s)
        except TimeoutError:
            snapshot = engine.snapshot
        state = {
            "engine": asdict(snapshot),
            "door": asdict(engine.door),
            "answering": len(self._desk.live),
            "tasks": len(asyncio.all_tasks()),  # of the event loop, this request among them
        }
        return json_response(state)

    async def shutdown(self, _: Request) -> Response:
        """Take no new work, finish what runs, stop listening."""
        self._service.engine.shutdown()
        self._service.stop()
        return json_response({"status": "shutting_down"})

    def _enter(self, request: Request) -> Place:
        """Take a place at the door; who is refused is told when to come again, as with the endpoints that generate."""
        try:
            return self._service.engine.enter(tenant_of(request.scope).scope)
        except (QueueFull, KeyLimit) as error:
            error.retry_after_s = self._desk.outlook.retry_after_s()
            raise

    def _model(self) -> dict[str, object]:
        service = self._service
        return {
            "id": service.model_id,
            "object": "model",
            "created": service.created,
            "owned_by": "arriero",
            "max_model_len": service.engine.limits.sequence_limit,
        }

    async def _read(self, request: Request) -> bytes:
        exchange = Exchange(request.scope, request.receive, _no_send)
        try:
            return await exchange.read_body(self._service.options.max_body_bytes)
        except ClientGone:
            return b""


async def _no_send(_: object) -> None:
    """This exchange only reads."""
