"""The virtual loop: the scheduler that serves, driven by a clock that jumps.

    step:   messages due → plan → events → cost moves the clock → answers → commit → events
    idle:   the clock jumps to the next message or to `wake_at`

Messages are handed over only between steps, cancels before submissions, each in posting order, as in the live loop.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, assert_never

from arriero.core.events import CancelTarget, Event
from arriero.core.ids import Time
from arriero.core.plan import BatchPlan, StepOutcome, StepShape
from arriero.core.request import Request
from arriero.scheduler.invariants import check_scheduler
from arriero.scheduler.scheduler import Scheduler


class StepCost(Protocol):
    """How long a step of a shape takes, in the unit of the time line; never negative."""

    def step_time(self, shape: StepShape) -> Time:
        """The duration."""
        ...


class Answers(Protocol):
    """What a model would have said."""

    def to(self, plan: BatchPlan) -> StepOutcome:
        """The outcome of one plan with rows."""
        ...


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


Message: TypeAlias = Submission | Cancellation


class VirtualInbox:
    """Messages by the time at which they are due."""

    def __init__(self, messages: Iterable[Message]) -> None:
        """Sort by time; messages of one time keep their order."""
        self._messages = sorted(messages, key=lambda message: message.at)
        self._next = 0

    def due(self, now: Time) -> list[Message]:
        """Take what is due: cancels first, then submissions."""
        start = self._next
        while self._next < len(self._messages) and self._messages[self._next].at <= now:
            self._next += 1
        taken = self._messages[start : self._next]
        return sorted(taken, key=lambda message: isinstance(message, Submission))

    def next_at(self) -> Time | None:
        """When the next message is due, or None."""
        return self._messages[self._next].at if self._next < len(self._messages) else None


@dataclass(frozen=True, slots=True)
class SimulatedStep:
    """One pass of the loop.

    Attributes:
        began_at: when the plan was made.
        ended_at: when its rows were computed; `began_at` for a plan without rows.
        plan: what was planned.
        outcome: None for a plan without rows.
        events: of messages, plan and commit, in order.
        messages: what this pass took, in the order in which it was applied.
    """

    began_at: Time
    ended_at: Time
    plan: BatchPlan
    outcome: StepOutcome | None
    events: tuple[Event, ...]
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulator:
    """One run; `check` verifies every invariant after every step."""

    scheduler: Scheduler
    cost: StepCost
    answers: Answers
    check: bool = False

    def run(self, messages: Sequence[Message], start_at: Time = 0) -> Iterator[SimulatedStep]:
        """Yield steps until nothing is left to do.

        Ends when there is neither a message to come nor a `wake_at`; requests that are still alive then are stalled.
        """
        inbox = VirtualInbox(messages)
        now = start_at
        while True:
            events: list[Event] = []
            messages = tuple(inbox.due(now))
            for message in messages:
                events.extend(self._apply(message, now))
            plan = self.scheduler.plan(now)
            events.extend(plan.events)
            began_at = now
            outcome = None
            if plan.rows:
                now += self.cost.step_time(plan.shape)
                outcome = self.answers.to(plan)
                events.extend(self.scheduler.commit(outcome, now))
            if self.check:
                check_scheduler(self.scheduler)
            yield SimulatedStep(began_at, now, plan, outcome, tuple(events), messages)
            if not plan.rows:
                next_at = _earliest(inbox.next_at(), plan.wake_at)
                if next_at is None:
                    return
                now = next_at

    def _apply(self, message: Message, now: Time) -> tuple[Event, ...]:
        match message:
            case Submission(request):
                return self.scheduler.submit(request, now)
            case Cancellation(target):
                return self.scheduler.cancel(target, now)
            case _:
                assert_never(message)


def _earliest(*times: Time | None) -> Time | None:
    return min((time for time in times if time is not None), default=None)
