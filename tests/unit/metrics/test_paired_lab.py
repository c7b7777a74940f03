import random
import statistics

import pytest

from arriero.metrics.paired_lab import (
    BOOTSTRAP_SEED,
    LabVerdict,
    PairedPercent,
    judge_build,
    lab_order,
    paired_percent,
)
from arriero.metrics.paired_order import OrderKind, judge_order
from tests.unit.metrics.test_drift import noisy


def percent(gain: float, *, noise: float = 0.001, drift: float = 0.0, count: int = 20) -> PairedPercent:
    """Pairs whose second side is better by `gain` percent, and by `drift` points more at the end."""
    base = noisy([100.0] * count, noise=noise, seed=3)
    other = noisy([100.0 + gain + drift * k / (count - 1) for k in range(count)], noise=noise, seed=4)
    return paired_percent(list(zip(base, other, strict=True)))


QUIET = percent(0.0)


def test_the_interval_is_that_of_the_published_recipe() -> None:
    pairs = list(zip(noisy([100.0] * 7, noise=0.03), noisy([101.0] * 7, noise=0.03, seed=2), strict=True))
    found = paired_percent(pairs)
    percents = [100 * (b - a) / a for a, b in pairs]
    rng = random.Random(BOOTSTRAP_SEED)
    medians = sorted(statistics.median(percents[rng.randrange(7)] for _ in range(7)) for _ in range(50_000))
    assert (found.low, found.high) == (medians[1250], medians[48750])
    assert found.median == statistics.median(percents)
    assert found.halves == (statistics.median(percents[:3]), statistics.median(percents[3:]))


def test_the_order_is_shuffled_pair_by_pair_and_repeats() -> None:
    order = lab_order(20)
    assert order == lab_order(20)
    assert order != lab_order(20, seed=1)
    assert all({order[at], order[at + 1]} == {"A", "B"} for at in range(0, 40, 2))
    assert judge_order(order).kind is OrderKind.INTERLEAVED


@pytest.mark.parametrize(
    ("prompt", "generation", "duration", "verdict", "reason"),
    [
        (percent(3), QUIET, percent(-2), LabVerdict.POSITIVE, ""),
        (percent(-3), QUIET, QUIET, LabVerdict.REJECT, "prompt rate falls"),
        (percent(3), percent(-2), QUIET, LabVerdict.REJECT, "generation rate falls"),
        (percent(3), QUIET, percent(2), LabVerdict.REJECT, "duration grows"),
        (percent(0), QUIET, QUIET, LabVerdict.INCONCLUSIVE, "prompt rate: median"),
        (percent(3, noise=0.05), QUIET, QUIET, LabVerdict.INCONCLUSIVE, "varies by more than 3%"),
        (percent(3, drift=4), QUIET, QUIET, LabVerdict.INCONCLUSIVE, "drifts during the run"),
    ],
)
def test_each_verdict(
    prompt: PairedPercent, generation: PairedPercent, duration: PairedPercent, verdict: LabVerdict, reason: str
) -> None:
    found = judge_build(prompt, generation, duration)
    assert found.verdict is verdict
    assert bool(found.reasons) == (verdict is not LabVerdict.POSITIVE)
    assert not reason or any(reason in each for each in found.reasons)


def test_a_loss_that_is_not_sure_is_a_doubt_and_no_rejection() -> None:
    losses = [(100.0, 100.0 + (3.0, -1.5, -6.0)[k % 3]) for k in range(20)]
    unsure, longer = paired_percent(losses), paired_percent([(b, a) for a, b in losses])
    assert unsure.median < -1 < 0 < unsure.high
    found = judge_build(percent(3), unsure, longer)
    assert found.verdict is LabVerdict.INCONCLUSIVE
    assert [each.partition(":")[0] for each in found.reasons] == ["generation rate", "duration"]


def test_a_gain_of_too_few_pairs_is_a_doubt() -> None:
    pairs = [(100.0, 101.0)] * 13 + [(100.0, 99.9)] * 7
    mixed = [pairs[(7 * k) % 20] for k in range(20)]
    found = judge_build(paired_percent(mixed), QUIET, QUIET)
    assert found.verdict is LabVerdict.INCONCLUSIVE
    assert "only 13 of 20 pairs are better" in found.reasons


def test_a_single_pair_has_no_drift() -> None:
    alone = paired_percent([(100.0, 110.0)])
    assert (alone.drifts, alone.halves) == (False, None)
    assert alone.low == alone.high == pytest.approx(10)
