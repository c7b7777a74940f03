import math

import numpy as np
import pytest
from scipy import stats

from arriero.metrics.paired_figures import order_interval
from arriero.metrics.power import (
    _depth,
    expected_floor,
    log_spread,
    pairs_needed,
    sd_range,
    smallest_effect,
)


def resolved_share(effect: float, spread: float, num_pairs: int, floor: float, confidence: float) -> float:
    """How often the interval between order statistics leaves 1 out and the median lies outside of the floor."""
    rng = np.random.default_rng(11)
    ratios = np.exp(rng.normal(math.log1p(effect), spread, size=(4_000, num_pairs)))
    sample = order_interval(list(range(num_pairs)), confidence)
    assert sample is not None
    ordered = np.sort(ratios, axis=1)
    above = ordered[:, int(sample.low)] > 1
    medians = np.median(ratios, axis=1)
    return float(np.mean(above & (medians > 1 + floor)))


@pytest.mark.parametrize("num_pairs", [12, 21, 40])
@pytest.mark.parametrize("confidence", [0.95, 0.975])
def test_the_smallest_effect_is_resolved_as_often_as_it_says(num_pairs: int, confidence: float) -> None:
    spread = 0.03
    floor = expected_floor(num_pairs, spread, confidence)
    effect = smallest_effect(num_pairs, spread, floor=floor, confidence=confidence)
    assert effect is not None
    assert resolved_share(effect, spread, num_pairs, floor, confidence) == pytest.approx(0.8, abs=0.025)


@pytest.mark.parametrize("num_pairs", [5, 6, 7, 20, 100])
@pytest.mark.parametrize("confidence", [0.95, 0.975])
def test_the_interval_is_that_between_order_statistics(num_pairs: int, confidence: float) -> None:
    sample = order_interval(list(range(1, num_pairs + 1)), confidence)
    assert _depth(num_pairs, confidence) == (0 if sample is None else sample.low)


@pytest.mark.parametrize("num_pairs", [999, 1_500, 4_000])
def test_the_interval_of_many_pairs_is_that_of_the_binomial(num_pairs: int) -> None:
    assert _depth(num_pairs, 0.95) == pytest.approx(stats.binom.ppf(0.025, num_pairs, 0.5), abs=1)


def test_without_a_floor_smaller_effects_are_resolved() -> None:
    free = smallest_effect(20, 0.03, floor=None)
    bound = smallest_effect(20, 0.03, floor=0.05)
    assert free is not None
    assert bound is not None
    assert free < bound
    assert bound > 0.05
    assert resolved_share(free, 0.03, 20, 0.0, 0.95) == pytest.approx(0.8, abs=0.025)


def test_too_few_pairs_resolve_nothing() -> None:
    assert smallest_effect(5, 0.01, floor=None) is None
    assert smallest_effect(6, 0.01, floor=None) is not None


def test_pairs_needed_resolve_the_effect_and_one_fewer_does_not() -> None:
    needed = pairs_needed(0.02, 0.03, 20)
    assert needed.pairs is not None
    assert needed.least is not None
    assert needed.most is not None
    assert needed.least < needed.pairs < needed.most

    def least(count: int) -> float:
        found = smallest_effect(count, 0.03, floor=expected_floor(count, 0.03, 0.95))
        return math.inf if found is None else found

    assert least(needed.pairs) <= 0.02
    assert least(needed.pairs - 1) > 0.02


def test_more_noise_needs_more_pairs_and_at_last_too_many() -> None:
    counts = [pairs_needed(0.02, spread, 20).pairs for spread in (0.005, 0.02, 0.08)]
    assert counts == sorted(counts, key=lambda count: count or math.inf)
    assert counts[0] is not None
    assert pairs_needed(0.001, 0.5, 20).pairs is None


def test_the_spread_is_that_of_the_logarithms_around_no_difference() -> None:
    assert log_spread([(1.0, math.exp(0.1)), (1.0, math.exp(-0.1))]) == pytest.approx(0.1)
    assert log_spread([(1.0, 2.0)]) is None
    assert log_spread([(0.0, 2.0), (1.0, 1.0)]) is None


@pytest.mark.parametrize("count", [5, 10, 20, 60])
def test_the_range_of_the_spread_is_that_of_chi_square(count: int) -> None:
    low, high = (math.sqrt(count / stats.chi2.ppf(tail, count)) for tail in (0.975, 0.025))
    assert sd_range(1.0, count) == pytest.approx((low, high), rel=0.025)
