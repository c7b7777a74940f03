"""Promotions: who started while somebody more urgent was waiting, so that waiting must have counted for it."""

from collections import Counter


class Promotions:
    """How many wait, by priority; O(levels in use) for each start."""

    def __init__(self) -> None:
        """Nobody waits."""
        self._waiting: Counter[int] = Counter()

    def came(self, priority: int) -> None:
        """A request waits, for the first time or again."""
        self._waiting[priority] += 1

    def left(self, priority: int) -> None:
        """A request ended while it waited."""
        self._waiting[priority] -= 1
        if not self._waiting[priority]:
            del self._waiting[priority]

    def started(self, priority: int) -> bool:
        """A request started; whether one with a smaller number still waits."""
        self.left(priority)
        return any(other < priority for other in self._waiting)
