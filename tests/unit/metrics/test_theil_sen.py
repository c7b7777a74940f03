"""The slope against scipy's, and how often its interval holds the truth."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import theilslopes

from arriero.metrics.theil_sen import theil_sen

points = st.lists(st.floats(-1e6, 1e6).map(lambda value: round(value, 3)), min_size=3, max_size=30)


@given(points)
def test_it_is_scipys(values: list[float]) -> None:
    found = theil_sen(list(enumerate(values)))
    assert found is not None
    expected = theilslopes(values, range(len(values)))
    assert found.value == pytest.approx(expected.slope)
    assert found.low <= found.value <= found.high


def test_a_line_has_its_slope_and_no_doubt() -> None:
    assert theil_sen([(x, 3.0 * x + 1) for x in range(10)]) == (3.0, 3.0, 3.0)


def test_few_points_say_nothing() -> None:
    assert theil_sen([(0, 1.0), (1, 2.0)]) is None
    assert theil_sen([(0, 1.0), (0, 2.0), (1, 2.0)]) is None
    assert theil_sen([]) is None


def test_its_interval_holds_the_truth_in_nineteen_of_twenty() -> None:
    rng = random.Random(7)
    held = 0
    for _ in range(400):
        found = theil_sen([(x, 0.5 * x + rng.gauss(0, 4)) for x in range(20)])
        assert found is not None
        held += found.low <= 0.5 <= found.high
    assert 0.92 < held / 400 < 0.99
