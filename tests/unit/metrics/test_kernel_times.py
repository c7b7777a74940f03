import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.metrics.kernel_times import ratio_of_medians, time_figures

TIMES = st.lists(st.tuples(st.integers(1, 10**9), st.integers(1, 10**9)), min_size=1, max_size=15)


def test_figures_are_of_one_call() -> None:
    figures = time_figures([1000, 3000, 2000], 10)
    assert figures.median_ns == 200
    assert figures.least_ns == 100
    assert figures.cv == pytest.approx(0.5)
    assert time_figures([500], 100).cv is None


def test_the_published_form_is_a_ratio_of_medians() -> None:
    found = ratio_of_medians([226, 226, 230, 225, 227], [171, 172, 171, 190, 171], seed=1)
    assert found.value == pytest.approx(226 / 171)
    assert found.low <= found.value <= found.high


@given(TIMES)
def test_the_interval_holds_the_ratio_of_some_repetitions(times: list[tuple[int, int]]) -> None:
    first, second = zip(*times, strict=True)
    found = ratio_of_medians(first, second, seed=3, resamples=200)
    least, greatest = min(first) / max(second), max(first) / min(second)
    assert (
        least * (1 - 1e-12) <= found.low <= found.high * (1 + 1e-12) <= greatest * (1 + 1e-11)
    )  # ends are interpolated


@given(TIMES)
def test_a_kernel_against_itself_is_1(times: list[tuple[int, int]]) -> None:
    first = [one for one, _ in times]
    found = ratio_of_medians(first, first, seed=3, resamples=50)
    assert (found.low, found.value, found.high) == pytest.approx((1, 1, 1), rel=1e-12)


def test_a_slow_stretch_hits_both_and_does_not_widen_the_interval() -> None:
    rng = np.random.default_rng(5)
    slow = np.where(np.arange(11) < 5, 3.0, 1.0)
    noise = 1 + 0.001 * rng.standard_normal((2, 11))
    first, second = (1_200_000 * slow * noise[0]).astype(int), (1_000_000 * slow * noise[1]).astype(int)
    found = ratio_of_medians(first.tolist(), second.tolist(), seed=1)
    assert found.low == pytest.approx(1.2, rel=0.01)
    assert found.high == pytest.approx(1.2, rel=0.01)


@pytest.mark.parametrize(("first", "second"), [([], []), ([1], [1, 2])])
def test_times_without_partners_are_refused(first: list[int], second: list[int]) -> None:
    with pytest.raises(ValueError, match="give as many of both"):
        ratio_of_medians(first, second, seed=1)
