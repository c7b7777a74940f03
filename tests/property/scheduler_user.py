"""One who uses a scheduler in every way that is allowed, and has it checked by three judges at every verb.

`check_scheduler` looks inside, the reference says what must be said, the witness holds the visible together.
"""

from collections import Counter
from dataclasses import dataclass, field

from arriero.core.events import (
    CancelById,
    CancelByToken,
    CancelEverything,
    CancelTarget,
    CancelWaiting,
    Event,
)
from arriero.core.ids import Epoch, RequestId
from arriero.core.plan import BatchPlan
from arriero.core.request import CancelReason
from arriero.scheduler.invariants import check_scheduler
from arriero.scheduler.scheduler import Scheduler
from arriero.testing.strategies import Pick, SchedulerSetup, pick_outcome, pick_request
from tests.property.scheduler_reference import Reference, shorten, shorten_row
from tests.property.scheduler_witness import Witness

NUM_IDS = 16
"""Request ids are used again and again, alive or not."""


@dataclass
class SchedulerUser:
    """Picks verbs and arguments; `now` moves between them, at times not at all."""

    setup: SchedulerSetup
    pick: Pick
    now: int = 0
    epoch: int = 0
    told: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Build the scheduler and its judges."""
        self.scheduler: Scheduler = self.setup.new_scheduler()
        self.reference = Reference(self.setup)
        self.witness = Witness(self.setup)

    def submit(self, *, preloaded: bool = False) -> None:
        """Hand over a request, sometimes one that must be rejected."""
        self.epoch += self.pick(1, 2)
        request_id = self.pick(1, NUM_IDS)
        request = pick_request(
            self.pick, request_id=request_id, epoch=self.epoch, arrival_at=self.now, preloaded=preloaded
        )
        self._hear(self.scheduler.submit(request, self.now), self.reference.submit(request))

    def cancel(self) -> None:
        """Cancel somebody, a life that is over or one to come; seldom everybody."""
        request_id = RequestId(self.pick(1, NUM_IDS))
        reason = list(CancelReason)[self.pick(0, len(CancelReason) - 1)]
        target: CancelTarget
        match self.pick(0, 79):
            case 79:
                target = CancelWaiting()
            case 78:
                target = CancelEverything(reason)
            case kind if kind >= 40:
                target = CancelByToken(request_id, Epoch(max(1, self.epoch + self.pick(0, 6) - 3)), reason)
            case _:
                target = CancelById(request_id, reason)
        self._hear(self.scheduler.cancel(target, self.now), self.reference.cancel(target))

    def step(self) -> BatchPlan:
        """Plan, and commit what the step came to."""
        plan = self.scheduler.plan(self.now)
        events, rows = self.reference.plan(self.now)
        self._hear(plan.events, events)
        assert [shorten_row(row) for row in plan.rows] == rows
        assert plan.step == self.reference.step
        assert plan.num_waiting == len(self.reference.waiting())
        rests = "resting" in self.reference.pools.values()
        wakes_now = not rows and plan.num_waiting and rests
        assert plan.wake_at == (self.now if wakes_now else self.reference.next_deadline())
        self.witness.look_at(plan, self.now)
        if plan.rows:
            self._commit(plan)
        self.now += self.pick(0, 3)
        check_scheduler(self.scheduler)
        return plan

    def drain(self) -> None:
        """Go on without faults until nobody is left, which must not take long."""
        pick, self.pick = self.pick, lambda low, _: low
        for _ in range(10_000):
            if not self.scheduler.has_work:
                break
            rows = self.step().rows
            stuck = not rows and not self.can_go_on()
            if stuck:
                target = CancelWaiting()
                self._hear(self.scheduler.cancel(target, self.now), self.reference.cancel(target))
            self.now += 1
        self.pick = pick
        assert not self.scheduler.has_work, "requests are left that never end"
        assert self.witness.num_queued == self.witness.num_ended
        assert self.scheduler.snapshot().kv.active_cells == self.scheduler.snapshot().kv.swapped_tokens == 0
        assert not self.witness.outside, "something is kept for requests that have ended"

    def can_go_on(self) -> bool:
        """Whether a sequence id will ever be free; only quarantine and the gates' pools can take them all."""
        return any(pool != "retired" for pool in self.reference.pools.values()) or bool(self.reference.running)

    def _commit(self, plan: BatchPlan) -> None:
        num_sequences = self.setup.layout.num_sequences
        outcome = pick_outcome(self.pick, plan, num_sequences)
        self.told[type(outcome).__name__] += 1
        self.now += self.pick(0, 3)
        self.witness.take_outcome(plan, outcome)
        self._hear(self.scheduler.commit(outcome, self.now), self.reference.commit(plan, outcome))
        self.witness.all_given_was_told()

    def _hear(self, events: tuple[Event, ...], expected: list[tuple[object, ...]]) -> None:
        assert [shorten(event) for event in events] == expected
        self.told.update(str(short[0]) for short in expected)
        self.told.update(f"{short[0]} {short[2]}" for short in expected if short[0] == "finished")
        assert all(event.at == self.now for event in events if hasattr(event, "at"))
        self.witness.hear(events)
        check_kv = self.scheduler.snapshot()
        assert check_kv.num_waiting == len(self.reference.waiting())
        assert check_kv.num_running == len(self.reference.running)
        assert check_kv.num_early_cancels == len(self.reference.early)
