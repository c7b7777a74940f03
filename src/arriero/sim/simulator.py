"""The virtual loop: the scheduler that serves, driven by a clock that jumps.

    step:   messages due → plan → events → cost moves the clock → answers → commit → events
    idle:   the clock jumps to the next message or to `wake_at`
    run:    equal decode steps, in which nothing can change, are one step that the same scheduler counts several times

Messages are handed over only between steps, cancels first, then submissions, then changes of costs, each in posting
order, as in the live loop.

The cost that moves the clock is the machine; what the scheduler takes steps to cost is its own matter, and may differ.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeAlias, assert_never, runtime_checkable

from arriero.core.events import CancelTarget, Event
from arriero.core.ids import Time
from arriero.core.plan import BatchPlan, Counted, SimulatedOutcome
from arriero.core.request import Request
from arriero.costmodel.change import CostChange
from arriero.costmodel.models import TIME_MAX, CostModel, checked
from arriero.scheduler.invariants import check_scheduler
from arriero.scheduler.scheduler import Scheduler


@runtime_checkable
class PlanCost(Protocol):
    """How long a step takes by its rows, their places and their lengths, of which a shape has the sums only."""

    def plan_time(self, plan: BatchPlan) -> Time:
        """The duration; never negative."""
        ...


Timer: TypeAlias = Callable[[BatchPlan], Time]
"""The duration of a plan's rows."""


def timer_of(cost: CostModel | PlanCost) -> Timer:
    """How a cost is asked: by the rows themselves where it knows them."""
    if isinstance(cost, PlanCost):
        return cost.plan_time
    return lambda plan: cost.step_time(plan.shape)


class Answers(Protocol):
    """What a model would have said."""

    def to(self, plan: BatchPlan) -> SimulatedOutcome:
        """The outcome of one plan with rows."""
        ...


class NoAnswers:
    """Every row succeeds, and its token is counted only."""

    def __init__(self) -> None:
        """Nothing is kept."""
        self._counted = Counted()

    def to(self, plan: BatchPlan) -> Counted:
        """The outcome of one plan with rows."""
        del plan
        return self._counted


@dataclass(frozen=True, slots=True)
class Submission:
    """A request that arrives at `request.arrival_at`."""

    request: Request

    @property
    def at(self) -> Time:
        """When it is due."""
        return self.request.arrival_at


@dataclass(frozen=True, slots=True)
class Cancellation:
    """A cancel that is posted at `at`."""

    target: CancelTarget
    at: Time


@dataclass(frozen=True, slots=True)
class Recalibration:
    """A change of what the scheduler takes steps to cost, posted at `at`; the clock goes on as before."""

    change: CostChange
    at: Time


Message: TypeAlias = Submission | Cancellation | Recalibration
_BOUNDARY_ORDER: Final = (Cancellation, Submission, Recalibration)


class Inbox(Protocol):
    """Messages by the time at which they are due."""

    def due(self, now: Time) -> Sequence[Message]:
        """Take what is due: cancels first, then submissions, then changes of costs."""
        ...

    def next_at(self) -> Time | None:
        """When the next message is due, or None."""
        ...


class ArrivalInbox:
    """Requests that are made only when they arrive, so that a long workload needs little memory."""

    def __init__(self, requests: Iterable[Request]) -> None:
        """`requests` ascend by their arrival."""
        self._requests = iter(requests)
        self._next = next(self._requests, None)

    def due(self, now: Time) -> Sequence[Message]:
        """Take what is due."""
        taken: list[Message] = []
        while self._next is not None and self._next.arrival_at <= now:
            taken.append(Submission(self._next))
            self._next = next(self._requests, None)
        return taken

    def next_at(self) -> Time | None:
        """When the next request arrives, or None."""
        return None if self._next is None else self._next.arrival_at


class VirtualInbox:
    """Messages by the time at which they are due."""

    def __init__(self, messages: Iterable[Message]) -> None:
        """Sort by time; messages of one time keep their order."""
        self._messages = sorted(messages, key=lambda message: message.at)
        self._next = 0

    def due(self, now: Time) -> list[Message]:
        """Take what is due: cancels first, then submissions, then changes of costs."""
        start = self._next
        while self._next < len(self._messages) and self._messages[self._next].at <= now:
            self._next += 1
        taken = self._messages[start : self._next]
        return sorted(taken, key=lambda message: _BOUNDARY_ORDER.index(type(message)))

    def next_at(self) -> Time | None:
        """When the next message is due, or None."""
        return self._messages[self._next].at if self._next < len(self._messages) else None


class SimulatedStep(NamedTuple):
    """One pass of the loop.

    Attributes:
        began_at: when the plan was made.
        ended_at: when its rows were computed, for the last time if they were counted several times; `began_at` for a
            plan without rows.
        plan: what was planned.
        outcome: None for a plan without rows.
        events: of messages, plan and commit, in order.
        messages: what this pass took, in the order in which it was applied.
        ends: when the rows were computed, each time; empty for a plan without rows.
    """

    began_at: Time
    ended_at: Time
    plan: BatchPlan
    outcome: SimulatedOutcome | None
    events: tuple[Event, ...]
    messages: tuple[Message, ...]
    ends: Sequence[Time] = ()


def always(plan: BatchPlan) -> bool:
    """Every plan."""
    del plan
    return True


def never(plan: BatchPlan) -> bool:
    """No plan."""
    del plan
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulator:
    """One run.

    Attributes:
        scheduler: the object that serves as well.
        cost: moves the clock; by the rows themselves where it is a `PlanCost`, else by their counts.
        answers: what the rows give.
        check: verify every invariant after every step.
        jumps: whether the steps that are equal to one of decode rows are taken in one with it; needs `NoAnswers`, and
            a cost that does not depend on the context.
        stops_when_stalled: end at the first plan without rows while requests are alive, instead of going on with the
            next message.
        on_plan: sees each plan before its rows are computed, for figures of that moment.
        on_jump: sees those only whose equal steps are taken in one.
    """

    scheduler: Scheduler
    cost: CostModel
    answers: Answers
    check: bool = False
    jumps: Callable[[BatchPlan], bool] = never
    stops_when_stalled: bool = False
    on_plan: Callable[[BatchPlan], None] | None = None
    on_jump: Callable[[BatchPlan], None] | None = None

    def run(self, messages: Sequence[Message], start_at: Time = 0) -> Iterator[SimulatedStep]:
        """Yield the steps of a run with these messages."""
        return self.run_from(VirtualInbox(messages), start_at)

    def run_from(self, inbox: Inbox, start_at: Time = 0) -> Iterator[SimulatedStep]:
        """Yield steps until nothing is left to do.

        Ends when there is neither a message to come nor a `wake_at`; requests that are still alive then are stalled.

        Raises:
            TimeOverflow: the clock leaves its 64 bits.
        """
        scheduler, now, time_of = self.scheduler, start_at, timer_of(self.cost)
        while True:
            messages = tuple(inbox.due(now))
            events = [event for message in messages for event in self._apply(message, now)]
            plan = scheduler.plan(now)
            events.extend(plan.events)
            if self.on_plan is not None:
                self.on_plan(plan)
            began_at = now
            outcome, ends = self._compute(plan, time_of, inbox, now)
            if outcome is not None:
                now = ends[-1]
                events.extend(scheduler.commit(outcome, now))
            if self.check:
                check_scheduler(scheduler)
            yield SimulatedStep(began_at, now, plan, outcome, tuple(events), messages, ends)
            if outcome is None:
                next_at = _earliest(inbox.next_at(), plan.wake_at)
                if next_at is None or (self.stops_when_stalled and scheduler.has_work):
                    return
                now = next_at

    def _compute(
        self, plan: BatchPlan, time_of: Timer, inbox: Inbox, now: Time
    ) -> tuple[SimulatedOutcome | None, Sequence[Time]]:
        """What a plan comes to, and when; None and nothing for a plan without rows."""
        if not plan.rows:
            return None, ()
        duration = time_of(plan)
        end = now + duration
        if end > TIME_MAX:
            checked(end)
        if plan.shape.prefill_chunks or not self.jumps(plan):
            return self.answers.to(plan), (end,)
        until = _earliest(inbox.next_at(), plan.wake_at)
        if until is not None and until <= end:
            return self.answers.to(plan), (end,)
        ends = _equal_ends(end, duration, self.scheduler.steady_steps(), until)
        if self.on_jump is not None and len(ends) > 1:
            self.on_jump(plan)
        return Counted(len(ends)), ends

    def _apply(self, message: Message, now: Time) -> tuple[Event, ...]:
        match message:
            case Submission(request):
                return self.scheduler.submit(request, now)
            case Cancellation(target):
                return self.scheduler.cancel(target, now)
            case Recalibration(change):
                return self.scheduler.recalibrate(change, now)
            case _:
                assert_never(message)


def _equal_ends(end: Time, duration: Time, steps: int, until: Time | None) -> Sequence[Time]:
    """The ends of at most so many steps; the first one at or after `until` is the last, as somebody writes there."""
    if isinstance(end, int) and isinstance(duration, int) and duration:
        if until is not None:
            steps = min(steps, 1 + max(0, -int((end - until) // duration)))
        checked(end + (steps - 1) * duration)
        return range(end, end + steps * duration, duration)
    ends = [end]
    while len(ends) < steps and (until is None or ends[-1] < until):
        ends.append(ends[-1] + duration)
    return ends


def _earliest(one: Time | None, other: Time | None) -> Time | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
