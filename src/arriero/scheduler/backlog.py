"""Backlog: who is in flight, running or waiting, against the bounds at the door.

    enter    a place, as soon as somebody asks        in flight: all, and those of its tenant
    weigh    the length of its prompt is known        tokens that wait, and those of its tenant in flight
    start    it takes a slot for the first time       it waits no more
    expire   its `start_by` has come                  it waits no more, and is to be answered now
    leave    its answer is over                       everything is given back

Asked at the door by whoever stands there: the live engine under its lock, the simulator when a request arrives. A
request is told at once that it cannot be taken, and then holds nothing.

A bound on tokens never refuses a request that would wait alone, whatever its length, since it could then never be
served. Nor do those count for whom a slot is free: they start at the next boundary between two steps.
"""

from dataclasses import dataclass
from itertools import islice

from arriero.core.errors import KeyLimit, KeyTokenLimit, QueueFull, QueueTokensFull, Refused
from arriero.core.ids import Time
from arriero.scheduler.keyed_heap import KeyedHeap


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogLimits:
    """The bounds; None is no bound.

    Attributes:
        sequences: requests that run at once.
        waiting: requests that may wait beside those.
        waiting_tokens: prompt tokens that may wait.
        tenant_requests: requests of one tenant in flight.
        tenant_tokens: their prompt tokens.
    """

    sequences: int
    waiting: int | None = None
    waiting_tokens: int | None = None
    tenant_requests: int | None = None
    tenant_tokens: int | None = None

    @property
    def in_flight(self) -> int | None:
        """Requests in flight, running or waiting."""
        return None if self.waiting is None else self.sequences + self.waiting


@dataclass(frozen=True, slots=True)
class BacklogCounts:
    """How the door was used.

    Attributes:
        in_flight: places taken now.
        peak: the most places taken at once.
        accepted: places ever taken.
        refused: how often a request was turned away, for whichever bound.
        waiting: places of requests that have not started.
        waiting_tokens: their prompt tokens.
    """

    in_flight: int
    peak: int
    accepted: int
    refused: int
    waiting: int = 0
    waiting_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Ahead:
    """Waiting requests that go before a newcomer.

    Attributes:
        requests: how many.
        tokens: in their prompts.
    """

    requests: int = 0
    tokens: int = 0


@dataclass(slots=True, eq=False)
class Ticket:
    """One place.

    Attributes:
        number: places are counted from 1.
        tenant: who answers for it, or None.
        start_by: when it has waited for long enough; None: never.
        tokens: of its prompt, 0 until it is weighed.
        deadline_at: when its answer is wanted, None if nobody said.
        is_inside: it was not given back.
    """

    number: int
    tenant: str | None
    start_by: Time | None
    tokens: int = 0
    deadline_at: Time | None = None
    is_inside: bool = True


@dataclass(slots=True)
class _Account:
    """What one tenant has in flight."""

    requests: int = 0
    tokens: int = 0


@dataclass(slots=True)
class _Totals:
    """Since the start."""

    peak: int = 0
    accepted: int = 0
    refused: int = 0
    last_number: int = 0


class Backlog:
    """Places, counted against every bound. Not thread-safe: the live engine holds its lock around each call.

    Every call is O(log n) in the places taken, `weigh` O(sequences) beside it; `ahead` alone is O(n).
    """

    def __init__(self, limits: BacklogLimits) -> None:
        """Start empty."""
        self.limits = limits
        self._in_flight = 0
        self._waiting: dict[int, Ticket] = {}  # by number, so in the order in which they entered
        self._waiting_tokens = 0
        self._due: KeyedHeap[Ticket] = KeyedHeap()  # waiting ones with a `start_by`
        self._accounts: dict[str, _Account] = {}  # of tenants with something in flight
        self._totals = _Totals()

    @property
    def counts(self) -> BacklogCounts:
        """How the door was used so far."""
        totals = self._totals
        return BacklogCounts(
            in_flight=self._in_flight,
            peak=totals.peak,
            accepted=totals.accepted,
            refused=totals.refused,
            waiting=len(self._waiting),
            waiting_tokens=self._waiting_tokens,
        )

    def enter(
        self,
        tenant: str | None = None,
        *,
        tokens: int | None = None,
        start_by: Time | None = None,
        has_queue: bool = False,
    ) -> Ticket:
        """Take a place.

        Args:
            tenant: who answers for it; None: nobody, so that no bound of tenants holds.
            tokens: of its prompt, if that is known already: then it is weighed as well.
            start_by: when it has waited for long enough.
            has_queue: somebody found no room at the last boundary, though a slot was free.

        Raises:
            QueueFull, KeyLimit: a bound is reached; nothing was taken.
        """
        limits, account = self.limits, self._account(tenant)
        if limits.in_flight is not None and self._in_flight >= limits.in_flight:
            message = f"{self._in_flight} requests are in flight, which is the limit; try again later"
            raise self._counted(QueueFull(message))
        if limits.tenant_requests is not None and tenant is not None and account.requests >= limits.tenant_requests:
            message = f"{account.requests} requests of this API key are in flight, which is its limit; wait for one"
            raise self._counted(KeyLimit(message))
        self._totals.last_number += 1
        ticket = Ticket(self._totals.last_number, tenant, start_by)
        if tokens is not None:
            self._check_tokens(ticket, tokens, has_queue=has_queue)
        self._take(ticket, account, tokens or 0)
        return ticket

    def weigh(self, ticket: Ticket, tokens: int, *, deadline_at: Time | None = None, has_queue: bool = False) -> None:
        """The prompt of a place is known: count its tokens; once.

        Args:
            ticket: which place.
            tokens: of its prompt.
            deadline_at: when its answer is wanted.
            has_queue: somebody found no room at the last boundary, though a slot was free.

        Raises:
            QueueTokensFull, KeyTokenLimit: a bound is reached; the place is still to be given back.
        """
        assert ticket.is_inside, "a place that was given back is weighed"
        assert ticket.tokens == 0, "a place is weighed twice"
        self._check_tokens(ticket, tokens, has_queue=has_queue)
        ticket.tokens, ticket.deadline_at = tokens, deadline_at
        if ticket.tenant is not None:
            self._accounts[ticket.tenant].tokens += tokens
        if ticket.number in self._waiting:
            self._waiting_tokens += tokens

    def start(self, ticket: Ticket) -> None:
        """Its request takes a slot; later times, and one that does not wait any more, change nothing."""
        self._stop_waiting(ticket)

    def expire(self, now: Time) -> list[Ticket]:
        """Those that have waited for long enough, earliest first; each is named once and waits no more."""
        late: list[Ticket] = []
        while (next_at := self.next_at()) is not None and next_at <= now:
            ticket = self._due.pop()
            self._stop_waiting(ticket)
            late.append(ticket)
        return late

    def next_at(self) -> Time | None:
        """When the next one has waited for long enough, or None."""
        key = self._due.first_key()
        return None if key is None else key[0]

    def leave(self, ticket: Ticket) -> None:
        """Give a place back."""
        assert ticket.is_inside, "a place was given back twice"
        ticket.is_inside = False
        self._stop_waiting(ticket)
        self._in_flight -= 1
        if ticket.tenant is not None:
            account = self._accounts[ticket.tenant]
            account.requests -= 1
            account.tokens -= ticket.tokens
            if not account.requests:
                del self._accounts[ticket.tenant]

    def ahead(self, deadline_at: Time | None = None) -> Ahead:
        """Who waits: all, or only those whose answers are wanted by then."""
        if deadline_at is None:
            return Ahead(len(self._waiting), self._waiting_tokens)
        before = [
            each.tokens
            for each in self._waiting.values()
            if each.deadline_at is not None and each.deadline_at <= deadline_at
        ]
        return Ahead(len(before), sum(before))

    # ── helpers ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _account(self, tenant: str | None) -> _Account:
        """What a tenant has in flight; not in the books yet if that is nothing."""
        found = None if tenant is None else self._accounts.get(tenant)
        return _Account() if found is None else found

    def _check_tokens(self, ticket: Ticket, tokens: int, *, has_queue: bool) -> None:
        limits, account = self.limits, self._account(ticket.tenant)
        if limits.tenant_tokens is not None and account.tokens and account.tokens + tokens > limits.tenant_tokens:
            message = (
                f"requests of this API key with {account.tokens} prompt tokens are in flight and this one has "
                f"{tokens}; its limit is {limits.tenant_tokens}, so wait for one of them"
            )
            raise self._counted(KeyTokenLimit(message))
        if limits.waiting_tokens is None:
            return
        num_free = 0 if has_queue else max(0, limits.sequences - (self._in_flight - len(self._waiting)))
        next_ones = list(islice(self._waiting.values(), num_free))
        if len(next_ones) < num_free or ticket in next_ones:
            return  # a slot is free for it
        queued = self._waiting_tokens - sum(each.tokens for each in next_ones)
        if queued and queued + tokens > limits.waiting_tokens:
            message = (
                f"{queued} prompt tokens wait and this request has {tokens}; "
                f"at most {limits.waiting_tokens} may wait, so try again later"
            )
            raise self._counted(QueueTokensFull(message))

    def _take(self, ticket: Ticket, account: _Account, tokens: int) -> None:
        totals = self._totals
        ticket.tokens = tokens
        self._in_flight += 1
        self._waiting[ticket.number] = ticket
        self._waiting_tokens += tokens
        if ticket.start_by is not None:
            self._due.add((ticket.start_by, ticket.number), ticket)
        if ticket.tenant is not None:
            account.requests += 1
            account.tokens += tokens
            self._accounts[ticket.tenant] = account
        totals.accepted += 1
        totals.peak = max(totals.peak, self._in_flight)

    def _stop_waiting(self, ticket: Ticket) -> None:
        if self._waiting.pop(ticket.number, None) is None:
            return
        self._waiting_tokens -= ticket.tokens
        if ticket.start_by is not None:
            self._due.remove((ticket.start_by, ticket.number))

    def _counted(self, error: Refused) -> Refused:
        self._totals.refused += 1
        return error
