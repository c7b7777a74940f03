import numpy as np
import pytest

from arriero.metrics.ab_verdict import AbRules, MetricSeries, judge_metrics, look_points
from arriero.metrics.paired_verdict import Verdict

ORDER = "ABBA" * 10


def series(
    effect: float,
    *,
    name: str = "rate",
    seed: int = 1,
    noise: float = 0.01,
    higher_is_better: bool = True,
    aa: bool = True,
) -> MetricSeries:
    rng = np.random.default_rng(seed)

    def pairs(change: float) -> tuple[tuple[float, float], ...]:
        a, b = rng.normal(100, 100 * noise, 20), rng.normal(100 * (1 + change), 100 * noise, 20)
        return tuple(zip(a.tolist(), b.tolist(), strict=True))

    ab = pairs(effect)
    return MetricSeries(name=name, higher_is_better=higher_is_better, pairs=ab, aa_pairs=pairs(0.0) if aa else ())


def test_the_error_rate_is_shared_by_metrics_and_looks() -> None:
    rules = AbRules(error_rate=0.05, num_looks=2)
    assert rules.confidence(3) == pytest.approx(1 - 0.05 / 6)
    found = judge_metrics([series(0.0), series(0.0, name="other", seed=2)], AbRules(), order=ORDER)
    assert found.confidence == pytest.approx(0.975)
    assert {each.verdict.confidence for each in found.metrics.values()} == {found.confidence}


def test_a_gain_without_a_loss_is_positive() -> None:
    found = judge_metrics([series(0.1), series(0.0, name="other", seed=2)], AbRules(), order=ORDER)
    assert (found.judged.word, found.judged.verdict) == ("POSITIVE", Verdict.BETTER)
    assert found.judged.reasons[0].startswith("rate: median ratio 1.")


def test_a_loss_anywhere_rejects_in_spite_of_a_gain() -> None:
    found = judge_metrics(
        [series(0.1), series(0.1, name="time", seed=2, higher_is_better=False)], AbRules(), order=ORDER
    )
    assert found.judged.word == "REJECT"
    assert all(reason.startswith("time: ") for reason in found.judged.reasons)


def test_a_gain_does_not_count_beside_a_loss_that_is_not_sure() -> None:
    found = judge_metrics([series(0.1), series(-0.04, name="other", seed=6, noise=0.08)], AbRules(), order=ORDER)
    assert found.judged.word == "INCONCLUSIVE"
    assert "more than the guard of 1.00%, so the gain elsewhere does not count" in found.judged.reasons[-1]


def test_a_drifting_metric_allows_no_verdict() -> None:
    steady, moving = series(0.1), series(0.1, name="other", seed=2)
    pairs = tuple((a, b * (1 - 0.01 * number)) for number, (a, b) in enumerate(moving.pairs))
    drifting = MetricSeries(name="other", higher_is_better=True, pairs=pairs, aa_pairs=moving.aa_pairs)
    found = judge_metrics([steady, drifting], AbRules(), order=ORDER)
    assert (found.judged.word, found.judged.verdict) == ("INCONCLUSIVE", Verdict.NO_VERDICT)
    assert found.judged.reasons[0].startswith("other: b / a: ")


def test_an_effect_inside_the_floor_is_inconclusive() -> None:
    one = series(0.02, noise=0.003)
    noisy = series(0.0, seed=3, noise=0.1).aa_pairs
    found = judge_metrics(
        [MetricSeries(name="rate", higher_is_better=True, pairs=one.pairs, aa_pairs=noisy)], AbRules(), order=ORDER
    )
    assert found.judged.word == "INCONCLUSIVE"
    assert "within the noise floor" in found.judged.reasons[0]


def test_nothing_larger_than_the_margin_is_said_as_such() -> None:
    found = judge_metrics([series(0.0, noise=0.002)], AbRules(margin=0.02), order=ORDER)
    assert (found.judged.word, found.judged.verdict) == ("INCONCLUSIVE", Verdict.NO_LARGER_DIFFERENCE)


def test_without_an_a_a_run_the_floor_is_unknown_and_flagged() -> None:
    found = judge_metrics([series(0.1, aa=False)], AbRules(), order=ORDER)
    assert found.metrics["rate"].floor is None
    assert found.metrics["rate"].verdict.flags == ("no A/A run: the noise floor is not known",)


def test_looks_come_in_equal_steps_and_end_at_the_end() -> None:
    assert look_points(20, 1) == (20,)
    assert look_points(20, 3) == (6, 13, 20)
    assert look_points(2, 5) == (1, 2)


def test_no_metric_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one that decides"):
        judge_metrics([], AbRules(), order=None)
