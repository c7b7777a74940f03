"""Figures of repetitions, against numpy and scipy."""

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from arriero.metrics.spread import ratio, spread

RATES = st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=30)


@given(RATES)
def test_spreads_are_those_of_numpy_and_scipy(values: list[float]) -> None:
    found = spread(values)
    assert found.n == len(values)
    assert found.mean == pytest.approx(np.mean(values), rel=1e-12)
    assert found.median == pytest.approx(np.median(values), rel=1e-12)
    assert (found.minimum, found.maximum) == (min(values), max(values))
    assert found.cv is not None
    if len(values) > 1:
        assert found.sd == pytest.approx(np.std(values, ddof=1), rel=1e-6, abs=1e-9)
        assert found.cv == pytest.approx(scipy.stats.variation(values, ddof=1), rel=1e-6, abs=1e-9)
    else:
        assert (found.sd, found.cv) == (0.0, 0.0)


def test_the_sd_is_that_of_a_sample_and_the_cv_a_ratio() -> None:
    found = spread([90.0, 110.0])
    assert found.sd == pytest.approx(math.sqrt(200.0))
    assert found.cv == pytest.approx(math.sqrt(200.0) / 100)


def test_the_sum_is_exact() -> None:
    assert spread([1e16, 1.0, -1e16]).mean == pytest.approx(1 / 3)


def test_a_mean_of_0_has_no_cv() -> None:
    assert spread([-1.0, 1.0]).cv is None


@pytest.mark.parametrize("values", [[], [math.nan], [1.0, math.inf]])
def test_what_has_no_spread_is_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="value"):
        spread(values)


def test_an_undefined_ratio_is_none_and_never_0() -> None:
    assert [ratio(3.0, 2.0), ratio(None, 2.0), ratio(3.0, None), ratio(3.0, 0.0)] == [1.5, None, None, None]
