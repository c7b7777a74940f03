"""What a target in milliseconds adds to the planning of a step, in calls of Python functions."""

import sys
from types import FrameType

import pytest

from arriero.core.ids import RequestId
from arriero.core.plan import Cap
from arriero.core.request import Request
from arriero.kv.cells import CellLayout, CellManager
from arriero.scheduler.draft import UNMETERED, PrefillBudget
from arriero.scheduler.planners import DecodeFirst
from arriero.scheduler.policies import FirstComeFirstServed
from arriero.scheduler.rules import SchedulerLimits
from arriero.scheduler.scheduler import Scheduler
from arriero.scheduler.step_target import StepTarget
from arriero.testing.costs import FUSED, SEPARATE, UNIFIED, calibrated
from arriero.testing.simulation import CountingAnswers

NUM_SEQUENCES = 16
CALLS = {True: 600, False: 500}
"""Unified, where all is predicted anew for each length, or separate; each call takes a fraction of a microsecond."""


def crowd(*, unified: bool, limit: int | None) -> Scheduler:
    """Fifteen decode, one is about to compute a long prompt, a thousand wait."""
    within = None
    if limit is not None:
        within = StepTarget(limit=limit, cost=calibrated(FUSED, rules=UNIFIED if unified else SEPARATE))
    scheduler = Scheduler(
        kv=CellManager(CellLayout(num_sequences=NUM_SEQUENCES, num_cells=32_768, sequence_limit=2048, unified=unified)),
        planner=DecodeFirst(),
        policy=FirstComeFirstServed(),
        limits=SchedulerLimits(num_rows=512, budget=UNMETERED if within is None else PrefillBudget(within=within)),
    )
    for number in range(NUM_SEQUENCES - 1):
        scheduler.submit(ask(number, 8), 0)
    for _ in range(2):
        scheduler.commit(CountingAnswers().to(scheduler.plan(0)), 0)
    for number in range(1001):
        scheduler.submit(ask(100 + number, 900), 0)
    return scheduler


def ask(number: int, prompt: int) -> Request:
    return Request(request_id=RequestId(number), prompt=(number,) * prompt, max_tokens=500, arrival_at=0)


def calls_of_a_plan(scheduler: Scheduler) -> int:
    """Calls of Python functions in the step that starts the long prompt."""
    count = 0

    def profile(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        del frame, arg
        count += event == "call"

    sys.setprofile(profile)
    plan = scheduler.plan(0)
    sys.setprofile(None)
    assert (plan.shape.decode_rows, plan.shape.prefill_chunks, plan.num_waiting) == (15, 1, 1000)
    assert (Cap.ITL_TARGET in plan.caps_hit) == (plan.shape.prefill_rows < 497)
    return count


@pytest.mark.perf
@pytest.mark.parametrize("unified", [True, False])
@pytest.mark.parametrize("limit_ms", [60, 130, 260, 500])
def test_a_target_costs_a_step_a_bounded_number_of_calls(limit_ms: int, unified: bool) -> None:  # noqa: FBT001 - a parameter
    usual = calls_of_a_plan(crowd(unified=unified, limit=None))
    metered = calls_of_a_plan(crowd(unified=unified, limit=1000 * limit_ms))
    assert 0 < metered - usual <= CALLS[unified]
