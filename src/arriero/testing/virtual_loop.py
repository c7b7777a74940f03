"""VirtualLoop: an event loop whose time jumps to the next timer, so that an hour of waiting takes no time.

    lives = run_virtual(measure())        # inside: asyncio.sleep, timers, events, tasks
    pace = virtual_pace()                 # the clock and the sleep of the running loop

Nothing outside can wake it: no sockets, no other threads. When every task waits for something that no timer will
bring, it raises instead of waiting for ever.
"""

import asyncio
import math
from collections.abc import Coroutine
from typing import Any, Final, TypeVar, cast

from arriero.bench.loops_pace import Pace

T = TypeVar("T")
_NS: Final = 1_000_000_000


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop on a line of whole nanoseconds, from 0."""

    def __init__(self) -> None:
        """Nothing is due yet."""
        super().__init__()
        self._now_ns = 0
        self._selector = _Jumps(self)
        self._clock_resolution = 1 / _NS

    def time(self) -> float:
        """Seconds, as timers of asyncio count them."""
        return self._now_ns / _NS

    def time_ns(self) -> int:
        """Whole nanoseconds."""
        return self._now_ns

    def jump(self, seconds: float) -> None:
        """Let time pass; at least a nanosecond, so that no timer is missed for ever."""
        self._now_ns += max(1, math.ceil(round(seconds * _NS, 3)))

    def _process_events(self, event_list: object) -> None:
        """Called by the base class with what its selector found: nothing."""

    def _write_to_self(self) -> None:
        """Called by the base class to wake a sleeping loop: this one never sleeps."""


class _Jumps:
    """Stands where other loops wait for sockets."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        """Jump over the time for which others would wait."""
        if timeout is None:
            raise RuntimeError("every task waits for something that no timer will bring")
        if timeout > 0:
            self._loop.jump(timeout)
        return []


def run_virtual(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end on a fresh virtual loop."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


def virtual_pace() -> Pace:
    """The clock and the sleep of the running virtual loop."""
    loop = cast("VirtualLoop", asyncio.get_running_loop())

    async def sleep_until(at: int) -> None:
        while (left := at - loop.time_ns()) > 0:  # noqa: ASYNC110 - only the clock brings this moment
            await asyncio.sleep(left / _NS)

    return Pace(loop.time_ns, sleep_until)
