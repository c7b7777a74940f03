"""Run one scenario against an engine in either placement; scenarios are written once, as coroutines."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

from arriero.backend.protocol import Backend
from arriero.core.ids import Time, TokenId
from arriero.engine.actor import Clock, monotonic_us
from arriero.engine.engine import Engine
from arriero.engine.handle import RequestHandle, Result
from arriero.engine.observer import EngineSummary, Observer, StepRecord
from arriero.engine.options import EngineOptions
from arriero.engine.placement import Dedicated, Placement, Shared

LIMIT_S = 20.0
ENDLESS = frozenset[TokenId]()
PLACEMENTS: tuple[Placement, ...] = (Dedicated(), Shared())
CHECKED = EngineOptions(check=True)


@contextlib.asynccontextmanager
async def running(
    backend: Backend,
    placement: Placement,
    options: EngineOptions = CHECKED,
    observers: Sequence[Observer] = (),
    clock: Clock = monotonic_us,
) -> AsyncIterator[Engine]:
    """A started engine; shut down and waited for at the end, with nothing left in its memory."""
    engine = Engine(backend, options, observers=observers, clock=clock)
    engine.start(placement)
    async with asyncio.timeout(LIMIT_S):
        yield engine
        engine.shutdown()
        summary = await engine.wait_closed()
    assert summary.crashed is None
    assert not summary.residual_sequences


async def collect(handle: RequestHandle) -> list[TokenId]:
    """Every token of a stream."""
    assert handle.stream is not None
    return [token async for piece in handle.stream for token in piece]


class StepLog:
    """Observer that keeps everything."""

    def __init__(self) -> None:
        self.records: list[StepRecord] = []
        self.results: list[Result] = []
        self.summary: EngineSummary | None = None
        self.started_at: Time | None = None

    def on_start(self, at: Time) -> None:
        self.started_at = at

    def on_step(self, record: StepRecord) -> None:
        self.records.append(record)

    def on_end(self, result: Result) -> None:
        self.results.append(result)

    def on_close(self, summary: EngineSummary) -> None:
        self.summary = summary
