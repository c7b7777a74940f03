"""Figures of a series of pairs: intervals of the median ratio, sign test, moments, slope against time.

Two intervals of the median, since each has a weakness of its own. The percentile bootstrap is the finer one and is a
little too narrow for few pairs. The one between order statistics is exact for any distribution, as long as a ratio
falls above or below the true median by chance: it is the sign test read backwards, and needs six pairs at 95 %.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from arriero.metrics.paired_verdict import PairedVerdict, SideFigures
from arriero.metrics.quantiles import interpolated


class Interval(NamedTuple):
    """From and to."""

    low: float
    high: float

    def joined(self, other: "Interval") -> "Interval":
        """The least interval that holds both."""
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def lies_within(self, outer: "Interval") -> bool:
        """Whether no part of it is outside."""
        return outer.low <= self.low and self.high <= outer.high


def verdict_interval(verdict: PairedVerdict) -> Interval | None:
    """The interval that a verdict rests on: the least that holds both of its intervals; None without any."""
    if verdict.low is None or verdict.high is None:
        return None
    bootstrap = Interval(verdict.low, verdict.high)
    if verdict.exact_low is None or verdict.exact_high is None:
        return bootstrap
    return bootstrap.joined(Interval(verdict.exact_low, verdict.exact_high))


def band(width: float) -> Interval:
    """The ratios that differ from 1 by no more than a relative width, either way."""
    return Interval(1 / (1 + width), 1 + width)


def median_interval(values: Sequence[float], *, seed: int, resamples: int, confidence: float) -> Interval:
    """Percentile bootstrap of the median; its ends are linear."""
    draws = np.random.default_rng(seed).integers(len(values), size=(resamples, len(values)))
    medians = np.median(np.asarray(values, dtype=np.float64)[draws], axis=1).tolist()
    outside = 100 * (1 - confidence) / 2
    return Interval(interpolated(medians, outside), interpolated(medians, 100 - outside))


def order_interval(values: Sequence[float], confidence: float) -> Interval | None:
    """The interval of the median between order statistics; None if there are too few values."""
    ordered = sorted(values)
    depth = 0  # values that may be cut off at either end
    while 2 * _tail(len(ordered), depth) <= 1 - confidence:
        depth += 1
    return Interval(ordered[depth - 1], ordered[-depth]) if depth else None


def fewest_pairs(confidence: float) -> int:
    """Pairs below which no order can be sure of anything."""
    return math.ceil(math.log2(2 / (1 - confidence)) - 1e-9)


def sign_p_value(above: int, below: int) -> float:
    """Two-sided: how often fair coins fall as unevenly."""
    return min(1.0, 2 * _tail(above + below, min(above, below)))


def side_figures(values: Sequence[float]) -> SideFigures:
    """Moments and slope against the index; at least one value."""
    count = len(values)
    mean = math.fsum(values) / count
    squares = math.fsum((value - mean) ** 2 for value in values)
    sd = math.sqrt(squares / (count - 1)) if count > 1 else 0.0
    middle = (count - 1) / 2
    across = math.fsum((index - middle) * (value - mean) for index, value in enumerate(values))
    index_squares = count * (count * count - 1) / 12
    return SideFigures(
        mean=mean,
        median=interpolated(values, 50),
        sd=sd,
        cv=sd / mean if mean else None,
        slope=across / index_squares if count > 1 else None,
        r=across / math.sqrt(index_squares * squares) if count > 1 and squares else None,
    )


def half_medians(ratios: Sequence[float]) -> tuple[float, float] | None:
    """Median of the first n // 2 and of the others; None below two."""
    half = len(ratios) // 2
    return (interpolated(ratios[:half], 50), interpolated(ratios[half:], 50)) if half else None


def _tail(count: int, most: int) -> float:
    """P(X <= most) of a fair coin thrown `count` times."""
    return sum(math.comb(count, k) for k in range(most + 1)) / (1 << count)
