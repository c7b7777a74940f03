"""The measured part of a run: after the warm-up, until shortly before arrivals stop."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple


class Window(NamedTuple):
    """From and until, both included."""

    begins_at: int
    ends_at: int

    @property
    def length(self) -> int:
        """Microseconds; 0 if it ends before it begins."""
        return max(0, self.ends_at - self.begins_at)

    def holds(self, at: float | None) -> bool:
        """Whether a moment lies in it; one that never came does not."""
        return at is not None and self.begins_at <= at <= self.ends_at

    def count(self, ascending: Sequence[int]) -> int:
        """How many of the moments lie in it."""
        return bisect_right(ascending, self.ends_at) - bisect_left(ascending, self.begins_at)


def measured_window(first_arrival: int, last_arrival: int, warm_up: int, cool_down: int) -> Window:
    """[first arrival + warm-up, last arrival - cool-down]."""
    return Window(first_arrival + warm_up, last_arrival - cool_down)
