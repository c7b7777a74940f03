"""arriero's rules for a paired comparison: one error rate for the whole of it, however often one looks.

Every deciding metric is judged by `paired.py`: better or worse only if 1 lies outside of both intervals of the median
ratio, and the median outside of the noise floor of an A/A run. What comes on top is here:

- The error rate is divided by the number of questions: metrics that decide, times looks at growing numbers of pairs
  (Bonferroni; the looks are planned before the run). So the chance that two equal sides are told apart anywhere is at
  most the stated rate, whatever the noise looks like and however the metrics hang together.
- REJECT if any deciding metric is worse. POSITIVE if one is better, none is worse, each has a verdict, and no median
  lies further on the wrong side than the guard. INCONCLUSIVE otherwise, with the reasons.

Deciding metrics should be few: three of them need longer intervals than one.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from arriero.metrics.paired import RESAMPLES, compare_pairs, noise_floor
from arriero.metrics.paired_verdict import NoiseFloor, PairedVerdict, Verdict
from arriero.metrics.published_verdict import Judged

ERROR_RATE: Final = 0.05
GUARD: Final = 0.01

Pairs = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSeries:
    """What was measured of one metric.

    Attributes:
        name: of the metric.
        higher_is_better: of it.
        pairs: (a, b) of each pair in the order of running.
        aa_pairs: the same of the A/A run; empty without one.
    """

    name: str
    higher_is_better: bool
    pairs: tuple[tuple[float, float], ...]
    aa_pairs: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AbRules:
    """What is stated before the run.

    Attributes:
        error_rate: of the whole comparison.
        num_looks: how often, at most, it is judged while pairs are added.
        margin: the smallest relative difference that matters; None if none was stated.
        guard: relative loss of a median from which on no metric lets another one's gain pass.
        seed: of bootstraps and permutations.
        resamples: of the bootstraps.
    """

    error_rate: float = ERROR_RATE
    num_looks: int = 1
    margin: float | None = None
    guard: float = GUARD
    seed: int = 0
    resamples: int = RESAMPLES

    def confidence(self, num_metrics: int) -> float:
        """Of each interval, so that all of them together keep the error rate."""
        return 1 - self.error_rate / (max(1, num_metrics) * self.num_looks)


class MetricJudged(NamedTuple):
    """One metric's answer."""

    verdict: PairedVerdict
    floor: NoiseFloor | None


class AbJudged(NamedTuple):
    """A whole comparison's answer, and what it rests on."""

    judged: Judged
    metrics: Mapping[str, MetricJudged]  # in the order in which they were given
    confidence: float  # of each interval


def judge_metrics(series: Sequence[MetricSeries], rules: AbRules, *, order: str | None) -> AbJudged:
    """The verdict under arriero's rules.

    Args:
        series: the deciding metrics, at least one.
        rules: stated before the run.
        order: sides in the order of running, two letters a pair; None if it is not known.

    Raises:
        ValueError: no metric, or an order of another length.
    """
    if not series:
        raise ValueError("no metric: name at least one that decides")
    confidence = rules.confidence(len(series))
    metrics = {each.name: _judge_one(each, rules, confidence, order) for each in series}
    return AbJudged(_overall(metrics, rules.guard), metrics, confidence)


def look_points(num_pairs: int, num_looks: int) -> tuple[int, ...]:
    """After how many pairs one looks: in equal steps, the last one at the end."""
    return tuple(sorted({num_pairs * look // num_looks for look in range(1, num_looks + 1)} - {0}))


def _judge_one(series: MetricSeries, rules: AbRules, confidence: float, order: str | None) -> MetricJudged:
    floor = _floor(series.aa_pairs, rules, confidence)
    verdict = compare_pairs(
        series.pairs,
        floor=None if floor is None else floor.value,
        seed=rules.seed,
        higher_is_better=series.higher_is_better,
        confidence=confidence,
        margin=rules.margin,
        order=order,
        resamples=rules.resamples,
    )
    return MetricJudged(verdict, floor)


def _floor(aa_pairs: Pairs, rules: AbRules, confidence: float) -> NoiseFloor | None:
    if not any(min(pair) > 0 and max(pair) < math.inf for pair in aa_pairs):
        return None
    return noise_floor(aa_pairs, seed=rules.seed, confidence=confidence, resamples=rules.resamples)


def _overall(metrics: Mapping[str, MetricJudged], guard: float) -> Judged:
    by_word: dict[Verdict, list[str]] = {}
    for name, each in metrics.items():
        by_word.setdefault(each.verdict.verdict, []).extend(f"{name}: {reason}" for reason in each.verdict.reasons)
    if Verdict.WORSE in by_word:
        return Judged(Verdict.WORSE, tuple(by_word[Verdict.WORSE]))
    if Verdict.NO_VERDICT in by_word:
        return Judged(Verdict.NO_VERDICT, tuple(by_word[Verdict.NO_VERDICT]))
    if Verdict.BETTER not in by_word:
        is_within = set(by_word) == {Verdict.NO_LARGER_DIFFERENCE}
        verdict = Verdict.NO_LARGER_DIFFERENCE if is_within else Verdict.NOT_RESOLVED
        return Judged(verdict, tuple(reason for reasons in by_word.values() for reason in reasons))
    losses = tuple(_losses(metrics, guard))
    if losses:
        return Judged(Verdict.NOT_RESOLVED, (*by_word[Verdict.BETTER], *losses))
    return Judged(Verdict.BETTER, tuple(by_word[Verdict.BETTER]))


def _losses(metrics: Mapping[str, MetricJudged], guard: float) -> list[str]:
    """Metrics whose median may hide a loss."""
    found: list[str] = []
    for name, each in metrics.items():
        middle = each.verdict.median_ratio
        if middle is None:
            continue
        gain = middle - 1 if each.verdict.higher_is_better else 1 / middle - 1
        if gain < -guard:
            words = f"its median is {-gain:.2%} on the wrong side, more than the guard of {guard:.2%}"
            found.append(f"{name}: {words}, so the gain elsewhere does not count")
    return found
