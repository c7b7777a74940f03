"""Interference over HTTP: a fresh server for each cap, and a barrier on the anchor's second token."""

import asyncio
import hashlib
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from arriero.bench.ask import Ask
from arriero.bench.experiments.calls import CallFailed, events
from arriero.bench.experiments.contexts import ModelSettings
from arriero.bench.experiments.interference_runs import Caps, Scenario, SeenStep
from arriero.bench.experiments.served import Served, ServeOptions, served
from arriero.bench.sse_wire import Chunk
from arriero.core.ids import TokenId
from arriero.metrics.client_life import ClientLife, Outcome
from arriero.record.diagnostics import IterRow

BARRIER: Final = 2
"""The token of the anchor on whose arrival the probe is sent."""

GREEDY: Final = {"temperature": 0, "ignore_eos": True}
PATH: Final = "/v1/completions"


class _Anchor:
    """One answer that is read while it comes."""

    def __init__(self, url: str, prompt: Sequence[TokenId], budget: int) -> None:
        self.has_begun = asyncio.Event()
        self.text = ""
        self.problem: str | None = None
        self._url = url
        self._body = {"prompt": list(prompt), "max_tokens": budget, "stream": True, **GREEDY}

    async def read(self) -> None:
        """Read to the end; opens the barrier on the way, and in any case at the end."""
        num_pieces = 0
        try:
            async for event in events(self._url, PATH, self._body):
                piece = _text_of(event)
                self.text += piece
                num_pieces += bool(piece)
                if num_pieces >= BARRIER:
                    self.has_begun.set()
        except (CallFailed, msgspec.ValidationError) as failure:
            self.problem = f"anchor: {failure}"
        finally:
            self.has_begun.set()


async def http_scenarios(
    model: ModelSettings,
    options: ServeOptions,
    anchor: str,
    probes: Sequence[Sequence[TokenId]],
    budget: int,
    cycles: int,
) -> list[Scenario]:
    """Every probe beside the anchor, `cycles` times, on one fresh server.

    Raises:
        ServerFailed, CallFailed: the server does not serve.
    """
    asked: list[tuple[Sequence[TokenId], _Anchor, ClientLife]] = []
    async with served(model, options) as server:
        prompt = await server.tokens_of(anchor, add_special=True)
        for cycle in range(cycles):
            for index, probe in enumerate(probes):
                asked.append((probe, *await _one(server, prompt, probe, budget, f"probe-{cycle}-{index}")))
        log = await server.stop()
    caps = Caps(per_sequence=options.prefill_rows_per_seq, per_step=options.prefill_rows_per_step)
    runs = list(runs_of(log.computed, 2))
    return [
        _scenario(prompt, probe, caps, each, life, rows, log.problems)
        for (probe, each, life), rows in zip(asked, [*runs, *([[]] * (len(asked) - len(runs)))], strict=True)
    ]


async def _one(
    server: Served, prompt: Sequence[TokenId], probe: Sequence[TokenId], budget: int, request_id: str
) -> tuple[_Anchor, ClientLife]:
    anchor = _Anchor(server.url, prompt, budget)
    async with asyncio.TaskGroup() as group:
        group.create_task(anchor.read())
        await anchor.has_begun.wait()
        ask = Ask(request_id=request_id, prompt=tuple(probe), max_tokens=budget, fields=GREEDY)
        life = await server.target.ask(ask, None)
    return anchor, life


def runs_of(rows: Sequence[IterRow], num_requests: int) -> Iterator[list[IterRow]]:
    """The rows of one scenario after the other: each ends when so many requests are complete."""
    run: list[IterRow] = []
    left = num_requests
    for row in rows:
        run.append(row)
        left -= row.completed_in_iter + row.cancelled_in_iter + row.failed_in_iter
        if left <= 0:
            yield run
            run, left = [], num_requests


def _scenario(
    anchor: Sequence[TokenId],
    probe: Sequence[TokenId],
    caps: Caps,
    seen: _Anchor,
    life: ClientLife,
    rows: Sequence[IterRow],
    problems: Sequence[str],
) -> Scenario:
    found = [*problems]
    if seen.problem is not None:
        found.append(seen.problem)
    if life.outcome is not Outcome.LENGTH:
        found.append(f"{life.request_id}: {life.outcome} ({life.error})")
    if not rows:
        found.append(f"{life.request_id}: no steps were written down")
    return Scenario(
        length=len(probe),
        caps=caps,
        num_probes=1,
        steps=tuple(seen_steps(rows, (len(anchor), len(anchor) + len(probe)))),
        anchor_hash=hashlib.sha256(seen.text.encode()).hexdigest()[:16],
        asked_rows=len(anchor) + len(probe),
        problems=tuple(found),
    )


def seen_steps(rows: Sequence[IterRow], prompt_ends: Sequence[int]) -> Iterator[SeenStep]:
    """Rows as steps; a step in which everybody who can speaks has the anchor among them."""
    done = 0
    for row in rows:
        before, done = done, done + row.prefill_rows_in_iter
        complete = sum(before < end <= done for end in prompt_ends)
        yield SeenStep(
            prefill_rows=row.prefill_rows_in_iter,
            decode_rows=row.decode_rows_in_iter,
            active=row.active_seq_count,
            largest_chunk=None,
            anchor_speaks=row.tokens_emitted_in_iter == row.decode_rows_in_iter + complete,
            decode_us=row.llama_decode_wall_us,
        )


def _text_of(event: object) -> str:
    """The text of a chunk; empty if it has none."""
    choices = msgspec.convert(event, Chunk).choices
    return (choices[0].text or "") if choices else ""
