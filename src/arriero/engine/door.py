"""Door: the backlog under its lock, and the places that it gives out. Producers come from any thread."""

import threading
from types import TracebackType
from typing import Self

from arriero.scheduler.admission import Backlog, BacklogCounts


class Place:
    """A place at the door, to be given back exactly once; giving it back again does nothing."""

    def __init__(self, door: "Door") -> None:
        """Made by `Engine.enter`."""
        self._door: Door | None = door

    def leave(self) -> None:
        """Give it back."""
        door, self._door = self._door, None
        if door is not None:
            door.leave()

    def __enter__(self) -> Self:
        """Hold the place for a block."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """Give it back."""
        self.leave()


class Door:
    """Where a request enters; never waits."""

    def __init__(self, limit: int | None) -> None:
        """`limit` is sequences + backlog; None admits everybody."""
        self._lock = threading.Lock()
        self._backlog = Backlog(limit)

    @property
    def counts(self) -> BacklogCounts:
        """How the door was used so far."""
        with self._lock:
            return self._backlog.counts

    def enter(self) -> Place:
        """Take a place.

        Raises:
            QueueFull: none is left.
        """
        with self._lock:
            self._backlog.enter()
        return Place(self)

    def leave(self) -> None:
        """Take a place back; called by `Place` only."""
        with self._lock:
            self._backlog.leave()
