"""LoopWatch: how long the event loop of a run was blocked, and quiet for Python's garbage collector.

What is stamped on receipt is only as good as the loop that receives it. A timer on the loop that comes late says how
long nothing else could run: a long callback, a pause of the collector, or a process that the system did not let run.
"""

import asyncio
import gc
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from arriero.bench.target import Clock
from arriero.metrics.validity import BLOCKED_NS

INTERVAL_S: Final = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopReport:
    """What a watch has seen.

    Attributes:
        longest_block_ns: the latest that its timer came. A block may have been longer by up to `interval_ns`, if it
            began just after the timer was set.
        blocked_at: when that one ended, on the clock of the run; None if the timer never came late.
        num_blocks: how many were longer than `limit_ns`.
        num_ticks: how often it looked.
        num_collections: of the garbage collector; the longest and all together took so long.
    """

    interval_ns: int
    limit_ns: int
    longest_block_ns: int
    blocked_at: int | None
    num_blocks: int
    num_ticks: int
    num_collections: int
    longest_collection_ns: int
    total_collection_ns: int


class _Collections:
    """Times the garbage collector of the process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began_at = 0
        self.num = 0
        self.longest_ns = 0
        self.total_ns = 0

    def __call__(self, phase: str, info: dict[str, Any]) -> None:
        """Called by the collector as it starts and stops."""
        del info
        if phase == "start":
            self._began_at = self._clock()
            return
        took = self._clock() - self._began_at
        self.num += 1
        self.total_ns += took
        self.longest_ns = max(self.longest_ns, took)


class LoopWatch:
    """Watches the running event loop while it is entered: `async with LoopWatch() as watch: ...; watch.report()`."""

    def __init__(
        self, clock: Clock = time.perf_counter_ns, *, interval_s: float = INTERVAL_S, limit_ns: int = BLOCKED_NS
    ) -> None:
        """Nothing is watched yet."""
        self._clock = clock
        self._interval_ns = round(interval_s * 1e9)
        self._limit_ns = limit_ns
        self._collections = _Collections(clock)
        self._timer: asyncio.TimerHandle | None = None
        self._due_at = 0
        self._longest_ns = 0
        self._blocked_at: int | None = None
        self._num_blocks = 0
        self._num_ticks = 0

    async def __aenter__(self) -> Self:
        gc.callbacks.append(self._collections)
        self._set()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        gc.callbacks.remove(self._collections)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._look()  # a block may have gone on until now

    def report(self) -> LoopReport:
        """So far."""
        return LoopReport(
            interval_ns=self._interval_ns,
            limit_ns=self._limit_ns,
            longest_block_ns=self._longest_ns,
            blocked_at=self._blocked_at,
            num_blocks=self._num_blocks,
            num_ticks=self._num_ticks,
            num_collections=self._collections.num,
            longest_collection_ns=self._collections.longest_ns,
            total_collection_ns=self._collections.total_ns,
        )

    def _set(self) -> None:
        self._due_at = self._clock() + self._interval_ns
        self._timer = asyncio.get_running_loop().call_later(self._interval_ns / 1e9, self._tick)

    def _tick(self) -> None:
        self._num_ticks += 1
        self._look()
        self._set()

    def _look(self) -> None:
        now = self._clock()
        late = now - self._due_at
        if late > self._longest_ns:
            self._longest_ns, self._blocked_at = late, now
        if late > self._limit_ns:
            self._num_blocks += 1


@contextmanager
def quiet_collector() -> Generator[None]:
    """Keep the cyclic garbage collector away while a run lasts.

    A collection of everything walks through all lives kept so far and stops the loop for it, tens of milliseconds in
    a long run: a pause of the instrument that would be booked on the server. The client makes no reference cycles
    that outlive a request, so nothing is left lying meanwhile; counting references frees it all.
    """
    if not gc.isenabled():
        yield
        return
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
