from dataclasses import replace
from math import inf

import pytest

from arriero.core.errors import ConfigError
from arriero.core.ids import RequestId, SequenceId
from arriero.core.option_kinds import Threads
from arriero.core.plan import BatchPlan, DecodeRow, StepShape
from arriero.core.request import Request
from arriero.costmodel.calibrated import CalibratedCost, HostCosts, ValidRange
from arriero.costmodel.change import CostChange, GroupFactors
from arriero.costmodel.passes import PassRules, Stretch
from arriero.costmodel.terms import PassCosts, TermGroup
from arriero.testing.costs import UNIFIED, flat_cost

COST = CalibratedCost(
    rules=PassRules(micro_batch=512, unified=False, stream_cells=2048),
    passes={
        1: PassCosts.of({"pass": 2000, "rows_0": 1000, "one_key": 3}),
        2: PassCosts.of({"pass": 1500, "rows_0": 600, "few_key": 2}),
    },
    threads=Threads(1, 2),
    host=HostCosts(step=100, entry=10, token=2, delivery=3),
    valid=ValidRange(rows=512, sequences=4, context=1000, pool=8192),
)
ROW = [Stretch(0, 10, 1, wants_logits=True)]
SAME = CostChange(threads=Threads(1, 2))


def test_a_group_of_terms_is_multiplied_at_one_number_of_threads() -> None:
    changed = COST.changed(CostChange(threads=Threads(1, 2), factors=(GroupFactors(1, 2.0, 3.0, 5.0),), host=0.5))
    assert changed.passes[1] == PassCosts.of({"pass": 4000, "rows_0": 3000, "one_key": 15})
    assert changed.passes[2] == COST.passes[2]
    assert changed.host == HostCosts(step=50, entry=5, token=1, delivery=1.5)
    assert changed.time(ROW) == round(4000 + 3000 + 15 * 11 + 50 + 5 + 2.5)


def test_changes_are_from_the_calibrated_costs_on() -> None:
    twice = CostChange(threads=Threads(2, 2), factors=(GroupFactors(1, 2.0, 2.0, 2.0),), spread=0.1)
    changed = COST.changed(twice)
    assert changed.origin == COST
    assert changed.changed(twice) == changed
    assert (changed.threads, changed.spread) == (Threads(2, 2), 0.1)
    assert changed.changed(SAME) == COST


def test_who_names_threads_that_were_not_measured_is_told() -> None:
    with pytest.raises(ConfigError, match="at 4 threads: calibrated for 1, 2 only"):
        COST.changed(CostChange(threads=Threads(1, 2), factors=(GroupFactors(4),)))
    with pytest.raises(ConfigError, match="--threads 4: calibrated for 1, 2 only"):
        COST.changed(CostChange(threads=Threads(4, 4)))


@pytest.mark.parametrize(
    "values",
    [
        {"host": 0.0},
        {"host": inf},
        {"spread": -0.1},
        {"factors": (GroupFactors(1, fixed=0.0),)},
        {"factors": (GroupFactors(1, attention=-1.0),)},
        {"factors": (GroupFactors(1), GroupFactors(1))},
    ],
)
def test_what_is_no_change_is_refused(values: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="a change of costs"):
        CostChange(threads=Threads(1, 1), **values)  # type: ignore[arg-type]


def test_the_factor_that_moved_most_says_how_far_two_changes_are_apart() -> None:
    one = CostChange(threads=Threads(1, 2), factors=(GroupFactors(1, 1.0, 1.5, 1.0), GroupFactors(2)))
    assert one.moved_from(one) == 0
    assert one.moved_from(SAME) == pytest.approx(0.5)
    assert SAME.moved_from(one) == pytest.approx(0.5)
    assert replace(SAME, host=1.03).moved_from(SAME) == pytest.approx(0.03)
    assert replace(SAME, spread=0.1).moved_from(SAME) == pytest.approx(0.1)
    assert replace(SAME, threads=Threads(2, 2)).moved_from(SAME) == inf


def test_factors_are_named_by_their_groups() -> None:
    assert GroupFactors(1, 2.0, 3.0, 4.0).by_group == {
        TermGroup.FIXED: 2.0, TermGroup.ROWS: 3.0, TermGroup.ATTENTION: 4.0,
    }  # fmt: skip


def test_a_plan_says_how_full_the_pool_is() -> None:
    cost = replace(flat_cost(0, 0, rules=UNIFIED), passes={1: PassCosts.of({"one_scan": 1.0})})
    request = Request(request_id=RequestId(1), prompt=(1, 2), max_tokens=40, arrival_at=0)
    plan = BatchPlan(
        step=1,
        rows=(DecodeRow(request, SequenceId(0), 10, 5),),
        shape=StepShape(decode_rows=1, prefill_rows=0, prefill_chunks=0, context_tokens=10, num_running=1),
        events=(),
        caps_hit=(),
        num_waiting=0,
        wake_at=None,
        pool_cells=5000,
    )
    assert cost.plan_time(plan) == 5120  # in multiples of 256
    assert cost.plan_time(plan, pool=0) == 256
    assert not cost.is_level
