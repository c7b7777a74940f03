"""PairedPercent: one metric of a paired comparison in the published words, differences in percent of the first side.

    difference of a pair = 100 (b - a) / a       what decides is the median over pairs

The same pairs as ratios, with another interval and other rules, are judged in `paired.py`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from arriero.metrics.bootstrap import MedianBootstrap, median_bootstrap
from arriero.metrics.paired_figures import Interval, half_medians, side_figures
from arriero.metrics.paired_verdict import SideFigures

MATERIAL_R: Final = 0.5
MATERIAL_HALVES: Final = 1.0  # percentage points


@dataclass(frozen=True, slots=True)
class Signs:
    """How many pairs went which way."""

    better: int
    worse: int
    ties: int

    @property
    def total(self) -> int:
        """All pairs."""
        return self.better + self.worse + self.ties

    @property
    def share_better(self) -> float:
        """Of all pairs; 0 without any."""
        return self.better / max(1, self.total)


@dataclass(frozen=True, slots=True)
class LineFit:
    """The least-squares line through points.

    Attributes:
        slope: None below two points or where x does not change.
        r: Pearson's; None also where y does not change.
    """

    slope: float | None
    r: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PercentSummary:
    """What the published rules ask of one metric; from pairs, or from a page that printed no more than this.

    Attributes:
        higher_is_better: of the metric.
        num_pairs: it rests on.
        median: of the differences, %.
        low, high: 95 % interval of it, %.
        signs: of the pairs; None if they are not known.
        cv_a, cv_b: sd / mean of each side, %; None if it is not known.
        half_medians: of the first n // 2 pairs and of the others, %; None if they are not known.
        r: Pearson's between differences and numbers of pairs; None if it is not known or undefined.
    """

    higher_is_better: bool
    num_pairs: int
    median: float
    low: float
    high: float
    signs: Signs | None = None
    cv_a: float | None = None
    cv_b: float | None = None
    half_medians: tuple[float, float] | None = None
    r: float | None = None

    @property
    def halves_differ_by(self) -> float | None:
        """Percentage points; None if they are not known."""
        return None if self.half_medians is None else abs(self.half_medians[1] - self.half_medians[0])

    @property
    def has_material_drift(self) -> bool | None:
        """|r| >= 0.5, or half medians more than 1 point apart; None if what is known cannot tell."""
        found = (
            None if self.r is None else abs(self.r) >= MATERIAL_R,
            None if self.halves_differ_by is None else self.halves_differ_by > MATERIAL_HALVES,
        )
        return True if True in found else None if None in found else False


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedPercent:
    """Everything that was published of one metric.

    Attributes:
        summary: what the rules ask.
        pairs: (a, b) of each, in the order of running.
        executions: execution index of each a and b.
        bootstrap: both intervals of the median; the percentile one is in the summary.
        differences: of each pair in its order, %.
        differences_line: against the number of the pair, % a pair.
        a, b: figures of each side.
        line_a, line_b: each side against its execution index.
    """

    summary: PercentSummary
    pairs: tuple[tuple[float, float], ...]
    executions: tuple[tuple[int, int], ...]
    bootstrap: MedianBootstrap
    differences: tuple[float, ...]
    differences_line: LineFit
    a: SideFigures
    b: SideFigures
    line_a: LineFit
    line_b: LineFit


def paired_percent(
    pairs: Sequence[tuple[float, float]], *, higher_is_better: bool, executions: Sequence[tuple[int, int]] | None = None
) -> PairedPercent:
    """Figures of at least one pair of finite values above 0.

    Args:
        pairs: (a, b) of each, in the order of running.
        higher_is_better: throughputs yes, durations no.
        executions: execution index of each a and b; None takes a before b in every pair.

    Raises:
        ValueError: no pair, or a value that is not finite and above 0.
    """
    if not pairs or not all(math.isfinite(value) and value > 0 for pair in pairs for value in pair):
        raise ValueError(f"{len(pairs)} pairs: give at least one, of finite values above 0")
    a, b = [a for a, _ in pairs], [b for _, b in pairs]
    differences = [100 * (b - a) / a for a, b in pairs]
    at = executions or [(2 * number, 2 * number + 1) for number in range(len(pairs))]
    bootstrap = median_bootstrap(differences)
    line = fit_line(range(len(differences)), differences)
    sides = side_figures(a), side_figures(b)
    summary = PercentSummary(
        higher_is_better=higher_is_better,
        num_pairs=len(pairs),
        median=bootstrap.median,
        low=bootstrap.percentile.low,
        high=bootstrap.percentile.high,
        signs=count_signs(differences, higher_is_better=higher_is_better),
        cv_a=_percent(sides[0].cv),
        cv_b=_percent(sides[1].cv),
        half_medians=half_medians(differences),
        r=line.r,
    )
    return PairedPercent(
        summary=summary,
        pairs=tuple(pairs),
        executions=tuple(at),
        bootstrap=bootstrap,
        differences=tuple(differences),
        differences_line=line,
        a=sides[0],
        b=sides[1],
        line_a=fit_line([place for place, _ in at], a),
        line_b=fit_line([place for _, place in at], b),
    )


def count_signs(differences: Sequence[float], *, higher_is_better: bool) -> Signs:
    """Pairs in which B was better, worse and equal."""
    above = sum(difference > 0 for difference in differences)
    below = sum(difference < 0 for difference in differences)
    better, worse = (above, below) if higher_is_better else (below, above)
    return Signs(better, worse, len(differences) - above - below)


def fit_line(xs: Sequence[float], ys: Sequence[float]) -> LineFit:
    """Least squares and Pearson's r of as many xs as ys."""
    count = len(xs)
    if count < 2:
        return LineFit(None, None)
    x_mean, y_mean = math.fsum(xs) / count, math.fsum(ys) / count
    across = math.fsum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys, strict=True))
    x_squares = math.fsum((x - x_mean) ** 2 for x in xs)
    y_squares = math.fsum((y - y_mean) ** 2 for y in ys)
    if x_squares == 0:
        return LineFit(None, None)
    r = across / math.sqrt(x_squares * y_squares) if y_squares > 0 else None
    return LineFit(across / x_squares, r)


def interval_words(interval: Interval) -> str:
    """An interval of percents for a sentence."""
    return f"{interval.low:+.3f} to {interval.high:+.3f} %"


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share
