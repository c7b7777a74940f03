"""Backlog against a list of places that is looked through anew for each question."""

from dataclasses import dataclass

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from arriero.core.errors import KeyLimit, KeyTokenLimit, QueueFull, QueueTokensFull, Refused
from arriero.scheduler.backlog import Ahead, Backlog, BacklogLimits, Ticket
from tests.property.machines import machine_settings

TENANTS = st.none() | st.sampled_from(("a", "b"))
TOKENS = st.integers(1, 30)


@dataclass
class Inside:
    """What is known of one place."""

    ticket: Ticket
    tenant: str | None
    start_by: int | None
    tokens: int = 0
    deadline_at: int | None = None
    waits: bool = True
    is_weighed: bool = False


class BacklogMachine(RuleBasedStateMachine):
    """Requests enter, are weighed, start, wait for too long and leave, in any order."""

    @initialize(
        sequences=st.integers(1, 3),
        waiting=st.none() | st.integers(0, 3),
        waiting_tokens=st.none() | st.integers(1, 60),
        tenant_requests=st.none() | st.integers(1, 3),
        tenant_tokens=st.none() | st.integers(1, 60),
    )
    def begin(
        self,
        sequences: int,
        waiting: int | None,
        waiting_tokens: int | None,
        tenant_requests: int | None,
        tenant_tokens: int | None,
    ) -> None:
        self.limits = BacklogLimits(
            sequences=sequences,
            waiting=waiting,
            waiting_tokens=waiting_tokens,
            tenant_requests=tenant_requests,
            tenant_tokens=tenant_tokens,
        )
        self.backlog = Backlog(self.limits)
        self.inside: list[Inside] = []
        self.now = 0
        self.accepted = self.refused = self.peak = 0

    # ── what is to be expected ──────────────────────────────────────────────────────────────────────────────────────

    def of(self, tenant: str | None) -> list[Inside]:
        return [each for each in self.inside if each.tenant == tenant]

    def refusal(self, tenant: str | None) -> type[Refused] | None:
        limits = self.limits
        if limits.waiting is not None and len(self.inside) >= limits.sequences + limits.waiting:
            return QueueFull
        if tenant is not None and limits.tenant_requests is not None:
            return KeyLimit if len(self.of(tenant)) >= limits.tenant_requests else None
        return None

    def token_refusal(
        self,
        who: Inside | None,
        tenant: str | None,
        tokens: int,
        *,
        has_queue: bool,
    ) -> type[Refused] | None:
        limits, own = self.limits, sum(each.tokens for each in self.of(tenant))
        if tenant is not None and limits.tenant_tokens is not None and own and own + tokens > limits.tenant_tokens:
            return KeyTokenLimit
        if limits.waiting_tokens is None:
            return None
        waiting = [each for each in self.inside if each.waits]
        num_free = 0 if has_queue else max(0, limits.sequences - (len(self.inside) - len(waiting)))
        if who in waiting[:num_free] or (who is None and len(waiting) < num_free):
            return None
        queued = sum(each.tokens for each in waiting[num_free:])
        return QueueTokensFull if queued and queued + tokens > limits.waiting_tokens else None

    # ── what happens ────────────────────────────────────────────────────────────────────────────────────────────────

    @rule(tenant=TENANTS, tokens=st.none() | TOKENS, patience=st.none() | st.integers(0, 20), has_queue=st.booleans())
    def enter(self, tenant: str | None, tokens: int | None, patience: int | None, has_queue: bool) -> None:  # noqa: FBT001
        start_by = None if patience is None else self.now + patience
        expected = self.refusal(tenant)
        if expected is None and tokens is not None:
            expected = self.token_refusal(None, tenant, tokens, has_queue=has_queue)
        if expected is not None:
            with pytest.raises(expected):
                self.backlog.enter(tenant, tokens=tokens, start_by=start_by, has_queue=has_queue)
            self.refused += 1
            return
        ticket = self.backlog.enter(tenant, tokens=tokens, start_by=start_by, has_queue=has_queue)
        self.inside.append(Inside(ticket, tenant, start_by, tokens or 0, is_weighed=tokens is not None))
        self.accepted += 1
        self.peak = max(self.peak, len(self.inside))

    @precondition(lambda self: any(not each.is_weighed for each in self.inside))
    @rule(data=st.data(), tokens=TOKENS, deadline=st.none() | st.integers(0, 20), has_queue=st.booleans())
    def weigh(self, data: st.DataObject, tokens: int, deadline: int | None, has_queue: bool) -> None:  # noqa: FBT001
        who = data.draw(st.sampled_from([each for each in self.inside if not each.is_weighed]))
        expected = self.token_refusal(who, who.tenant, tokens, has_queue=has_queue)
        if expected is not None:
            with pytest.raises(expected):
                self.backlog.weigh(who.ticket, tokens, deadline_at=deadline, has_queue=has_queue)
            self.refused += 1
            return
        self.backlog.weigh(who.ticket, tokens, deadline_at=deadline, has_queue=has_queue)
        who.tokens, who.deadline_at, who.is_weighed = tokens, deadline, True

    @precondition(lambda self: self.inside)
    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        who = data.draw(st.sampled_from(self.inside))
        self.backlog.start(who.ticket)
        who.waits = False

    @precondition(lambda self: self.inside)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        who = self.inside.pop(data.draw(st.integers(0, len(self.inside) - 1)))
        self.backlog.leave(who.ticket)
        with pytest.raises(AssertionError):
            self.backlog.leave(who.ticket)
        self.backlog.start(who.ticket)  # the engine hears of it later, and it is too late

    @rule(passed=st.integers(0, 12))
    def expire(self, passed: int) -> None:
        self.now += passed
        late = [each for each in self.inside if each.waits and each.start_by is not None and each.start_by <= self.now]
        late.sort(key=lambda each: (each.start_by, each.ticket.number))
        assert self.backlog.expire(self.now) == [each.ticket for each in late]
        for each in late:
            each.waits = False

    # ── what always holds ───────────────────────────────────────────────────────────────────────────────────────────

    @invariant()
    def same_counts(self) -> None:
        counts, waiting = self.backlog.counts, [each for each in self.inside if each.waits]
        assert counts.in_flight == len(self.inside)
        assert counts.waiting == len(waiting)
        assert counts.waiting_tokens == sum(each.tokens for each in waiting)
        assert (counts.accepted, counts.refused, counts.peak) == (self.accepted, self.refused, self.peak)

    @invariant()
    def same_next(self) -> None:
        times = [each.start_by for each in self.inside if each.waits and each.start_by is not None]
        assert self.backlog.next_at() == min(times, default=None)

    @invariant()
    def same_ahead(self) -> None:
        waiting = [each for each in self.inside if each.waits]
        assert self.backlog.ahead() == Ahead(len(waiting), sum(each.tokens for each in waiting))
        before = [each for each in waiting if each.deadline_at is not None and each.deadline_at <= 10]
        assert self.backlog.ahead(10) == Ahead(len(before), sum(each.tokens for each in before))


TestBacklog = BacklogMachine.TestCase
TestBacklog.settings = machine_settings(one_in=5)
