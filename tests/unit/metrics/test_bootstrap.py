import random
import statistics
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from arriero.metrics.bootstrap import (
    RESAMPLES,
    SEED,
    _acceleration,
    draws,
    limit_intervals,
    median_bootstrap,
    medians_of,
)

DIFFERENCES = (
    -3.9, -3.1, -2.8, -2.2, -1.9, -1.8, -1.7, -1.6, -1.6, -1.58, -1.56, -1.1, 0.2, 0.9, 1.4, 2.2, 2.3, 3.8, 4.6, 9.9,
)  # fmt: skip


@pytest.mark.parametrize("count", [1, 2, 7, 16, 20, 31, 64])
def test_draws_are_those_of_pythons_generator(count: int) -> None:
    generator = random.Random(SEED)
    expected = [generator.randrange(count) for _ in range(3 * 50)]
    found = draws(count, 150 // count + 1).ravel()[:150] if count < 150 else draws(count, 1).ravel()
    assert found.tolist()[: len(expected)] == expected[: len(found)]


def test_the_published_interval_to_the_digit() -> None:
    generator = random.Random(SEED)
    count = 7
    values = DIFFERENCES[:count]
    medians = sorted(
        statistics.median(values[generator.randrange(count)] for _ in range(count)) for _ in range(RESAMPLES)
    )
    found = median_bootstrap(values)
    assert tuple(found.percentile) == (medians[1250], medians[48750])
    assert found.median == statistics.median(values)


def resampled(values: tuple[float, ...]) -> np.ndarray:
    return medians_of(np.asarray(values)[draws(len(values), RESAMPLES)])


@pytest.mark.parametrize("values", [DIFFERENCES, DIFFERENCES[:7], tuple(abs(each) ** 3 for each in DIFFERENCES)])
def test_bca_is_scipys_and_the_percentile_ends_stand_beside_scipys(values: tuple[float, ...]) -> None:
    medians = resampled(values)
    theirs = {
        method: stats.bootstrap(
            (values,), np.median, n_resamples=0, method=method, vectorized=True,
            bootstrap_result=cast("Any", SimpleNamespace(bootstrap_distribution=medians)),
        ).confidence_interval
        for method in ("percentile", "BCa")
    }  # fmt: skip
    ours = median_bootstrap(values)
    assert ours.bca == pytest.approx(tuple(theirs["BCa"]), abs=1e-12)
    ordered = np.sort(medians)
    assert ordered[1249] <= theirs["percentile"].low <= ordered[1250] == ours.percentile.low
    assert ours.percentile.high == ordered[48750] >= theirs["percentile"].high >= ordered[48749]


def test_a_sample_that_cannot_have_bca_says_why() -> None:
    alone = median_bootstrap([2.0])
    assert (alone.bca, alone.bca_reason) == (None, "one value cannot be left out")
    same = median_bootstrap([1.0] * 6)
    assert (same.median, tuple(same.percentile), same.bca) == (1.0, (1.0, 1.0), None)
    assert same.bca_reason == "leaving one value out never moves the median"


@pytest.mark.parametrize("values", [[], [1.0, float("nan")], [float("inf")]])
def test_values_that_have_no_median_are_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="finite ones"):
        median_bootstrap(values)


@pytest.mark.parametrize("count", [6, 7, 20, 21])
def test_many_resamples_come_to_the_limit(count: int) -> None:
    values = np.random.default_rng(3).normal(size=count)
    low, high = limit_intervals(values[np.newaxis, :])
    found = median_bootstrap(values.tolist())
    neighbours = np.unique(resampled(tuple(values.tolist())))
    for limit, end in ((low[0], found.percentile.low), (high[0], found.percentile.high)):
        assert abs(np.searchsorted(neighbours, limit) - np.searchsorted(neighbours, end)) <= 2


@settings(deadline=None, max_examples=20)
@given(st.lists(st.floats(-50, 50).map(lambda x: round(x, 3)), min_size=1, max_size=25))
def test_intervals_hold_the_median_and_lie_within_the_values(values: list[float]) -> None:
    found = median_bootstrap(values, resamples=2_000)
    assert min(values) <= found.percentile.low <= found.median <= found.percentile.high <= max(values)
    if found.bca is not None:
        assert min(values) <= found.bca.low <= found.bca.high <= max(values)


@pytest.mark.parametrize("values", [DIFFERENCES, DIFFERENCES[:8], tuple(abs(each) ** 3 for each in DIFFERENCES)])
def test_bca_of_an_even_number_of_values_corrects_the_bias_alone(values: tuple[float, ...]) -> None:
    ordered, middle = np.sort(resampled(values)), statistics.median(values)
    share = (np.mean(ordered < middle) + np.mean(ordered <= middle)) / 2
    normal = statistics.NormalDist()
    bias = normal.inv_cdf(float(share))
    ends = np.quantile(ordered, [normal.cdf(2 * bias + normal.inv_cdf(tail)) for tail in (0.025, 0.975)])
    assert median_bootstrap(values).bca == pytest.approx(tuple(ends.tolist()), abs=1e-9)
    assert _acceleration(values) == pytest.approx(0.0, abs=1e-12)


@given(
    st.lists(st.integers(-1_000, 1_000), min_size=3, max_size=3, unique=True), st.integers(0, 8), st.integers(0, 10**6)
)
def test_the_acceleration_of_an_odd_number_of_values_is_that_of_the_three_middle_ones(
    three: list[int], num_beyond: int, far: int
) -> None:
    low, _, high = sorted(three)
    near = [low] * num_beyond + three + [high] * num_beyond
    wide = [low - far] * num_beyond + three + [high + far] * num_beyond
    assert _acceleration(near) == _acceleration(wide)


@given(st.floats(-50, 50), st.integers(3, 22))
def test_equal_leave_one_out_medians_are_told_as_such_however_their_mean_is_rounded(value: float, count: int) -> None:
    reason = "leaving one value out never moves the median"
    assert median_bootstrap([value] * count, resamples=50).bca_reason == reason
    assert _acceleration([value - 1, *[value] * count, value + 1]) is None


@pytest.mark.parametrize("scale", [1e-300, 1e-120, 1.0, 1e120])
def test_the_acceleration_does_not_depend_on_the_unit(scale: float) -> None:
    values = DIFFERENCES[:7]
    assert _acceleration([scale * value for value in values]) == pytest.approx(_acceleration(values), rel=1e-9)
