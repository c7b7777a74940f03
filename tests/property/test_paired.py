"""How often a paired comparison says something wrong, over many seeds: no more often than it claims."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.metrics.paired import compare_pairs, noise_floor
from arriero.metrics.paired_figures import median_interval, order_interval
from arriero.metrics.paired_verdict import Verdict

CONFIDENCE = 0.95
RESAMPLES = 1_000


Pairs = list[tuple[float, float]]


def run(num_pairs: int, seed: int, *, noise: float, drift: float, effect: float = 0.0) -> tuple[Pairs, str]:
    """Pairs under ABBA on a machine whose speed grows by `drift` from the first run to the last."""
    order = ("ABBA" * num_pairs)[: 2 * num_pairs]
    rng = np.random.default_rng(seed)
    speed = 100 * (1 + drift * np.arange(2 * num_pairs) / (2 * num_pairs - 1))
    values = speed * np.exp(noise * rng.standard_normal(2 * num_pairs))
    sides = [{order[at]: values[at], order[at + 1]: values[at + 1]} for at in range(0, 2 * num_pairs, 2)]
    return [(float(each["A"]), float(each["B"]) * (1 + effect)) for each in sides], order


def judge(num_pairs: int, seed: int, *, noise: float, drift: float, effect: float = 0.0) -> Verdict:
    pairs, order = run(num_pairs, seed, noise=noise, drift=drift, effect=effect)
    found = compare_pairs(
        pairs, floor=None, seed=seed, higher_is_better=True, confidence=CONFIDENCE, order=order, resamples=RESAMPLES
    )
    return found.verdict


@pytest.mark.slow
@pytest.mark.parametrize("num_pairs", [6, 7, 12])
def test_identical_sides_under_linear_drift_and_noise_seldom_get_a_verdict(num_pairs: int) -> None:
    found = [judge(num_pairs, seed, noise=0.2, drift=(0.0, 0.2, 1.0, -0.6)[seed % 4]) for seed in range(400)]
    wrong = sum(each in {Verdict.BETTER, Verdict.WORSE} for each in found)
    assert wrong <= (1 - CONFIDENCE) * len(found)


@pytest.mark.parametrize("drift", [0.3, -0.3, 5.0])
def test_drift_without_noise_never_gives_a_wrong_verdict(drift: float) -> None:
    for num_pairs in (6, 7, 12, 13):
        assert judge(num_pairs, 0, noise=1e-9, drift=drift) not in {Verdict.BETTER, Verdict.WORSE}


@pytest.mark.slow
def test_a_real_difference_is_found_under_drift_and_noise() -> None:
    found = [judge(10, seed, noise=0.02, drift=0.1, effect=0.1) for seed in range(100)]
    assert Verdict.WORSE not in found
    assert found.count(Verdict.BETTER) >= 90


@pytest.mark.slow
def test_the_noise_floor_of_twenty_per_cent_noise_swallows_small_differences() -> None:
    found = 0
    for seed in range(100):
        floor = noise_floor(run(6, seed, noise=0.2, drift=0.0)[0], seed=seed, resamples=RESAMPLES).value
        pairs, order = run(6, 1_000 + seed, noise=0.2, drift=0.0, effect=0.02)
        judged = compare_pairs(pairs, floor=floor, seed=seed, higher_is_better=True, order=order, resamples=RESAMPLES)
        found += judged.verdict in {Verdict.BETTER, Verdict.WORSE}
    assert found <= 5


@given(st.lists(st.floats(0.5, 2.0), min_size=6, max_size=30), st.integers(0, 2**32))
def test_intervals_hold_the_median_and_lie_within_the_values(ratios: list[float], seed: int) -> None:
    middle = float(np.median(ratios))
    slack = 1e-12
    exact = order_interval(ratios, CONFIDENCE)
    assert exact is not None
    for low, high in (exact, median_interval(ratios, seed=seed, resamples=200, confidence=CONFIDENCE)):
        assert min(ratios) - slack <= low <= middle + slack
        assert middle - slack <= high <= max(ratios) + slack


@given(st.lists(st.tuples(st.floats(1, 100), st.floats(1, 100)), min_size=1, max_size=12))
def test_changing_sides_turns_the_verdict_round(pairs: Pairs) -> None:
    def verdict(values: Pairs) -> Verdict:
        return compare_pairs(values, floor=0.01, seed=1, higher_is_better=True, resamples=200).verdict

    there, back = verdict(pairs), verdict([(b, a) for a, b in pairs])
    assert {there, back} not in ({Verdict.BETTER}, {Verdict.WORSE})
