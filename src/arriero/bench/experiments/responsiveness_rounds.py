"""Rounds of responsiveness: each runs one kind of trial on a fresh engine in one placement."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from arriero.backend.protocol import Backend
from arriero.bench.experiments.contexts import ContextShape, ModelSource
from arriero.bench.experiments.placements import PlacementWord, placement_of
from arriero.bench.experiments.responsiveness_trials import (
    NO_END_TOKENS,
    CancelTrial,
    FanOut,
    FanOutStream,
    Hang,
    cancel_trials,
    in_thread,
)
from arriero.bench.experiments.steps import StepLog, decode_step_us, shape_of
from arriero.core.ids import TokenId
from arriero.engine.engine import Engine
from arriero.engine.observer import StepRecord
from arriero.engine.options import EngineOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What every round of a run has in common.

    Attributes:
        positions: of one sequence.
        num_rows: rows of one decode call.
        limit_s: a trial that takes longer hangs.
    """

    source: ModelSource
    prompt: tuple[TokenId, ...]
    budget: int
    positions: int
    num_rows: int
    threads: int | None
    limit_s: float

    def backend(self, num_sequences: int) -> Backend:
        """A fresh one."""
        shape = ContextShape(
            num_sequences=num_sequences, positions=self.positions, num_rows=self.num_rows, threads=self.threads
        )
        return self.source.make(shape)


@dataclass(slots=True, kw_only=True)
class CancelRound:
    """Cancels of waiting requests on one engine.

    Attributes:
        asked: trials that should have been run.
        hang: what did not come back, or None.
        admitted: requests that got a slot, the one that took it away from all others left out.
        decode_calls: made while requests were cancelled.
    """

    placement: PlacementWord
    asked: int
    trials: list[CancelTrial] = field(default_factory=list[CancelTrial])
    hang: str | None = None
    admitted: int = 0
    decode_calls: int = 0


@dataclass(slots=True, kw_only=True)
class FanOutRound:
    """Streams that were submitted together, on one engine.

    Attributes:
        trials: the streams of each trial.
        shapes: hash → in which company it was computed, for each stream in the order of `trials`.
        decode_us: decode calls of one request alone, before the trials.
        idle_us: turns of the loop with nothing to compute.
    """

    placement: PlacementWord
    trials: list[list[FanOutStream]] = field(default_factory=list[list[FanOutStream]])
    shapes: list[tuple[object, str]] = field(default_factory=list[tuple[object, str]])
    hang: str | None = None
    decode_us: list[int] = field(default_factory=list[int])
    idle_us: list[int] = field(default_factory=list[int])


@asynccontextmanager
async def running(engine: Engine, backend: Backend, placement: PlacementWord, limit_s: float) -> AsyncGenerator[None]:
    """Start an engine, and end it whatever happened; one that does not end keeps its backend.

    Raises:
        PlacementRefused: the placement cannot be had. ConfigError: the engine cannot run so. Hang: it did not end.
    """
    try:
        engine.start(placement_of(placement))
    except Exception:
        backend.close()
        raise
    try:
        yield
    finally:
        engine.shutdown()
        engine.cancel_all()
        try:
            await in_thread(lambda: engine.join(limit_s), limit_s * 2)
        except Hang:
            backend.interrupt()  # nothing may be freed while it is being computed with
            await in_thread(lambda: engine.join(limit_s), limit_s * 2)
        backend.close()


async def cancel_round(bench: Bench, placement: PlacementWord, number: int) -> CancelRound:
    """Cancel waiting requests on an engine whose only slot is out of use, so that none can ever be admitted.

    The slot goes to a preloaded request, and the published slot pools do not give such a slot to anybody again.

    Raises:
        PlacementRefused: the placement cannot be had.
    """
    found = CancelRound(placement=placement, asked=number)
    backend = bench.backend(num_sequences=1)
    engine = Engine(backend, EngineOptions(published_pools=False))
    first = engine.submit(bench.prompt, 1, end_tokens=NO_END_TOKENS, preloaded=True)
    try:
        async with running(engine, backend, placement, bench.limit_s):
            await first.result()
            before = (await engine.ask_snapshot()).totals

            def work() -> None:
                cancel_trials(engine, bench.prompt, bench.budget, number, bench.limit_s, found.trials)

            await in_thread(work, number * bench.limit_s)
            after = (await engine.ask_snapshot()).totals
            found.admitted = after.admitted - before.admitted
            found.decode_calls = after.decode_calls - before.decode_calls
    except Hang as hang:
        found.hang = str(hang)
    return found


async def fan_out_round(
    bench: Bench, placement: PlacementWord, number: int, num_streams: int, yardstick_tokens: int
) -> FanOutRound:
    """One request alone as the yardstick, one warm-up trial, then the trials.

    Raises:
        PlacementRefused: the placement cannot be had.
    """
    found = FanOutRound(placement=placement)
    backend = bench.backend(num_sequences=num_streams)
    log = StepLog()
    engine = Engine(backend, EngineOptions(), observers=[log])
    fan_out = FanOut(engine, bench.prompt, bench.budget, num_streams)
    try:
        async with running(engine, backend, placement, bench.limit_s):
            await engine.submit(bench.prompt, yardstick_tokens, end_tokens=NO_END_TOKENS).result()
            found.decode_us = decode_step_us(log.computed())
            await in_thread(fan_out.trial, bench.limit_s)
            log.records.clear()
            for _ in range(number):
                streams = await in_thread(fan_out.trial, bench.limit_s)
                await engine.ask_snapshot()  # a turn of the loop later every record of the trial is there
                found.trials.append(streams)
                _note(found, streams, log.records)
                log.records.clear()
    except Hang as hang:
        found.hang = str(hang)
    finally:
        fan_out.close()
    return found


def _note(found: FanOutRound, streams: list[FanOutStream], records: list[StepRecord]) -> None:
    found.idle_us += [
        int(each.ended_at - each.began_at) for each in records if not each.plan.rows and not each.messages
    ]
    for stream in streams:
        result = stream.result
        found.shapes.append((shape_of(records, result.request_id), f"{result.token_hash:016x}"))
