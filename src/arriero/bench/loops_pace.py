"""Pace: the clock of a run and how to wait for a moment of it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

_TIMER_NS: Final = 1_000_000  # timers of event loops are good for a millisecond; the rest is waited for turn by turn


@dataclass(frozen=True, slots=True)
class Pace:
    """Passed in, so that tests run in virtual time.

    Attributes:
        clock: whole nanoseconds, monotonic.
        sleep_until: returns at that moment of the clock or just after it, at once if it has passed.
    """

    clock: Callable[[], int]
    sleep_until: Callable[[int], Awaitable[None]]


async def _sleep_until(at: int) -> None:
    # The loop's other work goes on meanwhile; only the clock brings this moment.
    while (left := at - time.perf_counter_ns()) > 0:  # noqa: ASYNC110
        await asyncio.sleep((left - _TIMER_NS) / 1e9 if left > _TIMER_NS else 0)


REAL_PACE: Final = Pace(time.perf_counter_ns, _sleep_until)
