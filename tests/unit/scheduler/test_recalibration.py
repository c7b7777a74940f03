"""A scheduler hears between two steps that steps take longer, or shorter, than they did."""

import pytest

from arriero.core.errors import CallOrderError, ConfigError
from arriero.core.ids import RequestId
from arriero.core.option_kinds import Threads
from arriero.core.plan import BatchPlan
from arriero.core.request import Request
from arriero.costmodel.calibrated import CalibratedCost
from arriero.costmodel.change import CostChange, GroupFactors
from arriero.costmodel.passes import PassRules
from arriero.kv.cells import CellLayout, CellManager
from arriero.scheduler.draft import PrefillBudget
from arriero.scheduler.planners import DecodeFirst
from arriero.scheduler.policies import FirstComeFirstServed
from arriero.scheduler.rules import SchedulerLimits
from arriero.scheduler.scheduler import Scheduler
from arriero.scheduler.step_target import StepTarget
from arriero.testing.costs import flat_cost
from arriero.testing.simulation import CountingAnswers

POOLED = PassRules(micro_batch=64, unified=True, stream_cells=1024)
TWICE = CostChange(threads=Threads(1, 1), factors=(GroupFactors(1, rows=2.0),))


def new_scheduler(cost: CalibratedCost | None, limit: int | None = None) -> Scheduler:
    """Two sequences; with a limit, steps are to take no longer."""
    within = None if limit is None or cost is None else StepTarget(limit=limit, cost=cost, least_rows=1)
    return Scheduler(
        kv=CellManager(CellLayout(num_sequences=2, num_cells=1024, sequence_limit=1024, unified=True)),
        planner=DecodeFirst(),
        policy=FirstComeFirstServed(),
        limits=SchedulerLimits(num_rows=64, budget=PrefillBudget(within=within), cost=cost if within is None else None),
    )


def submit(scheduler: Scheduler, request_id: int, prompt: int) -> None:
    scheduler.submit(
        Request(request_id=RequestId(request_id), prompt=(request_id,) * prompt, max_tokens=90, arrival_at=0), 0
    )


def step(scheduler: Scheduler, now: int = 0) -> BatchPlan:
    plan = scheduler.plan(now)
    scheduler.commit(CountingAnswers().to(plan), now)
    return plan


def test_the_next_plan_goes_by_the_new_costs() -> None:
    scheduler = new_scheduler(flat_cost(1000, 100, rules=POOLED), limit=3100)
    submit(scheduler, 1, 4)
    step(scheduler)
    submit(scheduler, 2, 60)
    assert step(scheduler).shape.prefill_rows == 20
    assert scheduler.recalibrate(TWICE, 5) == ()
    assert step(scheduler, 5).shape.prefill_rows == 9
    assert scheduler.recalibrate(TWICE, 6) == ()
    assert step(scheduler, 6).shape.prefill_rows == 9


def test_it_is_a_verb_like_the_others() -> None:
    scheduler = new_scheduler(flat_cost(1000, 100, rules=POOLED))
    submit(scheduler, 1, 4)
    plan = scheduler.plan(3)
    with pytest.raises(CallOrderError, match="recalibrate between a plan with rows and its commit"):
        scheduler.recalibrate(TWICE, 3)
    scheduler.commit(CountingAnswers().to(plan), 4)
    with pytest.raises(CallOrderError, match="recalibrate at 3 after a call at 4"):
        scheduler.recalibrate(TWICE, 3)


def test_where_nobody_knows_what_steps_take_nothing_can_change() -> None:
    with pytest.raises(ConfigError, match="costs change where there are none"):
        new_scheduler(None).recalibrate(TWICE, 0)


@pytest.mark.parametrize(("cost", "pools"), [(None, [0, 0, 0]), (flat_cost(1, 1, rules=POOLED), [0, 64, 64 + 41])])
def test_a_plan_says_how_full_one_pool_is_before_its_rows(cost: CalibratedCost | None, pools: list[int]) -> None:
    scheduler = new_scheduler(cost)
    submit(scheduler, 1, 4)
    submit(scheduler, 2, 100)
    plans = [step(scheduler) for _ in range(3)]
    assert [plan.shape.num_rows for plan in plans] == [64, 41, 2]
    # a prompt under way holds places that have nothing in them yet
    assert [plan.pool_cells for plan in plans] == pools
