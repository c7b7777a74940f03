"""Figures over windows, and whether their intervals cover what they should."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from arriero.metrics.quantiles import nearest_rank
from arriero.metrics.window_bootstrap import draw_windows, exponential_bounds, mean_bounds, rank_bounds

SHARES = (0.5, 0.9, 0.99)


@given(st.integers(1, 6), st.integers(1, 9), st.integers(0, 99))
def test_values_are_those_of_the_whole_text(num_windows: int, length: int, seed: int) -> None:
    values = np.random.default_rng(seed).exponential(1, (num_windows, length))
    draws = draw_windows(num_windows, seed=1, resamples=20)
    flat = sorted(values.reshape(-1).tolist())
    for share, found in zip(SHARES, rank_bounds(values, SHARES, draws), strict=True):
        assert found.value == nearest_rank(flat, share)
        assert flat[0] <= found.low <= found.high <= flat[-1]
    mean = mean_bounds(values, draws)
    assert math.isclose(mean.value, math.fsum(flat) / len(flat), rel_tol=1e-12)
    ratio = exponential_bounds(values, draws)
    assert math.isclose(ratio.value, math.exp(mean.value), rel_tol=1e-12)
    assert (ratio.low, ratio.high) == (math.exp(mean.low), math.exp(mean.high))


def test_windows_that_are_alike_leave_no_doubt() -> None:
    values = np.tile(np.arange(8.0), (6, 1))
    draws = draw_windows(6, seed=3)
    for found in (mean_bounds(values, draws), *rank_bounds(values, SHARES, draws)):
        assert found.low == found.value == found.high


def test_the_same_seed_gives_the_same_interval() -> None:
    values = np.random.default_rng(5).normal(0, 1, (9, 4))
    first, second = (mean_bounds(values, draw_windows(9, seed=7)) for _ in range(2))
    assert first == second
    assert mean_bounds(values, draw_windows(9, seed=8)) != first


def test_intervals_cover_the_mean_of_dependent_tokens() -> None:
    """Tokens of a window share its level: intervals over tokens would cover a third of the time, these nearly 95 %."""
    rng = np.random.default_rng(11)
    draws = draw_windows(20, seed=42, resamples=400)
    covered = narrow = 0
    for _ in range(300):
        values = rng.normal(0, 1, (20, 1)) + rng.normal(0, 1, (20, 50))
        found = mean_bounds(values, draws)
        covered += found.low <= 0 <= found.high
        narrow += abs(values.mean()) <= 1.96 * values.std(ddof=1) / math.sqrt(values.size)
    assert 0.88 <= covered / 300 <= 0.98
    assert narrow / 300 < 0.6


def test_paired_differences_are_surer_than_two_intervals() -> None:
    rng = np.random.default_rng(12)
    hard = rng.normal(3, 1, (20, 1))
    reference, candidate = (hard + rng.normal(0, 0.02, (20, 50)) + shift for shift in (0.0, 0.05))
    draws = draw_windows(20, seed=42)
    ratio = exponential_bounds(candidate - reference, draws)
    alone = exponential_bounds(candidate, draws)
    assert ratio.low > 1
    assert (ratio.high - ratio.low) / ratio.value < 0.05 * (alone.high - alone.low) / alone.value
