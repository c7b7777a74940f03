"""What the rules promise, by simulation with fixed seeds."""

import numpy as np
import pytest

from arriero.metrics.ab_rates import Setting, default_rates, published_rates
from arriero.metrics.ab_verdict import AbRules
from arriero.metrics.bootstrap import limit_intervals
from arriero.metrics.paired_figures import order_interval

RATES = ("prompt_tokens_per_s", "generated_tokens_per_s")
"""The metrics that decide between two workers."""


def ratios(effect: float, count: int, *, num_pairs: int = 20, heavy: bool = False) -> np.ndarray:
    rng = np.random.default_rng(5)
    noise = rng.standard_t(3, size=(2, count, num_pairs)) if heavy else rng.standard_normal((2, count, num_pairs))
    sides = np.exp(0.03 * noise)
    found: np.ndarray = (1 + effect) * sides[1] / sides[0]
    return found


@pytest.mark.parametrize("heavy", [False, True])
@pytest.mark.parametrize("effect", [-0.05, 0.0, 0.2])
@pytest.mark.parametrize("confidence", [0.95, 0.975])
def test_the_interval_covers_a_known_effect_at_the_stated_rate(effect: float, confidence: float, heavy: bool) -> None:  # noqa: FBT001
    sample = ratios(effect, 4_000, heavy=heavy)
    ordered = np.sort(sample, axis=1)
    depth = order_interval(list(range(20)), confidence)
    assert depth is not None
    exact_low, exact_high = ordered[:, int(depth.low)], ordered[:, int(depth.high)]
    low, high = limit_intervals(sample, confidence)
    covers = (np.minimum(exact_low, low) <= 1 + effect) & (1 + effect <= np.maximum(exact_high, high))
    assert np.mean(covers) >= confidence - 0.005
    alone = np.mean((low <= 1 + effect) & (1 + effect <= high))  # the percentile bootstrap is a little too narrow
    assert confidence - 0.03 <= alone <= confidence + 0.02


def test_an_a_a_is_inconclusive_in_at_least_95_of_100_under_the_default_rules() -> None:
    rules = AbRules(resamples=1_000)
    found = default_rates(Setting(cv=0.03), num_comparisons=25, seed=1, rules=rules, names=RATES)
    assert found.inconclusive >= 0.95
    assert found.num_comparisons == 25


def test_an_a_a_is_inconclusive_even_by_the_interval_alone() -> None:
    # what the rules need at the very least: an interval between order statistics that leaves 1 out, for two metrics
    sample = np.sort(ratios(0.0, 20_000), axis=1)
    depth = order_interval(list(range(20)), AbRules().confidence(2))
    assert depth is not None
    outside = np.mean((sample[:, int(depth.low)] > 1) | (sample[:, int(depth.high)] < 1))
    assert 2 * outside <= 0.05


def test_interim_looks_keep_the_error_rate() -> None:
    rules = AbRules(num_looks=2, resamples=1_000)
    found = default_rates(Setting(cv=0.03), num_comparisons=10, seed=2, rules=rules, names=RATES[:1])
    assert found.inconclusive >= 0.95


def test_a_large_effect_is_found_and_has_its_sign() -> None:
    rules = AbRules(resamples=1_000)
    gain = default_rates(Setting(cv=0.02, effect=0.1), num_comparisons=6, seed=3, rules=rules, names=RATES)
    loss = default_rates(Setting(cv=0.02, effect=-0.1), num_comparisons=6, seed=3, rules=rules, names=RATES)
    assert gain.positive >= 0.8
    assert loss.reject >= 0.8
    assert gain.reject == loss.positive == 0


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_the_published_rules_reject_an_a_a_far_more_often_than_one_interval_would(correlation: float) -> None:
    found = published_rates(Setting(cv=0.09, correlation=correlation), num_comparisons=4_000, seed=4)
    assert 0.04 <= found.reject <= 0.12
    assert found.positive <= 0.01  # its noise forbids it


def test_the_published_rules_on_a_quiet_machine_reject_and_accept_by_the_prompt_alone() -> None:
    found = published_rates(Setting(cv=0.005), num_comparisons=4_000, seed=4)
    assert 0.015 <= found.reject <= 0.05
    assert found.positive <= 0.05
