"""Door: the backlog under its lock, and the places that it gives out.

Producers come from any thread, and the engine says from its own when a request has started; a request that starts and
one that has waited for long enough are told apart here, so that none is both.
"""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from arriero.core.ids import Time
from arriero.scheduler.backlog import Ahead, Backlog, BacklogCounts, BacklogLimits, Ticket


class Place:
    """A place at the door, to be given back exactly once; giving it back again does nothing.

    Attributes:
        on_late: called by `tell_late`: its request has waited for long enough, and will be cancelled by whoever is
            called.
    """

    def __init__(self, door: "Door", ticket: Ticket) -> None:
        """Made by `Engine.enter`."""
        self._door: Door | None = door
        self._ticket = ticket
        self.on_late: Callable[[], None] | None = None

    def weigh(self, tokens: int, *, deadline_at: Time | None = None, has_queue: bool = False) -> None:
        """The prompt is known; as `Backlog.weigh`.

        Raises:
            QueueTokensFull, KeyTokenLimit: a bound is reached; the place is still to be given back.
        """
        assert self._door is not None, "a place that was given back is weighed"
        self._door.weigh(self._ticket, tokens, deadline_at=deadline_at, has_queue=has_queue)

    def start(self) -> None:
        """Its request has taken a slot."""
        door = self._door
        if door is not None:
            door.start(self._ticket)

    def tell_late(self) -> None:
        """Tell whoever waits for the answer."""
        if self.on_late is not None:
            self.on_late()

    def leave(self) -> None:
        """Give it back."""
        door, self._door = self._door, None
        if door is not None:
            door.leave(self._ticket)

    def __enter__(self) -> Self:
        """Hold the place for a block."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """Give it back."""
        self.leave()


class Door:
    """Where a request enters; never waits."""

    def __init__(self, limits: BacklogLimits) -> None:
        """Nobody is inside."""
        self._lock = threading.Lock()
        self._backlog = Backlog(limits)
        self._places: dict[int, Place] = {}  # by ticket, of those that may have waited for long enough some day

    @property
    def limits(self) -> BacklogLimits:
        """The bounds."""
        return self._backlog.limits

    @property
    def counts(self) -> BacklogCounts:
        """How the door was used so far."""
        with self._lock:
            return self._backlog.counts

    def enter(
        self,
        tenant: str | None = None,
        *,
        tokens: int | None = None,
        start_by: Time | None = None,
        has_queue: bool = False,
    ) -> Place:
        """Take a place; as `Backlog.enter`.

        Raises:
            QueueFull, KeyLimit: a bound is reached.
        """
        with self._lock:
            ticket = self._backlog.enter(tenant, tokens=tokens, start_by=start_by, has_queue=has_queue)
            place = Place(self, ticket)
            if start_by is not None:
                self._places[ticket.number] = place
        return place

    def expire(self, now: Time) -> list[Place]:
        """Places whose requests have waited for long enough, earliest first; each is named once.

        The caller calls their `tell_late`, where those who wait for the answers are.
        """
        with self._lock:
            return [self._places.pop(ticket.number) for ticket in self._backlog.expire(now)]

    def next_at(self) -> Time | None:
        """When `expire` finds somebody, or None."""
        with self._lock:
            return self._backlog.next_at()

    def ahead(self, deadline_at: Time | None = None) -> Ahead:
        """Who waits: all, or only those whose answers are wanted by then."""
        with self._lock:
            return self._backlog.ahead(deadline_at)

    # ── called by `Place` only ──────────────────────────────────────────────────────────────────────────────────────

    def weigh(self, ticket: Ticket, tokens: int, *, deadline_at: Time | None, has_queue: bool) -> None:
        """Count the tokens of a prompt."""
        with self._lock:
            self._backlog.weigh(ticket, tokens, deadline_at=deadline_at, has_queue=has_queue)

    def start(self, ticket: Ticket) -> None:
        """Its request waits no more."""
        with self._lock:
            self._backlog.start(ticket)
            self._places.pop(ticket.number, None)

    def leave(self, ticket: Ticket) -> None:
        """Take a place back."""
        with self._lock:
            self._backlog.leave(ticket)
            self._places.pop(ticket.number, None)
