"""Senders: who sends what when in a simulated run, as ends of answers let them.

The same rules as in `loops.py`, on a line of whole microseconds and without anybody who waits: each end of a request
puts whatever it lets go into a queue of times.
"""

import heapq
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from arriero.bench.loops_lines import AFTER_STOP, CONVERSATION_BROKE, never_sent, why_not
from arriero.bench.schedule import Loop, Planned, Schedule
from arriero.metrics.client_life import ClientLife

NS_PER_US: Final = 1000


class Sending(NamedTuple):
    """A request that was sent.

    Attributes:
        at: on the simulator's line.
        is_intended: whether it was due then, rather than whenever its client came to it.
    """

    at: int
    is_intended: bool


class _Due(NamedTuple):
    at: int
    order: int
    number: int | None  # of a request; None: the next head, whichever that is by then
    client: int | None


class Senders:
    """The schedule's clocks and clients; requests are numbered in the order of the schedule."""

    def __init__(self, schedule: Schedule) -> None:
        """Put the heads, or the clients, into the queue."""
        self._schedule = schedule
        self._numbers = {item.ask.request_id: number for number, item in enumerate(schedule.planned)}
        self._followers = schedule.followers()
        self._queue: list[_Due] = []
        self._order = 0
        self._sent: dict[int, Sending] = {}
        self._client_of: dict[int, int] = {}  # the client that waits for the end of a request
        self._never: dict[int, tuple[int, str]] = {}  # number → when it would have been due, and why not
        self._last_due = 0  # of all that are known to be due, sent or not
        self._ends_at = None if schedule.limits.duration_ns is None else schedule.limits.duration_ns // NS_PER_US
        self._heads: deque[int] = deque()  # of a closed loop, not taken yet
        self._unsent_heads = 0  # of a closed loop, taken or not
        heads = [self._numbers[item.ask.request_id] for item in schedule.heads()]
        if schedule.loop is Loop.CLOSED:
            self._heads.extend(heads)
            self._unsent_heads = len(heads)
            for client, starts_ns in enumerate(schedule.client_starts):
                self._push(starts_ns // NS_PER_US, None, client)
        else:
            for number in heads:
                self._plan((schedule.planned[number].at_ns or 0) // NS_PER_US, number, None)

    def due(self, now: int) -> Iterator[tuple[int, int]]:
        """Take what is due: numbers and the moments at which they are sent."""
        while self._queue and self._queue[0].at <= now:
            due = heapq.heappop(self._queue)
            number = due.number
            if number is None:
                number = self._heads.popleft() if self._heads else None
            if number is None:
                continue
            self._sent[number] = Sending(due.at, self._schedule.loop is Loop.OPEN)
            self._last_due = max(self._last_due, due.at)
            if self._schedule.loop is Loop.CLOSED and self._schedule.planned[number].follows is None:
                self._unsent_heads -= 1
            if due.client is not None:
                self._client_of[number] = due.client
            yield number, due.at

    def next_at(self) -> int | None:
        """When the next one is due, or None."""
        return self._queue[0].at if self._queue else None

    def sending(self, number: int) -> Sending | None:
        """How a request was sent, or None."""
        return self._sent.get(number)

    def note_end(self, number: int, at: int, *, is_answered: bool) -> None:
        """A request has ended: whoever waited for it goes on, a conversation only from an answer."""
        item = self._schedule.planned[number]
        client = self._client_of.pop(number, None)
        for index, follower in enumerate(self._followers.get(item.ask.request_id, [])):
            carries = client if index == 0 else None
            if self._follow(follower, item, at, carries, is_answered=is_answered) and index == 0:
                client = None
        if client is not None and self._heads:
            due = at + self._schedule.planned[self._heads[0]].think_ns // NS_PER_US
            if self._ends_at is None or due < self._ends_at:
                self._push(due, self._heads.popleft(), client)

    def drain_limit(self) -> int | None:
        """When nobody waits for answers any more; None as long as that is not known."""
        drain = self._schedule.limits.drain_ns
        if drain is None:
            return None
        if self._ends_at is not None:
            return self._ends_at + drain // NS_PER_US
        return None if self._unsent_heads > 0 else self._last_due + drain // NS_PER_US

    def stopped_at(self, ended_at: int, *, interrupted: bool) -> int:
        """From when on nothing more was intended."""
        is_exhausted = self._schedule.loop is Loop.CLOSED and not self._heads
        stopped = self._last_due if self._ends_at is None or is_exhausted else self._ends_at
        return min(stopped, ended_at) if interrupted else stopped

    def with_unsent(self, lives: Sequence[ClientLife], error: str, ended_at_ns: int) -> list[ClientLife]:
        """The lives, and one for each request that was never sent, in the order of the schedule.

        Args:
            lives: of those that were sent.
            error: why the run went no further.
            ended_at_ns: when that was; what waited then for somebody's end was not due yet.
        """
        known = {life.request_id: life for life in lives}
        for number, item in enumerate(self._schedule.planned):
            if item.ask.request_id not in known:
                known[item.ask.request_id] = self._unsent(number, item, known, error, ended_at_ns)
        return [known[item.ask.request_id] for item in self._schedule.planned]

    def _follow(self, item: Planned, before: Planned, at: int, client: int | None, *, is_answered: bool) -> bool:
        """Whether it will be sent."""
        due = at + item.think_ns // NS_PER_US
        is_turn = item.ask.conversation is not None and item.ask.conversation == before.ask.conversation
        if is_turn and not is_answered:
            self._settle(item, due, CONVERSATION_BROKE)
            return False
        if self._ends_at is not None and due > self._ends_at:
            self._settle(item, due, AFTER_STOP)
            return False
        self._plan(due, self._numbers[item.ask.request_id], client)
        return True

    def _settle(self, item: Planned, due: int, error: str) -> None:
        pending = [(item, due)]
        while pending:
            each, at = pending.pop()
            self._never[self._numbers[each.ask.request_id]] = (at, error)
            followers = self._followers.get(each.ask.request_id, [])
            pending.extend((follower, at + follower.think_ns // NS_PER_US) for follower in followers)

    def _unsent(
        self, number: int, item: Planned, known: Mapping[str, ClientLife], error: str, ended_at_ns: int
    ) -> ClientLife:
        due_ns = item.at_ns
        if number in self._never:
            due_us, error = self._never[number]
            due_ns = due_us * NS_PER_US
        elif item.follows is not None:
            before = known[item.follows]  # stands before it in the schedule
            # one that was not sent either would have taken no time
            base_ns = before.intended_at if before.closed_at is None else before.closed_at
            due_ns = None if base_ns is None else base_ns + item.think_ns
            why = why_not(item, before, due_ns or 0, self._schedule.limits.duration_ns)
            if why is None and due_ns is not None:
                due_ns = max(due_ns, ended_at_ns + 1)
            error = why or error
        return never_sent(item, due_ns if self._schedule.loop is Loop.OPEN else None, error)

    def _plan(self, at: int, number: int, client: int | None) -> None:
        """Queue a request that is due then, whoever is free."""
        self._last_due = max(self._last_due, at)
        self._push(at, number, client)

    def _push(self, at: int, number: int | None, client: int | None) -> None:
        heapq.heappush(self._queue, _Due(at, self._order, number, client))
        self._order += 1
