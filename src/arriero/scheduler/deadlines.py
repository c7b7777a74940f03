"""Deadlines: which requests expire next; requests without a deadline cost nothing."""

from arriero.core.ids import Time
from arriero.scheduler.keyed_heap import Key, KeyedHeap
from arriero.scheduler.progress import Progress


class Deadlines:
    """Live requests by `expires_at`, those of one moment by rank."""

    def __init__(self) -> None:
        """Start empty."""
        self._heap: KeyedHeap[Progress] = KeyedHeap()

    def __len__(self) -> int:
        """How many are watched."""
        return len(self._heap)

    def add(self, progress: Progress) -> None:
        """Watch a request, if it has a deadline."""
        if (key := _key(progress)) is not None:
            self._heap.add(key, progress)

    def remove(self, progress: Progress) -> None:
        """Stop watching a request; one that is not watched is ignored."""
        if (key := _key(progress)) is not None:
            self._heap.remove(key)

    def due(self, now: Time) -> list[Progress]:
        """Take out all whose time has come, earliest first."""
        due: list[Progress] = []
        while (next_at := self.next_at()) is not None and next_at <= now:
            due.append(self._heap.pop())
        return due

    def next_at(self) -> Time | None:
        """The earliest deadline, or None."""
        key = self._heap.first_key()
        return None if key is None else key[0]


def _key(progress: Progress) -> Key | None:
    expires_at = progress.request.expires_at
    return None if expires_at is None else (expires_at, *progress.rank)
