import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.metrics.quantiles import Percentiles, nearest_rank, percentiles, weighted_percentiles


def test_one_to_ten_gives_the_textbook_values() -> None:
    assert percentiles(range(1, 11)) == Percentiles(5, 9, 10, 10)


def test_no_samples_give_none() -> None:
    assert percentiles([]) == Percentiles(None, None, None, None)
    assert weighted_percentiles({}) == Percentiles(None, None, None, None)


def test_the_product_is_that_of_doubles() -> None:
    # 0.95 * 20 is 19.0 exactly, 0.07 * 100 is 7.000000000000001: the published rule takes the 8th
    assert nearest_rank(range(1, 21), 0.95) == 19
    assert nearest_rank(range(1, 101), 0.07) == math.ceil(0.07 * 100) == 8


@given(st.lists(st.integers(0, 50), min_size=1))
def test_counts_of_equal_samples_are_weights(samples: list[int]) -> None:
    assert weighted_percentiles(Counter(samples)) == percentiles(samples)


@given(st.lists(st.integers(), min_size=1))
def test_a_percentile_is_a_sample_with_enough_samples_at_or_below_it(samples: list[int]) -> None:
    for share, value in zip((0.5, 0.9, 0.95, 0.99), percentiles(samples), strict=True):
        assert value is not None
        assert value in samples
        below = sum(each <= value for each in samples)
        assert below >= share * len(samples) or below == len(samples)


def test_heavier_values_pull_the_median() -> None:
    assert weighted_percentiles({1: 1.0, 2: 1.0, 9: 8.0}).p50 == 9
    assert weighted_percentiles({1: 0.0, 2: 1.0}).p50 == 2


@pytest.mark.parametrize("size", [1, 2, 3])
def test_small_samples_stay_within(size: int) -> None:
    assert nearest_rank(range(size), 0.0) == 0
    assert nearest_rank(range(size), 1.0) == size - 1
