"""OverdueWatch: a thread that ends decode calls which take far longer than predicted.

The engine's own thread is inside the call, so somebody else has to look at the clock. Steps follow each other within
milliseconds and next to none is overdue, so nobody is woken for a step: the watch looks at whichever call runs, sleeps
until that one is overdue or for a short while, whichever comes first, and looks again. When no call can be overdue it
sleeps until one begins.

    asleep ──a call begins──▶ looks ──no call──▶ asleep
                               │ over its time
                               ▼
                     `Interrupter.end_overdue`
"""

import threading
from collections.abc import Callable
from typing import Final

from arriero.core.ids import Time
from arriero.engine.interrupter import Interrupter

LOOK_EVERY: Final[Time] = 50_000
"""Microseconds between two looks: how late a call may be ended that began and was overdue between them."""


class OverdueWatch:
    """Started with the engine, stopped at its end."""

    def __init__(self, interrupter: Interrupter, clock: Callable[[], Time]) -> None:
        """Nothing runs before `start`; the clock is the engine's."""
        self._interrupter = interrupter
        self._clock = clock
        self._stopped = threading.Event()

    def start(self, name: str) -> None:
        """Begin to watch, on a thread of this name."""
        threading.Thread(target=self._watch, name=name, daemon=True).start()

    def stop(self) -> None:
        """The engine has ended; from any thread, never waits."""
        self._stopped.set()
        self._interrupter.timed.set()

    def _watch(self) -> None:
        timed = self._interrupter.timed
        while not self._stopped.is_set():
            timed.wait()
            timed.clear()
            while (pause := self._look()) is not None and not self._stopped.wait(pause / 1e6):
                pass

    def _look(self) -> Time | None:
        """End the running call if it is overdue; microseconds until the next look, None without a call."""
        overdue_at = self._interrupter.overdue_at
        if overdue_at is None:
            return None
        now = self._clock()
        if now >= overdue_at:
            self._interrupter.end_overdue(now)
            return LOOK_EVERY
        return min(LOOK_EVERY, overdue_at - now)
