"""Deadlines: which requests have to end next because of the time; those without any cost nothing.

expires_at   as long as the request is alive
start_by     until it has taken a slot for the first time
"""

from typing import NamedTuple

from arriero.core.ids import Time
from arriero.core.request import CancelReason
from arriero.scheduler.keyed_heap import Key, KeyedHeap
from arriero.scheduler.progress import Progress


class Due(NamedTuple):
    """A request whose time has come, and why."""

    progress: Progress
    reason: CancelReason


class Deadlines:
    """Live requests by their times, those of one moment by rank.

    A request that has started stays in the second heap until it would be its turn, and is passed over then.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._ends: KeyedHeap[Progress] = KeyedHeap()
        self._starts: KeyedHeap[Progress] = KeyedHeap()
        self._num_watched = 0  # in both; asked in every step, so it is kept

    def __len__(self) -> int:
        """How many times are watched."""
        return self._num_watched

    def add(self, progress: Progress) -> None:
        """Watch a request that waits for the first time, if it has a deadline."""
        request = progress.request
        if request.expires_at is not None:
            self._ends.add((request.expires_at, *progress.rank), progress)
            self._num_watched += 1
        if request.start_by is not None:
            self._starts.add((request.start_by, *progress.rank), progress)
            self._num_watched += 1

    def remove(self, progress: Progress) -> None:
        """Stop watching a request; one that is not watched is ignored."""
        request = progress.request
        if request.expires_at is not None and self._ends.remove((request.expires_at, *progress.rank)) is not None:
            self._num_watched -= 1
        if request.start_by is not None and self._starts.remove((request.start_by, *progress.rank)) is not None:
            self._num_watched -= 1

    def take_due(self, now: Time) -> Due | None:
        """Take out one whose time has come, or None: first those that expire, each kind earliest first."""
        if (key := self._ends.first_key()) is not None and key[0] <= now:
            return Due(self._take(self._ends), CancelReason.TIMEOUT)
        if (key := self._first_start()) is not None and key[0] <= now:
            return Due(self._take(self._starts), CancelReason.QUEUE_TIMEOUT)
        return None

    def next_at(self) -> Time | None:
        """The earliest time of all, or None."""
        times = [key[0] for key in (self._ends.first_key(), self._first_start()) if key is not None]
        return min(times, default=None)

    def _first_start(self) -> Key | None:
        """The first of those that have not started."""
        while (progress := self._starts.first()) is not None and _has_started(progress):
            self._take(self._starts)
        return self._starts.first_key()

    def _take(self, heap: KeyedHeap[Progress]) -> Progress:
        self._num_watched -= 1
        return heap.pop()


def _has_started(progress: Progress) -> bool:
    """Whether it holds a slot, or held one before."""
    return progress.sequence_id is not None or progress.was_preempted
