"""FairShare: equal service, in tokens, to all tenants that have requests waiting.

    due of a tenant   tokens computed for it, decoded ones counted twice
                      + prompt tokens that those who run for it still have to compute

Whose due is least goes first, with its oldest request. What is promised counts as much as what was done: else a tenant
with long prompts would take every slot before the first of them is computed. What never comes to be computed, because
its request ends or yields before, is taken off again. What a cache holds costs nothing, and what has to be computed
again after a preemption costs as before: it is time that others do not get.

A tenant that comes back after it had nothing waiting begins with the least due of those who wait, if its own is less:
time in which it asked for nothing is not made up for.

So for any two tenants that both have requests waiting from one moment to another, the service they get in between
differs by no more than a constant: a tenant is chosen only while no other waiting one has less, and after that gets,
beyond what the others get, at most the prompt it was chosen for and the answers of its running requests. The bound
knows the longest prompt, the longest answer and the number of slots, not the time and not what others send. Requests
that wait for a prefix of another one, and those whose KV does not fit, hold their tenant back by their own choice.

Source: the virtual token counter of Sheng et al., Fairness in Serving Large Language Models, OSDI 2024. There the
prompt of a request is paid for when it starts, whatever becomes of it.
"""

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import Final, TypeAlias

from arriero.core.errors import ConfigError
from arriero.core.ids import RequestId
from arriero.core.plan import DecodeRow, Row
from arriero.core.request import RequestState
from arriero.scheduler.draft import StepDraft
from arriero.scheduler.keyed_heap import Key, KeyedHeap
from arriero.scheduler.policies import FirstComeFirstServed
from arriero.scheduler.progress import Progress
from arriero.scheduler.waiting import Offers, Rank, WaitingQueue

DECODE_WEIGHT: Final = 2
"""A decoded token costs about as much more than one of a prompt as the published counters say, and prices do."""

_FORGET_FROM: Final = 1024
"""Tenants that are known before those that could as well be new ones are forgotten."""


class _Tenant:
    """One of those who share, and its requests that wait."""

    __slots__ = ("due", "key", "num_promised", "waiting")

    def __init__(self) -> None:
        self.due = 0
        self.waiting = WaitingQueue()
        self.key: Key | None = None  # where it stands among those who wait
        self.num_promised = 0  # of its requests that compute their prompt


class _Promise:
    """The prompt tokens that a request which runs has still to compute, counted as due already."""

    __slots__ = ("admission", "num_tokens", "progress", "tenant")

    def __init__(self, progress: Progress, tenant: _Tenant) -> None:
        self.progress = progress
        self.tenant = tenant
        self.admission = progress.admission
        self.num_tokens = progress.num_remaining

    @property
    def is_open(self) -> bool:
        """Whether the request is still about to compute them."""
        return self.progress.state is RequestState.PREFILLING and self.progress.admission == self.admission


class Accounts:
    """What each tenant has got, and which of them have requests waiting.

    Every change costs O(log tenants). A tenant for whom nothing waits and nothing is promised, and whose due is no more
    than what it would begin with, is forgotten at some time.
    """

    def __init__(self, decode_weight: int) -> None:
        """Nobody is known."""
        self._decode_weight = decode_weight
        self._tenants: dict[str | None, _Tenant] = {}
        self._most_known = _FORGET_FROM
        self._order: KeyedHeap[_Tenant] = KeyedHeap()
        self._last: _Tenant | None = None  # the one whose last waiting request left last
        self._started: list[Progress] = []  # who has left the queue, to be looked at
        self._promises: dict[RequestId, _Promise] = {}

    # ── who waits ───────────────────────────────────────────────────────────────────────────────────────────────────

    def came(self, progress: Progress) -> None:
        """A request waits, for the first time or again."""
        self.settle()
        tenant = self._tenant(progress.request.tenant)
        if not tenant.waiting:
            tenant.due = max(tenant.due, self._floor())
        tenant.waiting.add(progress)
        self._place(tenant)

    def left(self, progress: Progress) -> None:
        """A request waits no more; whether it starts is seen later."""
        tenant = self._tenant(progress.request.tenant)
        tenant.waiting.remove(progress)
        if not tenant.waiting:
            self._last = tenant
        self._place(tenant)
        self._started.append(progress)

    # ── what they get ───────────────────────────────────────────────────────────────────────────────────────────────

    def settle(self) -> None:
        """Count the prompts of those who have started, and take off what nobody will compute any more.

        A request that started and has computed something before it is counted here has paid for that already.
        """
        for request_id in [each for each, promise in self._promises.items() if not promise.is_open]:
            promise = self._promises.pop(request_id)
            promise.tenant.num_promised -= 1
            self._charge(promise.tenant, -promise.num_tokens)
        for progress in self._started:
            request_id = progress.request.request_id
            if progress.state is RequestState.PREFILLING and request_id not in self._promises:
                tenant = self._tenant(progress.request.tenant)
                promise = self._promises[request_id] = _Promise(progress, tenant)
                tenant.num_promised += 1
                self._charge(tenant, promise.num_tokens)
        self._started.clear()

    def serve(self, rows: Sequence[Row], times: int) -> None:
        """Rows were computed; of prompts only what was not promised is new."""
        for row in rows:
            if isinstance(row, DecodeRow):
                self._charge(self._tenant(row.request.tenant), self._decode_weight * times)
            elif (promise := self._promises.get(row.request.request_id)) is not None:
                promise.num_tokens -= row.num_rows
            else:
                self._charge(self._tenant(row.request.tenant), row.num_rows)

    def due(self, name: str | None) -> int:
        """What a tenant has got and was promised, on the scale of all; 0 for one that is not known."""
        tenant = self._tenants.get(name)
        return 0 if tenant is None else tenant.due

    # ── who goes first ──────────────────────────────────────────────────────────────────────────────────────────────

    def head(self) -> Progress | None:
        """The oldest request of the tenant with the least due; of several such tenants, the oldest of all."""
        tenant = self._order.first()
        return None if tenant is None else tenant.waiting.head()

    def backlogged(self) -> list[_Tenant]:
        """Those who have requests waiting, in no particular order."""
        return [tenant for tenant in self._tenants.values() if tenant.waiting]

    # ── helpers ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _tenant(self, name: str | None) -> _Tenant:
        found = self._tenants.get(name)
        if found is None:
            if len(self._tenants) >= self._most_known:
                self._forget()
            found = self._tenants[name] = _Tenant()
        return found

    def _floor(self) -> int:
        """The least due of those who wait; where nobody does, that of the last one who did."""
        first = self._order.first()
        if first is not None:
            return first.due
        return 0 if self._last is None else self._last.due

    def _charge(self, tenant: _Tenant, amount: int) -> None:
        tenant.due += amount
        self._place(tenant)

    def _place(self, tenant: _Tenant) -> None:
        """Let a tenant stand where it belongs now."""
        head = tenant.waiting.head()
        key = None if head is None else (tenant.due, *head.rank)
        if key == tenant.key:
            return
        if tenant.key is not None:
            self._order.remove(tenant.key)
        if key is not None:
            self._order.add(key, tenant)
        tenant.key = key

    def _forget(self) -> None:
        floor = self._floor()
        self._tenants = {
            name: tenant
            for name, tenant in self._tenants.items()
            if tenant.waiting or tenant.num_promised or tenant.due > floor or tenant is self._last
        }
        self._most_known = max(_FORGET_FROM, 2 * len(self._tenants))


_Turn: TypeAlias = tuple[int, Rank, Progress, _Tenant, Iterator[Progress]]
"""Due and rank, which no two requests share, of the next request of a tenant; and the others behind it."""


class FairOffers:
    """Those who wait, from the tenant with the least due on; it is asked anew after each start."""

    def __init__(self, waiting: WaitingQueue, accounts: Accounts) -> None:
        """The accounts follow the queue from now on."""
        self._waiting = waiting
        self._accounts = accounts
        waiting.watch(accounts)

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def __iter__(self) -> Iterator[Progress]:
        """Each of them once; a tenant that got a slot goes on where it stands with it."""
        first = self.head()
        if first is None:
            return
        yield first  # where nobody can start, nothing more is asked for
        self._accounts.settle()
        turns: list[_Turn] = []
        for tenant in self._accounts.backlogged():
            _take_turn(turns, tenant, (each for each in tenant.waiting if each is not first))
        while turns:
            _, _, progress, tenant, others = heappop(turns)
            yield progress
            self._accounts.settle()
            _take_turn(turns, tenant, others)

    def head(self) -> Progress | None:
        """The oldest request of the tenant with the least due."""
        self._accounts.settle()
        return self._accounts.head()


class FairShare(FirstComeFirstServed):
    """Equal service to all tenants that wait; where memory ends, the one with the most due yields."""

    def __init__(self, decode_weight: int = DECODE_WEIGHT) -> None:
        """`decode_weight` is what a decoded token costs, where one of a prompt costs 1.

        Raises:
            ConfigError: it is below 1.
        """
        if decode_weight < 1:
            message = f"a decoded token must cost at least 1, not {decode_weight}"
            raise ConfigError(message)
        self.decode_weight = decode_weight
        self._accounts = Accounts(decode_weight)
        self._offers: FairOffers | None = None

    def queue(self, waiting: WaitingQueue, draft: StepDraft) -> Offers:
        """The tenant with the least due first."""
        del draft
        if self._offers is None:
            self._offers = FairOffers(waiting, self._accounts)
        self._accounts.settle()
        return self._offers

    def victim(self, running: Sequence[Progress]) -> Progress | None:
        """Of the tenant with the most due, the most recently admitted."""
        return max(running, key=lambda each: (self._accounts.due(each.request.tenant), each.admission))

    def served(self, rows: Sequence[Row], times: int) -> None:
        """Count them for their tenants."""
        self._accounts.serve(rows, times)


def _take_turn(turns: list[_Turn], tenant: _Tenant, others: Iterator[Progress]) -> None:
    """Put the next request of a tenant among those of the others, if there is one."""
    progress = next(others, None)
    if progress is not None:
        heappush(turns, (tenant.due, progress.rank, progress, tenant, others))
