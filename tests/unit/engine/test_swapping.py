from dataclasses import replace

import pytest

from arriero.backend.protocol import ReuseSupport
from arriero.core.choices import PreemptKind
from arriero.core.option_kinds import Threads
from arriero.costmodel.calibrated import CalibratedCost, ValidRange
from arriero.costmodel.passes import PassRules
from arriero.costmodel.terms import PassCosts
from arriero.engine.swapping import WHATEVER_IT_COSTS, swap_rule

SMALL = ReuseSupport(trim=True, copy=True, save=True, bytes_per_token=23_040)


def cost(**terms: float) -> CalibratedCost:
    return CalibratedCost(
        rules=PassRules(micro_batch=128, unified=True, stream_cells=4096),
        passes={1: PassCosts.of(terms)},
        threads=Threads(1, 1),
        valid=ValidRange(rows=128, sequences=8, context=4096, pool=4096),
    )


def test_the_word_decides_unless_there_is_no_store() -> None:
    assert swap_rule(PreemptKind.RECOMPUTE, SMALL, exact=False) is None
    assert swap_rule(PreemptKind.SWAP, SMALL, exact=False) == WHATEVER_IT_COSTS
    for kind in PreemptKind:
        assert swap_rule(kind, replace(SMALL, save=False), exact=True) is None


@pytest.mark.parametrize("exact", [False, True])
def test_without_a_profile_a_swap_pays_for_all_but_short_sequences(*, exact: bool) -> None:
    rule = swap_rule(PreemptKind.AUTO, SMALL, exact=exact)
    assert rule is not None
    assert not rule.pays(10, 500)
    assert rule.pays(40, 500)
    assert rule.pays(8000, 500)
    assert not rule.pays(500, 500, 490), "nearly all of it is held by others"
    assert rule.pays(500 + 10, 500, 500) == exact, "ten tokens of an answer take ten calls there"


def test_a_profile_says_what_computing_costs() -> None:
    terms = {"pass": 1000.0, "rows_0": 100.0, "rows_16": 100.0, "rows_64": 100.0}
    rule = swap_rule(PreemptKind.AUTO, SMALL, exact=True, cost=cost(**terms))
    assert rule is not None
    assert rule.row_time == pytest.approx(100 + 1000 / 128)
    assert rule.answer_row_time == pytest.approx(1100)
    fast = swap_rule(PreemptKind.AUTO, SMALL, exact=False, cost=cost(**{"pass": 1.0, "rows_0": 0.1}))
    assert fast is not None
    assert not fast.pays(4000, 4000), "a machine that computes faster than it copies"
    assert (fast.row_time, fast.answer_row_time) == (1.0, 1.0)


def test_the_rule_of_thumb_is_the_same_for_models_of_any_size() -> None:
    for bytes_per_token in (512, 1 << 20):
        rule = swap_rule(PreemptKind.AUTO, replace(SMALL, bytes_per_token=bytes_per_token), exact=False)
        assert rule is not None
        assert [rule.pays(length, 4000) for length in (16, 17, 4000)] == [False, True, True]
    assert swap_rule(PreemptKind.AUTO, replace(SMALL, bytes_per_token=0), exact=False) is not None
