"""A target for the gap between two tokens instead of a number of rows, in virtual time; times are microseconds."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

import pytest

from arriero.core.events import TokenEmitted
from arriero.core.ids import RequestId
from arriero.core.option_kinds import Threads
from arriero.core.plan import Cap, OverTarget, PrefillChunk
from arriero.core.request import Request
from arriero.costmodel.calibrated import CalibratedCost
from arriero.costmodel.change import CostChange, GroupFactors
from arriero.kv.cells import CellLayout, CellManager
from arriero.scheduler.draft import PrefillBudget
from arriero.scheduler.planners import DecodeFirst, PhasesApart, Planner
from arriero.scheduler.policies import FirstComeFirstServed
from arriero.scheduler.rules import SchedulerLimits
from arriero.scheduler.scheduler import Scheduler
from arriero.scheduler.step_target import StepTarget
from arriero.sim.simulator import Message, Recalibration, SimulatedStep, Simulator, Submission
from arriero.testing.costs import SEPARATE, UNIFIED, flat_cost
from arriero.testing.simulation import CountingAnswers

MS = 1000
LONG = 9
COST = flat_cost(18_400, 400, rules=UNIFIED)  # 20 ms with four decode rows, 0.4 ms for each prompt row


def request(request_id: int, prompt_tokens: int, max_tokens: int, at: int = 0) -> Submission:
    prompt = (request_id, *range(prompt_tokens - 1))
    return Submission(Request(request_id=RequestId(request_id), prompt=prompt, max_tokens=max_tokens, arrival_at=at))


STREAMS = [request(each, 8, 100) for each in (1, 2, 3, 4)]


def serve(
    messages: Sequence[Message],
    *,
    target_ms: int | None,
    cost: CalibratedCost = COST,
    machine: CalibratedCost | None = None,
    planner: Planner | None = None,
) -> list[SimulatedStep]:
    """A run on a machine that takes as long as the scheduler thinks, unless it is another one."""
    unified = cost.rules.unified
    layout = CellLayout(
        num_sequences=8, num_cells=16_384 * (1 if unified else 8), sequence_limit=16_384, unified=unified
    )
    within = None if target_ms is None else StepTarget(limit=target_ms * MS, cost=cost)
    scheduler = Scheduler(
        kv=CellManager(layout),
        planner=planner or DecodeFirst(),
        policy=FirstComeFirstServed(),
        limits=SchedulerLimits(num_rows=16_384, budget=PrefillBudget(within=within)),
    )
    simulator = Simulator(scheduler=scheduler, cost=machine or cost, answers=CountingAnswers(), check=True)
    steps = list(simulator.run(messages))
    assert not scheduler.has_work, "requests are stalled"
    return steps


def gaps(steps: Sequence[SimulatedStep], request_ids: Sequence[int]) -> list[int]:
    """Between two tokens of one request, ascending."""
    times = defaultdict[int, list[int]](list)
    for step in steps:
        for event in step.events:
            if isinstance(event, TokenEmitted) and event.request_id in request_ids:
                times[event.request_id].append(int(event.at))
    return sorted(later - earlier for each in times.values() for earlier, later in pairwise(each))


def chunks(steps: Sequence[SimulatedStep], request_id: int = LONG) -> list[int]:
    """Rows of a request's prompt, by step."""
    return [
        row.num_rows
        for step in steps
        for row in step.plan.rows
        if isinstance(row, PrefillChunk) and row.request.request_id == request_id
    ]


def prefill_time(steps: Sequence[SimulatedStep], request_id: int = LONG) -> int:
    """Of the steps that compute a prompt."""
    return sum(
        int(step.ended_at - step.began_at)
        for step in steps
        if any(isinstance(row, PrefillChunk) and row.request.request_id == request_id for row in step.plan.rows)
    )


@pytest.mark.parametrize(("row_us", "rows", "whole_ms"), [(400, 250, 3620), (800, 125, 7220)])
def test_a8_a_target_in_milliseconds_needs_no_tuning_for_a_machine(row_us: int, rows: int, whole_ms: int) -> None:
    cost = flat_cost(20 * MS - 4 * row_us, row_us, rules=UNIFIED)
    messages = [*STREAMS, request(LONG, 9000, 4, at=100 * MS)]
    steps = serve(messages, target_ms=120, cost=cost)
    assert set(chunks(steps)) == {rows}
    assert len(chunks(steps)) == 9000 // rows
    found = gaps(steps, (1, 2, 3, 4))
    assert found[int(0.99 * len(found))] <= 120 * MS
    assert found[-1] == 120 * MS  # and no time is left unused
    # the price
    assert prefill_time(steps) == 9000 // rows * 120 * MS
    assert prefill_time(serve(messages, target_ms=None, cost=cost)) == whole_ms * MS


def test_the_caps_that_bite_are_named_and_decode_rows_are_never_left_out() -> None:
    steps = serve([*STREAMS, request(LONG, 600, 4, at=100 * MS)], target_ms=120)
    mixed = [step.plan for step in steps if step.plan.shape.prefill_chunks and step.plan.shape.decode_rows]
    assert [plan.shape.prefill_rows for plan in mixed] == [250, 250, 100]
    assert [plan.caps_hit for plan in mixed] == [(Cap.ITL_TARGET,), (Cap.ITL_TARGET,), ()]
    assert all(plan.shape.decode_rows == 4 and plan.over_target is None for plan in mixed)


def test_nobody_who_decodes_is_no_reason_to_hurry() -> None:
    steps = serve([request(LONG, 9000, 2)], target_ms=120)
    assert chunks(steps) == [9000]
    assert steps[0].plan.caps_hit == ()


def test_a_target_that_decode_rows_alone_exceed_lets_prompts_get_on_and_is_told() -> None:
    steps = serve([*STREAMS, request(LONG, 40, 4, at=100 * MS)], target_ms=15)
    assert chunks(steps) == [16, 16, 8]
    plans = [step.plan for step in steps if step.plan.shape.prefill_chunks and step.plan.shape.decode_rows]
    assert {plan.over_target for plan in plans} == {OverTarget.DECODE_ROWS}


def test_a_target_that_the_least_rows_exceed_is_told_apart() -> None:
    steps = serve([*STREAMS, request(LONG, 40, 4, at=100 * MS)], target_ms=22)
    assert chunks(steps) == [16, 16, 8]
    plans = [step.plan for step in steps if step.plan.shape.prefill_chunks and step.plan.shape.decode_rows]
    assert {plan.over_target for plan in plans} == {OverTarget.LEAST_ROWS}


def test_the_first_prompt_takes_what_fits_and_the_next_what_it_leaves() -> None:
    messages = [*STREAMS, request(LONG, 200, 4, at=100 * MS), request(10, 400, 4, at=101 * MS)]
    steps = serve(messages, target_ms=120)
    # both come in one step: 200 rows, then 50; then the second one alone, beside five decode rows
    assert chunks(steps) == [200]
    assert chunks(steps, 10) == [50, 249, 101]


def test_what_is_left_for_a_second_prompt_is_not_wasted_on_a_few_rows() -> None:
    messages = [*STREAMS, request(LONG, 240, 4, at=100 * MS), request(10, 400, 4, at=101 * MS)]
    steps = serve(messages, target_ms=120)
    assert chunks(steps, 10) == [249, 151]
    short = serve([*messages[:5], request(10, 7, 4, at=101 * MS)], target_ms=120)
    assert chunks(short, 10) == [7]
    assert max(gaps(short, (1, 2, 3, 4))) <= 120 * MS


def test_a_promise_allows_for_steps_that_come_later_than_predicted() -> None:
    cost = flat_cost(18_400, 400, rules=UNIFIED, spread=0.25)
    steps = serve([*STREAMS, request(LONG, 1000, 4, at=100 * MS)], target_ms=120, cost=cost)
    assert chunks(steps)[0] == (96_000 - 20_000) // 400


def test_a_recalibration_changes_the_steps_that_are_planned_after_it() -> None:
    slower = CostChange(threads=Threads(1, 1), factors=(GroupFactors(1, rows=2.0),))
    as_before = CostChange(threads=Threads(1, 1))
    steps = serve(
        [
            *STREAMS,
            request(LONG, 3000, 4, at=100 * MS),
            Recalibration(slower, 400 * MS),
            Recalibration(as_before, 800 * MS),
        ],
        target_ms=120,
    )
    after = (120_000 - 18_400 - 4 * 800) // 800
    found = chunks(steps)
    assert found[:2] == [250, 250]
    first = found.index(after)
    last = len(found) - found[::-1].index(after)
    assert set(found[first:last]) == {after}
    assert set(found[last:-1]) == {250}  # changes are from the calibrated costs on, not from one another
    changed_at = [step.began_at for step in steps if any(isinstance(each, Recalibration) for each in step.messages)]
    assert [at >= due * MS for at, due in zip(changed_at, (400, 800), strict=True)] == [True, True]


def test_where_phases_are_apart_a_prompt_and_the_decode_step_behind_it_keep_the_target_together() -> None:
    cost = flat_cost(10 * MS, 400, rules=SEPARATE)
    messages = [*STREAMS, request(LONG, 501, 4, at=100 * MS)]
    steps = serve(messages, target_ms=120, cost=cost, planner=PhasesApart(max_chunk=512))
    # 10 ms for each of the two steps, and a decode row for each stream and for the one whose prompt may end
    most = (120_000 - 20_000 - 5 * 400) // 400
    assert chunks(steps) == [most, most, 501 - 2 * most]
    assert max(gaps(steps, (1, 2, 3, 4))) <= 120 * MS
    free = serve(messages, target_ms=None, cost=cost, planner=PhasesApart(max_chunk=512))
    assert chunks(free) == [501]


def test_the_machine_may_be_another_one_than_the_scheduler_thinks() -> None:
    machine = flat_cost(18_400, 800, rules=UNIFIED)
    steps = serve([*STREAMS, request(LONG, 500, 4, at=100 * MS)], target_ms=120, machine=machine)
    assert chunks(steps) == [250, 250]
    assert max(gaps(steps, (1, 2, 3, 4))) == 18_400 + 254 * 800


def test_a_target_bites_where_phases_are_apart_and_says_so() -> None:
    cost = flat_cost(10 * MS, 400, rules=SEPARATE)
    steps = serve(
        [*STREAMS, request(LONG, 501, 4, at=100 * MS)], target_ms=120, cost=cost, planner=PhasesApart(max_chunk=512)
    )
    plans = [step.plan for step in steps if step.plan.shape.prefill_chunks and step.began_at >= 100 * MS]
    assert [plan.caps_hit for plan in plans] == [(Cap.ITL_TARGET,), (Cap.ITL_TARGET,), ()]
    assert all(not plan.shape.decode_rows for plan in plans)
