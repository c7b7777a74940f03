"""WaitingQueue: requests without a slot, in the policy's order."""

from bisect import bisect_left
from collections.abc import Iterator
from typing import TypeAlias

from arriero.core.errors import InvariantViolation
from arriero.scheduler.progress import Progress

Rank: TypeAlias = tuple[int | float, ...]

_COMPACT_FROM = 32


class WaitingQueue:
    """Requests by rank; ranks are unique.

    A sorted list, since ranks mostly come in ascending order: then adding is O(1), like taking the head, removing
    anybody, and each step of going through all of them. Another rank costs a shift of memory. Who is removed behind the
    head leaves a gap, and gaps are closed when somebody is added, before they outnumber those who wait.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._ranks: list[Rank] = []
        self._values: dict[Rank, Progress] = {}
        self._head = 0  # who waits stands here or behind

    def __len__(self) -> int:
        """How many wait."""
        return len(self._values)

    def __iter__(self) -> Iterator[Progress]:
        """In order; whoever is removed meanwhile is left out, but nobody may be added meanwhile."""
        ranks, values = self._ranks, self._values
        for index in range(self._head, len(ranks)):
            progress = values.get(ranks[index])
            if progress is not None:
                yield progress

    def add(self, progress: Progress) -> None:
        """Let a request wait; one that was preempted comes back to its old place.

        Raises:
            InvariantViolation: another one of this rank waits.
        """
        rank = progress.rank
        if rank in self._values:
            message = f"two values of key {rank}"
            raise InvariantViolation(message)
        num_gaps = len(self._ranks) - len(self._values)
        if num_gaps > _COMPACT_FROM and num_gaps > len(self._values):
            self._ranks = [each for each in self._ranks[self._head :] if each in self._values]
            self._head = 0
        self._values[rank] = progress
        if not self._ranks or rank > self._ranks[-1]:
            self._ranks.append(rank)
        else:
            self._bring_back(rank)

    def remove(self, progress: Progress) -> None:
        """Take a request out, wherever it stands.

        Raises:
            InvariantViolation: it does not wait.
        """
        if self._values.get(progress.rank) is not progress:
            message = f"request {progress.request.request_id} does not wait"
            raise InvariantViolation(message)
        del self._values[progress.rank]
        self.head()  # pass over the gaps in front

    def head(self) -> Progress | None:
        """Who goes first, or None."""
        ranks, values = self._ranks, self._values
        while self._head < len(ranks):
            progress = values.get(ranks[self._head])
            if progress is not None:
                return progress
            self._head += 1
        return None

    def _bring_back(self, rank: Rank) -> None:
        """Put a rank among the others, or into the gap that it left."""
        index = bisect_left(self._ranks, rank)
        if self._ranks[index] != rank:
            self._ranks.insert(index, rank)
        self._head = min(self._head, index)
