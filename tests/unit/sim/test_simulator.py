from dataclasses import replace

import pytest

from arriero.core.errors import InvariantViolation
from arriero.core.events import CancelById, CancelEverything, CancelIgnored, Finished, Queued, TokenEmitted
from arriero.core.ids import RequestId, Time
from arriero.core.option_kinds import Threads
from arriero.core.plan import BatchPlan, Interrupted, StepOutcome, StepShape
from arriero.core.request import CancelReason, FinishReason, Request
from arriero.costmodel.change import CostChange
from arriero.kv.cells import CellLayout, CellManager
from arriero.kv.sequence_ids import PooledIds
from arriero.scheduler.planners import DecodeFirst
from arriero.scheduler.policies import FirstComeFirstServed
from arriero.scheduler.rules import SchedulerLimits
from arriero.scheduler.scheduler import Scheduler
from arriero.sim.simulator import (
    Cancellation,
    Message,
    Recalibration,
    SimulatedStep,
    Simulator,
    Submission,
    VirtualInbox,
)
from arriero.testing.simulation import CountingAnswers, LinearCost, ScriptedAnswers

LAYOUT = CellLayout(num_sequences=2, num_cells=64, sequence_limit=32, unified=False)


def request(request_id: int, *, at: int = 0, max_tokens: int = 3, expires_at: int | None = None) -> Submission:
    return Submission(
        Request(
            request_id=RequestId(request_id),
            prompt=(1, 2, 3),
            max_tokens=max_tokens,
            arrival_at=at,
            expires_at=expires_at,
        )
    )


def cancel(request_id: int, at: int) -> Cancellation:
    return Cancellation(CancelById(RequestId(request_id)), at)


def simulator(ids: PooledIds | None = None, answers: ScriptedAnswers | None = None) -> Simulator:
    scheduler = Scheduler(
        kv=CellManager(LAYOUT, ids),
        planner=DecodeFirst(),
        policy=FirstComeFirstServed(),
        limits=SchedulerLimits(num_rows=8),
    )
    return Simulator(
        scheduler=scheduler,
        cost=LinearCost(10, per_decode_row=1, per_prefill_row=2),
        answers=answers if answers is not None else CountingAnswers(),
        check=True,
    )


def run(*messages: Message, answers: ScriptedAnswers | None = None) -> list[SimulatedStep]:
    return list(simulator(answers=answers).run(messages))


def test_the_clock_moves_by_the_cost_of_each_step() -> None:
    steps = run(request(1))
    assert [(step.began_at, step.ended_at) for step in steps] == [(0, 16), (16, 27), (27, 38), (38, 38)]
    assert [event.at for step in steps for event in step.events if isinstance(event, TokenEmitted)] == [16, 27, 38]


def test_a_message_that_arrives_during_a_step_waits_for_its_end() -> None:
    steps = run(request(1), request(2, at=5))
    queued = [(step.began_at, event.request.request_id) for step in steps for event in step.events
              if isinstance(event, Queued)]  # fmt: skip
    assert queued == [(0, 1), (16, 2)]
    assert steps[1].plan.rows[1].request.arrival_at == 5


def test_at_one_boundary_cancels_come_before_submissions_each_in_posting_order() -> None:
    inbox = VirtualInbox([request(1, at=3), cancel(7, 5), request(2, at=5), cancel(8, 3), cancel(9, 9)])
    assert inbox.due(5) == [cancel(8, 3), cancel(7, 5), request(1, at=3), request(2, at=5)]
    assert inbox.next_at() == 9
    assert inbox.due(8) == []
    assert len(inbox.due(9)) == 1
    assert inbox.next_at() is None


def test_a_cancel_posted_with_its_submission_ends_it_before_it_runs() -> None:
    steps = run(request(1), cancel(1, 0))
    ends = [event for step in steps for event in step.events if isinstance(event, Finished)]
    assert [(end.reason, end.num_decoded) for end in ends] == [(FinishReason.CANCELLED, 0)]
    assert not any(step.plan.rows for step in steps)


def test_idle_time_is_jumped_over() -> None:
    steps = run(request(1, max_tokens=1), request(2, at=1_000_000, max_tokens=1))
    assert [step.began_at for step in steps] == [0, 16, 1_000_000, 1_000_016]


def test_a_deadline_wakes_an_idle_scheduler() -> None:
    ids = PooledIds(2, num_preloaded=2, reuse_completed=False)
    sim = simulator(ids)
    steps = list(sim.run([request(1), request(2), request(3, expires_at=500)]))
    end = next(event for step in steps for event in step.events
               if isinstance(event, Finished) and event.request.request_id == 3)  # fmt: skip
    assert (end.reason, end.cancel_reason, end.at) == (FinishReason.CANCELLED, CancelReason.TIMEOUT, 500)


def test_a_run_ends_with_what_is_stalled_still_alive() -> None:
    sim = simulator(PooledIds(2, num_preloaded=2, reuse_completed=False))
    list(sim.run([request(1), request(2), request(3)]))
    assert sim.scheduler.has_work
    assert sim.scheduler.snapshot().num_waiting == 1


def test_a_slot_freed_by_a_cancel_rests_for_one_step_without_moving_the_clock() -> None:
    messages: list[Message] = [
        request(1, max_tokens=20),
        request(2, max_tokens=20),
        request(3),
        Cancellation(CancelEverything(), 20),
    ]
    steps = run(*messages, request(4, at=21))
    rested = [step for step in steps if step.plan.wake_at == step.began_at]
    assert len(rested) == 1
    following = steps[steps.index(rested[0]) + 1]
    assert following.began_at == rested[0].began_at
    assert [row.request.request_id for row in following.plan.rows] == [4]


def test_an_early_cancel_that_is_never_claimed_changes_nothing() -> None:
    steps = run(cancel(5, 0), cancel(5, 0), request(1))
    assert next(type(event) for event in steps[0].events) is CancelIgnored
    assert sum(isinstance(event, TokenEmitted) for step in steps for event in step.events) == 3


def test_an_interrupted_step_is_repeated_and_costs_its_time() -> None:
    def interrupted(plan: BatchPlan) -> StepOutcome:
        assert plan.rows
        return Interrupted()

    steps = run(request(1), answers=ScriptedAnswers({1: interrupted, 3: interrupted}))
    tokens = [event for step in steps for event in step.events if isinstance(event, TokenEmitted)]
    assert [(event.token, event.step) for event in tokens] == [(0, 2), (1, 4), (2, 5)]
    assert steps[0].plan.rows == steps[1].plan.rows


def test_checking_changes_nothing() -> None:
    messages: list[Message] = [request(1, max_tokens=9), request(2, at=3), cancel(1, 40)]
    assert list(replace(simulator(), check=False).run(messages)) == run(*messages)


def test_check_finds_a_scheduler_whose_books_are_wrong() -> None:
    sim = simulator()
    steps = sim.run([request(1)])
    next(steps)
    sim.scheduler.inspect().running[0].num_computed -= 1
    with pytest.raises(InvariantViolation):
        list(steps)


class ByPlaces:
    """A cost that sees where rows are, which a shape does not tell."""

    def step_time(self, shape: StepShape) -> Time:
        del shape
        raise AssertionError("counts are asked for where rows are known")

    def plan_time(self, plan: BatchPlan) -> Time:
        return 100 + sum(row.start for row in plan.rows)


def test_a_cost_that_knows_rows_is_asked_for_rows() -> None:
    steps = list(replace(simulator(), cost=ByPlaces()).run([request(1)]))
    assert [step.ended_at - step.began_at for step in steps] == [100, 103, 104, 0]


def test_changes_of_costs_come_after_what_was_posted_with_them() -> None:
    change = CostChange(threads=Threads(1, 1))
    messages: list[Message] = [Recalibration(change, 5), request(1, at=5), cancel(1, at=5)]
    inbox = VirtualInbox(messages)
    assert inbox.due(4) == []
    assert inbox.next_at() == 5
    assert inbox.due(5) == [messages[2], messages[1], messages[0]]
