"""Doorkeeper: tells those who have waited for long enough, at their time, whatever the engine does.

One timer for all on the event loop; a decode call that holds the engine does not hold it.
"""

import asyncio

from arriero.core.ids import Time
from arriero.engine.engine import Engine


class Doorkeeper:
    """Watches the door of one engine; on the event loop only."""

    def __init__(self, engine: Engine) -> None:
        """Nobody is watched."""
        self._engine = engine
        self._timer: asyncio.TimerHandle | None = None
        self._wakes_at: Time = 0

    def watch(self) -> None:
        """Somebody who waits for a bounded time has come: wake in time."""
        next_at = self._engine.places.next_at()
        if next_at is None or (self._timer is not None and self._wakes_at <= next_at):
            return  # a timer for somebody who has left meanwhile wakes for nothing
        self.close()
        delay_s = max(0, next_at - self._engine.now()) / 1e6
        self._wakes_at = next_at
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._wake)

    def close(self) -> None:
        """Watch no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self) -> None:
        self._timer = None
        for place in self._engine.places.expire(self._engine.now()):
            place.tell_late()
        self.watch()
