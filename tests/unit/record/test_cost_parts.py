from dataclasses import replace

import msgspec
import pytest

from arriero.core.errors import ConfigError, DataError
from arriero.core.option_kinds import Threads
from arriero.costmodel.calibrated import CalibratedCost
from arriero.costmodel.change import CostChange, GroupFactors
from arriero.costmodel.terms import PassCosts
from arriero.record.cost_parts import CostSetup, ThreadCosts, UsedThreads, cost_from, cost_setup, pass_rules, rules_part
from arriero.testing.costs import FUSED, SEPARATE, UNIFIED, calibrated

TWO_NUMBERS = {1: FUSED, 2: PassCosts.of({"pass": 1 / 3})}
COST = replace(calibrated(FUSED, spread=0.07), passes=TWO_NUMBERS, threads=Threads(1, 2))


@pytest.mark.parametrize(
    "cost",
    [
        COST,
        calibrated(FUSED, rules=UNIFIED),
        COST.changed(CostChange(threads=Threads(2, 2), factors=(GroupFactors(1, 1.1, 0.7, 1.3),), host=1.01)),
    ],
)
def test_a_cost_is_the_same_to_the_last_digit_after_writing_and_reading(cost: CalibratedCost) -> None:
    text = msgspec.json.encode(cost_setup(cost))
    setup = msgspec.json.decode(text, type=CostSetup)
    assert cost_from(setup) == cost
    assert msgspec.json.encode(setup) == text


def test_rules_are_written_and_read() -> None:
    for rules in (SEPARATE, UNIFIED):
        assert pass_rules(rules_part(rules)) == rules


def test_terms_that_cost_nothing_are_left_out() -> None:
    assert [each.terms_us for each in cost_setup(COST).passes][1] == {"pass": 1 / 3}


def test_what_cannot_be_is_refused() -> None:
    setup = cost_setup(COST)
    with pytest.raises(ConfigError, match="--threads 3: calibrated for 1, 2 only"):
        cost_from(msgspec.structs.replace(setup, threads=UsedThreads(decode=3, prefill=3)))
    with pytest.raises(DataError, match="dance: no term of a pass"):
        cost_from(msgspec.structs.replace(setup, passes=[*setup.passes, ThreadCosts(threads=4, terms_us={"dance": 1})]))
