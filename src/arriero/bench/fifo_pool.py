"""FifoPool: whole contexts, one running request each; who comes first is served first.

    acquire   the lowest free context at once, or a place at the end of the queue
    release   hands the context to the head of the queue and wakes exactly that one, or puts it back
    leave     somebody gives up waiting; whoever was served meanwhile releases instead

It is the historical control: correct, and without any gain over one shared context. The lock is held for a few
operations and never while anybody computes, waits, or is told a result.
"""

import heapq
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from arriero.core.errors import ConfigError, InvariantViolation

Wake: TypeAlias = Callable[[], None]
"""Tells a waiter that its context is there; must not wait and must not use the pool."""


class Ticket:
    """One request's place: a context, or a place in the queue.

    Attributes:
        number: counts acquires from 0; contexts are handed out in this order.
        has_waited: whether it had to wait.
        context: the number of the context that it holds, or None.
    """

    __slots__ = ("context", "has_waited", "number", "wake")

    def __init__(self, number: int, wake: Wake, context: int | None) -> None:
        """Made by `FifoPool.acquire`."""
        self.number = number
        self.wake = wake
        self.context = context
        self.has_waited = context is None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolCounts:
    """How a pool was used.

    Attributes:
        acquires: contexts handed out, at once or after waiting.
        releases: contexts given back.
        waits: requests that had to wait.
        wakes: waiters that were told that their context is there.
        left: waiters that gave up.
        in_use: contexts held now.
        peak: the most contexts held at once.
        order: numbers of the tickets, in the order in which they were served.
    """

    acquires: int
    releases: int
    waits: int
    wakes: int
    left: int
    in_use: int
    peak: int
    order: tuple[int, ...]


class FifoPool:
    """Hands out contexts by number; any thread may call."""

    def __init__(self, num_contexts: int) -> None:
        """Start with all contexts free.

        Raises:
            ConfigError: there is none.
        """
        if num_contexts < 1:
            raise ConfigError(f"{num_contexts} contexts: a pool needs at least one")
        self._lock = threading.Lock()
        self._num_contexts = num_contexts
        self._free = list(range(num_contexts))
        self._queue: deque[Ticket] = deque()
        self._counts = {"tickets": 0, "waits": 0, "wakes": 0, "left": 0, "releases": 0, "peak": 0}
        self._order: list[int] = []

    def acquire(self, wake: Wake) -> Ticket:
        """Take a context, or a place at the end of the queue; never waits.

        Args:
            wake: called once, from whatever thread releases, when a ticket that had to wait got its context.
        """
        with self._lock:
            # Whoever waits goes first: a context is only free while nobody waits.
            context = heapq.heappop(self._free) if self._free else None
            ticket = Ticket(self._counts["tickets"], wake, context)
            self._counts["tickets"] += 1
            if context is None:
                self._counts["waits"] += 1
                self._queue.append(ticket)
            else:
                self._serve(ticket, context)
            return ticket

    def release(self, ticket: Ticket) -> None:
        """Give a context back; wakes the head of the queue, if anybody waits.

        Raises:
            InvariantViolation: the ticket holds none.
        """
        with self._lock:
            context = ticket.context
            if context is None:
                raise InvariantViolation(f"ticket {ticket.number} releases a context that it does not hold")
            ticket.context = None
            self._counts["releases"] += 1
            following = self._queue.popleft() if self._queue else None
            if following is None:
                heapq.heappush(self._free, context)
            else:
                self._counts["wakes"] += 1
                self._serve(following, context)
        if following is not None:
            following.wake()

    def leave(self, ticket: Ticket) -> bool:
        """Stop waiting; False if the ticket holds a context by now, which must then be released. O(queue)."""
        with self._lock:
            if ticket.context is not None:
                return False
            if ticket in self._queue:
                self._queue.remove(ticket)
                self._counts["left"] += 1
            return True

    @property
    def counts(self) -> PoolCounts:
        """How it was used so far."""
        with self._lock:
            counts = self._counts
            return PoolCounts(
                acquires=len(self._order),
                releases=counts["releases"],
                waits=counts["waits"],
                wakes=counts["wakes"],
                left=counts["left"],
                in_use=self._num_contexts - len(self._free),
                peak=counts["peak"],
                order=tuple(self._order),
            )

    def _serve(self, ticket: Ticket, context: int) -> None:
        """Hand a context over; the lock is held."""
        ticket.context = context
        self._order.append(ticket.number)
        self._counts["peak"] = max(self._counts["peak"], self._num_contexts - len(self._free))
