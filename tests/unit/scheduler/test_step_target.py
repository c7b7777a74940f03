from dataclasses import replace

import pytest

from arriero.core.errors import ConfigError
from arriero.core.option_kinds import Threads
from arriero.core.plan import Cap, OverTarget
from arriero.costmodel.change import CostChange, GroupFactors
from arriero.costmodel.passes import Stretch
from arriero.scheduler.draft import PrefillBudget
from arriero.scheduler.prompt_caps import PromptCaps
from arriero.scheduler.rules import SchedulerLimits
from arriero.scheduler.step_target import Allowance, MeteredStep, StepTarget
from arriero.testing.costs import UNIFIED, flat_cost

COST = flat_cost(10_000, 100)
TARGET = StepTarget(limit=20_000, cost=COST, least_rows=16)  # 100 rows beside nobody, 98 beside two that decode
SLOWER = CostChange(threads=Threads(1, 1), factors=(GroupFactors(1, rows=2.0),), spread=0.25)


def decodes(count: int) -> list[Stretch]:
    return [Stretch(number, 50, 1, wants_logits=True) for number in range(count)]


def chunk(num_rows: int, sequence_id: int = 7) -> Stretch:
    return Stretch(sequence_id, 0, num_rows, wants_logits=True)


@pytest.mark.parametrize(("limit", "least", "what"), [(0, 16, "above 0"), (-5, 16, "above 0"), (1, 0, "least_rows")])
def test_a_target_that_nothing_can_keep_is_refused(limit: int, least: int, what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        StepTarget(limit=limit, cost=COST, least_rows=least)


def test_rows_are_those_that_fit_beside_what_is_taken() -> None:
    assert TARGET.rows(decodes(2), chunk(500)) == 98
    assert TARGET.rows(decodes(2), chunk(30)) == 30
    assert TARGET.rows(decodes(2), chunk(500), apart=5000) == 48
    assert TARGET.rows(decodes(2), chunk(500), apart=20_000) == 0


def test_a_promise_leaves_room_for_what_comes_late() -> None:
    assert TARGET.planned == 20_000
    late = replace(TARGET, cost=COST.changed(SLOWER))
    assert late.planned == 16_000
    assert late.rows(decodes(2), chunk(500)) == (16_000 - 10_000) // 200 - 2


def test_the_first_prompt_gets_what_fits_and_then_nobody_else_gets_any() -> None:
    step = MeteredStep(TARGET)
    first = step.allow(decodes(2), chunk(500), 0)
    assert first == Allowance(98, Cap.ITL_TARGET)
    assert step.allow(decodes(2), chunk(500), 0) == first  # asking changes nothing
    step.note(first)
    assert step.allow([*decodes(2), chunk(98)], chunk(3, 8), 0) == Allowance(0, Cap.ITL_TARGET)


def test_a_later_prompt_gets_its_end_or_enough_to_be_worth_a_pass() -> None:
    step = MeteredStep(TARGET)
    step.note(step.allow(decodes(2), chunk(90), 0))
    taken = [*decodes(2), chunk(90)]
    assert step.allow(taken, chunk(500, 8), 0) == Allowance(0, Cap.ITL_TARGET)
    assert step.allow(taken, chunk(8, 8), 0) == Allowance(8)
    assert step.allow(taken, chunk(9, 8), 0) == Allowance(0, Cap.ITL_TARGET)


@pytest.mark.parametrize(
    ("limit", "wanted", "expected"),
    [
        (10_300, 500, Allowance(16, Cap.ITL_TARGET, OverTarget.LEAST_ROWS)),
        (10_100, 500, Allowance(16, Cap.ITL_TARGET, OverTarget.DECODE_ROWS)),
        (10_100, 9, Allowance(9, None, OverTarget.DECODE_ROWS)),
        (11_800, 500, Allowance(16, Cap.ITL_TARGET)),
    ],
)
def test_the_first_prompt_always_gets_its_least_rows(limit: int, wanted: int, expected: Allowance) -> None:
    step = MeteredStep(StepTarget(limit=limit, cost=COST))
    allowed = step.allow(decodes(2), chunk(wanted), 0)
    assert allowed == expected
    step.note(allowed)
    is_spent = step.allow(decodes(2), chunk(1, 8), 0).num_rows == 0
    assert is_spent


def test_decode_rows_that_wait_behind_the_step_count_too() -> None:
    step = MeteredStep(TARGET)
    step.let_wait(decodes(3), decodes(2))
    assert step.others_wait
    # 10.3 ms for their own step
    assert step.allow((), chunk(500), 0) == Allowance(16, Cap.ITL_TARGET, OverTarget.LEAST_ROWS)
    assert not MeteredStep(TARGET).others_wait


def test_only_one_pool_of_cells_asks_how_many_are_in_use() -> None:
    assert not MeteredStep(TARGET).counts_pool
    assert MeteredStep(StepTarget(limit=1, cost=flat_cost(1, 1, rules=UNIFIED))).counts_pool


def test_limits_know_what_steps_take_from_either_place() -> None:
    alone = SchedulerLimits(num_rows=8)
    assert alone.cost is None
    assert SchedulerLimits(num_rows=8, cost=COST).cost is COST
    metered = SchedulerLimits(num_rows=8, budget=PrefillBudget(within=TARGET))
    assert metered.cost is COST
    with pytest.raises(ConfigError, match="other costs"):
        SchedulerLimits(num_rows=8, budget=PrefillBudget(within=TARGET), cost=flat_cost(1, 1))
    with pytest.raises(ConfigError, match="costs change where there are none"):
        alone.changed(SLOWER)


def test_limits_change_in_both_places() -> None:
    limits = SchedulerLimits(num_rows=8, budget=PrefillBudget(per_step=5, within=TARGET), cost=COST).changed(SLOWER)
    assert limits.cost == COST.changed(SLOWER)
    assert limits.budget.within == replace(TARGET, cost=COST.changed(SLOWER))
    assert limits.budget.per_step == 5
    only_cost = SchedulerLimits(num_rows=8, cost=COST).changed(SLOWER)
    assert only_cost.budget.within is None
    assert only_cost.cost == COST.changed(SLOWER)


def test_the_tightest_cap_is_named_only_where_it_keeps_rows_out() -> None:
    caps = PromptCaps(per_sequence=8, per_step=12)
    assert caps.allow(8, 16) == Allowance(8)
    assert caps.allow(9, 16) == Allowance(8, Cap.PER_SEQUENCE)
    assert caps.allow(9, 5) == Allowance(5, Cap.BATCH)
    caps.take(8)
    assert caps.allow(9, 16) == Allowance(4, Cap.PER_STEP)
    caps.note(Cap.PER_STEP)
    caps.note(None)
    caps.note(Cap.PER_STEP)
    assert caps.hit == [Cap.PER_STEP]
