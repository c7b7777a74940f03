"""How often rules for paired comparisons err, by simulation with a seed: the rates that reports and documents state.

A run has a prompt rate and a generation rate, both normal around a level with some CV and correlated, and a duration
that follows from them and from the time to load. B's rates are A's times (1 + effect). The published rules judge the
summaries of such runs; their bootstrap is taken at its limit of infinitely many resamples, which makes ten thousand
comparisons a matter of a second. arriero's rules judge the same pairs by the very code that judges measurements.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from arriero.metrics.ab_verdict import AbRules, MetricSeries, judge_metrics, look_points
from arriero.metrics.bootstrap import limit_intervals, medians_of
from arriero.metrics.paired_percent import PercentSummary, Signs
from arriero.metrics.paired_verdict import Verdict
from arriero.metrics.published_verdict import PublishedSummary, judge_published

NAMES: Final = ("prompt_tokens_per_s", "generated_tokens_per_s", "duration_s")
_PROMPT_SHARE: Final = 0.7  # of the duration; the published workload: 1024 prompt tokens, 64 generated
_ANSWER_SHARE: Final = 0.2
_LOAD_SHARE: Final = 0.1

_Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What the simulated machine is like.

    Attributes:
        num_pairs: of a comparison.
        cv: sd / mean of a rate from run to run.
        correlation: of the prompt rate with the generation rate of the same run.
        effect: relative; 0 is an A/A.
        num_aa_pairs: before each comparison.
    """

    num_pairs: int = 20
    cv: float = 0.03
    correlation: float = 0.5
    effect: float = 0.0
    num_aa_pairs: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """How often each answer was given.

    Attributes:
        positive, reject, inconclusive: shares of all comparisons.
        num_comparisons: simulated.
    """

    positive: float
    reject: float
    inconclusive: float
    num_comparisons: int


def published_rates(setting: Setting, *, num_comparisons: int, seed: int) -> Rates:
    """The published rules."""
    runs = _runs(setting, setting.num_pairs, num_comparisons, np.random.default_rng(seed))
    summaries = zip(
        *(_summaries(a, b, higher) for (a, b), higher in zip(runs, (True, True, False), strict=True)), strict=True
    )
    verdicts = [
        judge_published(PublishedSummary(prompt=prompt, generation=generation, duration=duration)).verdict
        for prompt, generation, duration in summaries
    ]
    return _rates(verdicts)


def default_rates(
    setting: Setting, *, num_comparisons: int, seed: int, rules: AbRules | None = None, names: Sequence[str] = NAMES
) -> Rates:
    """Arriero's rules, with interim looks if they have any; about 0.1 s a comparison."""
    own = rules or AbRules()
    rng = np.random.default_rng(seed)
    aa = _runs(Setting(cv=setting.cv, correlation=setting.correlation), setting.num_aa_pairs, num_comparisons, rng)
    ab = _runs(setting, setting.num_pairs, num_comparisons, rng)
    series = [
        (name, higher, _pairs(one), _pairs(other))
        for name, higher, one, other in zip(NAMES, (True, True, False), ab, aa, strict=True)
        if name in names
    ]
    return _rates([_look_by_look(series, number, own, setting.num_pairs) for number in range(num_comparisons)])


def _look_by_look(
    series: Sequence[tuple[str, bool, _Floats, _Floats]], number: int, rules: AbRules, num_pairs: int
) -> Verdict:
    verdict = Verdict.NO_VERDICT
    for count in look_points(num_pairs, rules.num_looks):
        found = judge_metrics(
            [
                MetricSeries(
                    name=name,
                    higher_is_better=higher,
                    pairs=tuple(_as_pairs(ab[number, :count])),
                    aa_pairs=tuple(_as_pairs(aa[number])),
                )
                for name, higher, ab, aa in series
            ],
            rules,
            order=("ABBA" * count)[: 2 * count],
        )
        verdict = found.judged.verdict
        if verdict in {Verdict.BETTER, Verdict.WORSE}:
            break
    return verdict


def _runs(
    setting: Setting, num_pairs: int, num_comparisons: int, rng: np.random.Generator
) -> tuple[tuple[_Floats, _Floats], ...]:
    """Prompt rate, generation rate and duration of both sides, float64[comparisons, pairs] each."""
    shape = (2, 2, num_comparisons, num_pairs)
    own = rng.standard_normal(shape)
    own[1] = setting.correlation * own[0] + np.sqrt(1 - setting.correlation**2) * own[1]
    levels = np.array([1.0, 1.0 + setting.effect])[:, np.newaxis, np.newaxis]
    prompt, answer = (levels * np.maximum(0.01, 1 + setting.cv * each) for each in own)
    load = 1 + setting.cv * rng.standard_normal(shape[1:])
    duration = _PROMPT_SHARE / prompt + _ANSWER_SHARE / answer + _LOAD_SHARE * np.maximum(0.01, load)
    return (prompt[0], prompt[1]), (answer[0], answer[1]), (duration[0], duration[1])


def _summaries(a: _Floats, b: _Floats, higher_is_better: bool) -> Iterator[PercentSummary]:  # noqa: FBT001 - zipped
    count = a.shape[1]
    differences: _Floats = 100 * (b - a) / a
    lows, highs = limit_intervals(differences)
    better: _Floats = np.count_nonzero((differences > 0) == higher_is_better, axis=1).astype(np.float64)
    halves = medians_of(differences[:, : count // 2]), medians_of(differences[:, count // 2 :])
    columns = (medians_of(differences), lows, highs, better, _cvs(a), _cvs(b), *halves, _correlations(differences))
    table: list[list[float]] = np.stack(columns, axis=1).tolist()
    for middle, low, high, num_better, cv_a, cv_b, first, second, r in table:
        yield PercentSummary(
            higher_is_better=higher_is_better,
            num_pairs=count,
            median=middle,
            low=low,
            high=high,
            signs=Signs(int(num_better), count - int(num_better), 0),
            cv_a=cv_a,
            cv_b=cv_b,
            half_medians=(first, second),
            r=r,
        )


def _cvs(values: _Floats) -> _Floats:
    """float64[rows], %."""
    found: _Floats = 100 * values.std(axis=1, ddof=1) / values.mean(axis=1)
    return found


def _correlations(values: _Floats) -> _Floats:
    """float64[rows]: Pearson's r of each row with the index."""
    count = values.shape[1]
    index: _Floats = np.arange(count, dtype=np.float64) - (count - 1) / 2
    away: _Floats = values - values.mean(axis=1, keepdims=True)
    found: _Floats = (away @ index) / np.sqrt((away**2).sum(axis=1) * (index**2).sum())
    return found


def _pairs(sides: tuple[_Floats, _Floats]) -> _Floats:
    """float64[comparisons, pairs, 2]."""
    return np.stack(sides, axis=2)


def _as_pairs(values: _Floats) -> Iterator[tuple[float, float]]:
    listed: list[list[float]] = values.tolist()
    return ((a, b) for a, b in listed)


def _rates(verdicts: Sequence[Verdict]) -> Rates:
    count = Counter(verdicts)
    total = len(verdicts)
    positive, reject = count[Verdict.BETTER] / total, count[Verdict.WORSE] / total
    return Rates(positive=positive, reject=reject, inconclusive=1 - positive - reject, num_comparisons=total)
