from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from arriero.core.errors import CallOrderError, ConfigError, ContextTooLong, InvalidRequest, StepFailed
from arriero.core.events import (
    Admitted,
    CancelById,
    CancelEverything,
    CancelObserved,
    DropSequence,
    Finished,
    Preempted,
    PreemptionCause,
    Queued,
    Rejected,
    TokenEmitted,
    TrimSequence,
)
from arriero.core.ids import RequestId, SequenceId
from arriero.core.plan import BatchPlan, Failed, NoRoom, Sampled, SequenceFailure, StepOutcome
from arriero.core.request import CancelReason, FinishReason, Request
from arriero.kv.cells import CellLayout, CellManager
from arriero.scheduler.invariants import check_scheduler
from arriero.scheduler.planners import DecodeFirst
from arriero.scheduler.policies import FirstComeFirstServed
from arriero.scheduler.rules import SchedulerLimits
from arriero.scheduler.scheduler import Scheduler
from arriero.sim.simulator import Simulator, Submission
from arriero.testing.simulation import CountingAnswers, LinearCost

COUNTING = CountingAnswers()


def new_scheduler(num_sequences: int = 3, *, num_cells: int = 64, num_rows: int = 64) -> Scheduler:
    layout = CellLayout(num_sequences=num_sequences, num_cells=num_cells, sequence_limit=num_cells, unified=True)
    return Scheduler(
        kv=CellManager(layout),
        planner=DecodeFirst(),
        policy=FirstComeFirstServed(),
        limits=SchedulerLimits(num_rows=num_rows, headroom_per_sequence=0),
    )


def request(request_id: int, *, prompt: int = 4, max_tokens: int = 8, preloaded: bool = False) -> Request:
    return Request(
        request_id=RequestId(request_id),
        prompt=tuple(range(prompt)),
        max_tokens=max_tokens,
        arrival_at=0,
        preloaded=preloaded,
    )


def step(scheduler: Scheduler, outcome: StepOutcome | None = None) -> tuple[BatchPlan, tuple[object, ...]]:
    plan = scheduler.plan(0)
    events = scheduler.commit(COUNTING.to(plan) if outcome is None else outcome, 0)
    check_scheduler(scheduler)
    return plan, events


def failure(sequence_id: int, code: str = "decode_failed") -> SequenceFailure:
    return SequenceFailure(SequenceId(sequence_id), code, "it broke")


class TestOrderOfCalls:
    verbs: dict[str, Callable[[Scheduler], object]] = {  # noqa: RUF012 - a table
        "submit": lambda scheduler: scheduler.submit(request(9), 5),
        "cancel": lambda scheduler: scheduler.cancel(CancelById(RequestId(1)), 5),
        "plan": lambda scheduler: scheduler.plan(5),
    }

    @pytest.mark.parametrize("verb", verbs)
    def test_a_plan_with_rows_is_committed_before_any_other_verb(self, verb: str) -> None:
        scheduler = new_scheduler()
        scheduler.submit(request(1), 5)
        plan = scheduler.plan(5)
        with pytest.raises(CallOrderError, match=f"{verb} between"):
            self.verbs[verb](scheduler)
        assert scheduler.commit(COUNTING.to(plan), 5)
        self.verbs[verb](scheduler)

    def test_a_plan_without_rows_needs_no_commit_and_takes_none(self) -> None:
        scheduler = new_scheduler()
        scheduler.plan(0)
        scheduler.plan(0)
        with pytest.raises(CallOrderError, match="commit without"):
            scheduler.commit(Sampled(tokens={}), 0)

    @pytest.mark.parametrize("verb", verbs)
    def test_time_never_goes_back(self, verb: str) -> None:
        scheduler = new_scheduler()
        scheduler.plan(6)
        with pytest.raises(CallOrderError, match=f"{verb} at 5 after a call at 6"):
            self.verbs[verb](scheduler)
        assert not scheduler.has_work

    def test_a_commit_in_the_past_can_be_repeated_in_the_present(self) -> None:
        scheduler = new_scheduler()
        scheduler.submit(request(1), 5)
        plan = scheduler.plan(5)
        with pytest.raises(CallOrderError, match="commit at 4"):
            scheduler.commit(COUNTING.to(plan), 4)
        assert any(isinstance(event, TokenEmitted) for event in scheduler.commit(COUNTING.to(plan), 5))


class TestTheDoor:
    def test_every_sequence_must_have_its_row(self) -> None:
        with pytest.raises(ConfigError, match="2 rows a step cannot serve 3 sequences"):
            new_scheduler(3, num_rows=2)

    @pytest.mark.parametrize(
        ("bad", "error"),
        [
            (request(1), InvalidRequest),
            (request(2, prompt=0), InvalidRequest),
            (request(2, max_tokens=0), InvalidRequest),
            (request(2, prompt=60), ContextTooLong),
        ],
        ids=["id alive", "no prompt", "no output", "too long"],
    )
    def test_what_cannot_be_served_is_rejected_and_leaves_no_trace(self, bad: Request, error: type[Exception]) -> None:
        scheduler = new_scheduler()
        scheduler.submit(request(1), 0)
        before = scheduler.snapshot()
        (event,) = scheduler.submit(bad, 0)
        assert isinstance(event, Rejected)
        assert isinstance(event.error, error)
        assert scheduler.snapshot() == before

    def test_preloading_ends_with_the_first_plan(self) -> None:
        scheduler = new_scheduler()
        scheduler.submit(request(1, preloaded=True), 0)
        assert step(scheduler)[0].step == 0
        (event,) = scheduler.submit(request(2, preloaded=True), 0)
        assert isinstance(event, Rejected)
        assert isinstance(event.error, InvalidRequest)
        assert event.error.field == "preloaded"

    def test_a_cancel_that_waited_for_a_rejected_request_has_met_nothing(self) -> None:
        scheduler = new_scheduler()
        scheduler.cancel(CancelById(RequestId(1)), 0)
        scheduler.submit(request(1, prompt=0), 0)
        counts = scheduler.snapshot().cancels
        assert (counts.calls, counts.unknown, counts.queued) == (1, 1, 0)

    def test_the_place_in_the_queue_is_told(self) -> None:
        scheduler = new_scheduler()
        told = [scheduler.submit(request(each), 0)[0] for each in (1, 2, 3)]
        assert [event.position for event in told if isinstance(event, Queued)] == [0, 1, 2]


class TestFailures:
    def test_one_bad_row_ends_one_request(self) -> None:
        scheduler = new_scheduler()
        for each in (1, 2, 3):
            scheduler.submit(request(each), 0)
        outcome = Sampled(tokens={SequenceId(0): 0, SequenceId(2): 0}, failures=(failure(1, "sampler_failed"),))
        _, events = step(scheduler, outcome)
        (end,) = [event for event in events if isinstance(event, Finished)]
        assert (end.request.request_id, end.reason, end.sequence_id) == (2, FinishReason.FAILED, 1)
        assert isinstance(end.error, StepFailed)
        assert (end.error.code, str(end.error)) == ("sampler_failed", "it broke")
        plan, _ = step(scheduler)
        assert [(row.sequence_id, row.start) for row in plan.rows] == [(0, 4), (2, 4)]

    def test_a_failed_step_that_spares_somebody_leaves_it_where_it_was(self) -> None:
        scheduler = new_scheduler()
        for each in (1, 2):
            scheduler.submit(request(each), 0)
        step(scheduler)
        step(scheduler, Failed(failures=(failure(0),)))
        plan, _ = step(scheduler)
        assert [(row.sequence_id, row.start) for row in plan.rows] == [(1, 4)]

    def test_a_failure_of_a_sequence_that_nobody_holds_changes_nothing(self) -> None:
        scheduler = new_scheduler()
        scheduler.submit(request(1), 0)
        _, events = step(scheduler, Sampled(tokens={SequenceId(0): 0}, failures=(failure(2),)))
        assert [type(event) for event in events] == [TokenEmitted]

    def test_a_sequence_that_memory_would_not_clear_is_taken_out_of_service_and_its_request_starts_elsewhere(
        self,
    ) -> None:
        scheduler = new_scheduler()
        scheduler.submit(request(1), 0)
        _, events = step(scheduler, Sampled(tokens={}, refused=(DropSequence(SequenceId(0)),)))
        assert [type(event) for event in events] == [DropSequence, Preempted]
        plan, _ = step(scheduler)
        assert [row.sequence_id for row in plan.rows] == [1]
        (admitted,) = [event for event in plan.events if isinstance(event, Admitted)]
        assert (admitted.sequence_id, admitted.resumed) == (1, True)
        assert scheduler.snapshot().kv.sequences_quarantined == 1

    def test_with_every_sequence_out_of_service_nobody_waits_in_vain(self) -> None:
        scheduler = new_scheduler(1)
        scheduler.submit(request(1), 0)
        step(scheduler, Sampled(tokens={}, refused=(DropSequence(SequenceId(0)),)))
        scheduler.submit(request(2), 0)
        plan = scheduler.plan(0)
        ends = [event for event in plan.events if isinstance(event, Finished)]
        assert [(end.request.request_id, end.reason, end.sequence_id) for end in ends] == [
            (1, FinishReason.FAILED, None),
            (2, FinishReason.FAILED, None),
        ]
        assert all(end.error is not None and end.error.code == "out_of_service" for end in ends)
        assert (plan.rows, plan.num_waiting, scheduler.has_work) == ((), 0, False)

    def test_a_refused_trim_costs_the_work_and_not_the_sequence(self) -> None:
        scheduler = new_scheduler(1)
        scheduler.submit(request(1), 0)
        step(scheduler)
        _, events = step(scheduler, Sampled(tokens={}, refused=(TrimSequence(SequenceId(0), 4),)))
        (preempted,) = [event for event in events if isinstance(event, Preempted)]
        assert (preempted.cause, preempted.num_computed) == (PreemptionCause.REFUSED, 4)
        plan, _ = step(scheduler)
        assert [(row.sequence_id, row.start, row.num_rows) for row in plan.rows] == [(0, 0, 5)]
        assert scheduler.snapshot().kv.sequences_quarantined == 0


@dataclass
class TighterMemory:
    """Holds fewer cells than the books say, for good."""

    num_cells: int
    num_refused: int = 0

    def to(self, plan: BatchPlan) -> StepOutcome:
        if plan.shape.context_tokens + plan.shape.num_rows > self.num_cells:
            self.num_refused += 1
            return NoRoom()
        return COUNTING.to(plan)


@dataclass
class PoisonedMemory:
    """Decoding fails whenever one request is in the batch, and no sequence can be put back to where it was."""

    culprit: int
    num_failed: int = 0

    def to(self, plan: BatchPlan) -> StepOutcome:
        if all(row.request.request_id != self.culprit for row in plan.rows):
            return COUNTING.to(plan)
        self.num_failed += 1
        return Failed(failures=(), refused=tuple(TrimSequence(row.sequence_id, row.start) for row in plan.rows))


@pytest.mark.parametrize("culprit", [1, 2, 3, 4])
def test_one_bad_request_is_found_even_where_a_failed_batch_cannot_be_taken_apart(culprit: int) -> None:
    memory = PoisonedMemory(culprit)
    sim = Simulator(scheduler=new_scheduler(4), cost=LinearCost(1), answers=memory, check=True)
    steps = list(sim.run([Submission(request(each)) for each in range(1, 5)]))
    ends = {event.request.request_id: event for each in steps for event in each.events if isinstance(event, Finished)}
    assert {each for each, end in ends.items() if end.reason is FinishReason.FAILED} == {culprit}
    assert {end.num_decoded for each, end in ends.items() if each != culprit} == {8}
    assert len(ends) == 4
    assert memory.num_failed <= 4


class TestNoRoom:
    def test_the_latest_yields_and_does_not_take_the_room_again_before_somebody_has_ended(self) -> None:
        memory = TighterMemory(24)
        scheduler = new_scheduler(4)
        sim = Simulator(scheduler=scheduler, cost=LinearCost(1), answers=memory, check=True)
        steps = list(sim.run([Submission(request(each, max_tokens=12)) for each in range(1, 5)]))
        ends = [event for each in steps for event in each.events if isinstance(event, Finished)]
        assert {(end.reason, end.num_decoded) for end in ends} == {(FinishReason.LENGTH, 12)}
        assert [end.request.request_id for end in ends] == [1, 2, 3, 4]
        assert memory.num_refused <= 4 * 4

    def test_nobody_starts_between_the_shortage_and_the_next_end(self) -> None:
        scheduler = new_scheduler(3)
        for each in (1, 2, 3):
            scheduler.submit(request(each, max_tokens=3 if each == 1 else 8), 0)
        step(scheduler)
        _, events = step(scheduler, NoRoom())
        assert [(event.request_id, event.cause) for event in events if isinstance(event, Preempted)] == [
            (3, PreemptionCause.NO_ROOM)
        ]
        assert [step(scheduler)[0].num_waiting for _ in range(3)] == [1, 1, 0]

    def test_one_who_runs_alone_and_finds_no_room_fails(self) -> None:
        scheduler = new_scheduler(2)
        scheduler.submit(request(1), 0)
        _, events = step(scheduler, NoRoom())
        (end,) = [event for event in events if isinstance(event, Finished)]
        assert isinstance(end.error, StepFailed)
        assert end.error.code == "kv_no_room"
        scheduler.submit(request(2), 0)
        assert step(scheduler)[0].rows


def test_of_two_reasons_to_cancel_the_first_stays() -> None:
    scheduler = new_scheduler()
    scheduler.submit(request(1), 0)
    step(scheduler)
    scheduler.cancel(CancelById(RequestId(1), CancelReason.STOP), 0)
    scheduler.cancel(CancelById(RequestId(1), CancelReason.USER), 0)
    scheduler.cancel(CancelEverything(), 0)
    plan = scheduler.plan(0)
    assert [event.reason for event in plan.events if isinstance(event, CancelObserved)] == [CancelReason.STOP]
    counts = scheduler.snapshot().cancels
    assert (counts.calls, counts.duplicates, counts.active_observed) == (2, 1, 1)


def test_a_request_that_waits_for_its_turn_again_expires_like_any_other() -> None:
    scheduler = new_scheduler(1, num_cells=20)
    scheduler.submit(replace(request(1), expires_at=7), 0)
    step(scheduler)
    assert scheduler.plan(5).wake_at == 7
    scheduler.commit(Sampled(tokens={}, refused=(TrimSequence(SequenceId(0), 0),)), 7)
    plan = scheduler.plan(7)
    (end,) = [event for event in plan.events if isinstance(event, Finished)]
    assert (end.cancel_reason, end.sequence_id, end.num_decoded) == (CancelReason.TIMEOUT, None, 1)
    assert (plan.rows, plan.wake_at, scheduler.has_work) == ((), None, False)
