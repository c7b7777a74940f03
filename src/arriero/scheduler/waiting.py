"""WaitingQueue: requests without a slot, in the policy's order."""

from collections.abc import Iterator

from arriero.core.errors import InvariantViolation
from arriero.scheduler.keyed_heap import KeyedHeap
from arriero.scheduler.progress import Progress


class WaitingQueue:
    """Requests by rank; ranks are unique. O(log n) to add, to take the head and to cancel."""

    def __init__(self) -> None:
        """Start empty."""
        self._heap: KeyedHeap[Progress] = KeyedHeap()

    def __len__(self) -> int:
        """How many wait."""
        return len(self._heap)

    def __iter__(self) -> Iterator[Progress]:
        """In order; O(n log n), for snapshots and checks."""
        return iter(self._heap)

    def add(self, progress: Progress) -> None:
        """Let a request wait; one that was preempted comes back to its old place.

        Raises:
            InvariantViolation: another one of this rank waits.
        """
        self._heap.add(progress.rank, progress)

    def remove(self, progress: Progress) -> None:
        """Take a request out, wherever it stands.

        Raises:
            InvariantViolation: it does not wait.
        """
        if self._heap.remove(progress.rank) is not progress:
            message = f"request {progress.request.request_id} does not wait"
            raise InvariantViolation(message)

    def head(self) -> Progress | None:
        """Who goes first, or None."""
        return self._heap.first()
