"""WaitingQueue: requests without a slot, by rank; and what a step needs to know of any order over them."""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Protocol, TypeAlias

from arriero.core.errors import InvariantViolation
from arriero.scheduler.progress import Progress

Rank: TypeAlias = tuple[int | float, ...]

_COMPACT_FROM = 32


class Offers(Protocol):
    """Those who wait, in the order in which a step offers them a slot."""

    def __len__(self) -> int:
        """How many wait."""
        ...

    def __iter__(self) -> Iterator[Progress]:
        """Each of them once; whoever starts meanwhile was the one given last."""
        ...

    def head(self) -> Progress | None:
        """Who is to be offered a slot next, or None; the same one until it starts."""
        ...


class Watcher(Protocol):
    """Keeps books of its own about those who wait."""

    def came(self, progress: Progress) -> None:
        """It waits now, for the first time or again."""
        ...

    def left(self, progress: Progress) -> None:
        """It waits no more: it is about to take a slot, or to end."""
        ...


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
        self._watcher: Watcher | None = None

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
        if self._watcher is not None:
            self._watcher.came(progress)

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
        if self._watcher is not None:
            self._watcher.left(progress)

    def watch(self, watcher: Watcher) -> None:
        """Let somebody follow who waits, from those who wait now on; there is one watcher at most.

        Raises:
            InvariantViolation: there is one already.
        """
        if self._watcher is not None:
            message = "two policies watch one queue"
            raise InvariantViolation(message)
        self._watcher = watcher
        for progress in self:
            watcher.came(progress)

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
