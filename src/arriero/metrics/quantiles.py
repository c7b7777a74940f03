"""Exact quantiles of samples, and of samples with weights.

Nearest rank everywhere: always a value that occurred. Linear interpolation is kept for the one published simulator
that uses it and for the ends of intervals.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

N = TypeVar("N", int, float)

PERCENTS: Final = (50, 90, 95, 99)


class Percentiles(NamedTuple):
    """The four percentiles of one metric; all None without a sample."""

    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None


def nearest_rank(ordered: Sequence[N], share: float) -> N:
    """Number `ceil(share * n)` of n > 0 ascending samples, counted from 1 and kept within them.

    The product is taken in floating point, as published: 0.95 * 20 is 19, but 0.07 * 100 is a little more than 7.
    """
    count = len(ordered)
    return ordered[max(1, min(count, math.ceil(share * count))) - 1]


def percentiles(samples: Sequence[float]) -> Percentiles:
    """By nearest rank, of samples in any order."""
    if not samples:
        return Percentiles(None, None, None, None)
    ordered = sorted(samples)
    return Percentiles(*(nearest_rank(ordered, percent / 100) for percent in PERCENTS))


def weighted_percentiles(weights: Mapping[N, float]) -> Percentiles:
    """By nearest rank, of values that each stand for so much weight; counts of equal samples are such weights.

    Cost: O(distinct values), however many samples they stand for.
    """
    total = sum(weights.values())
    if total <= 0:
        return Percentiles(None, None, None, None)
    ordered = sorted(value for value, weight in weights.items() if weight > 0)
    found: list[float] = []
    passed, index = weights[ordered[0]], 0
    for percent in PERCENTS:
        wanted = percent / 100 * total
        while passed < wanted and index < len(ordered) - 1:
            index += 1
            passed += weights[ordered[index]]
        found.append(ordered[index])
    return Percentiles(*found)


def interpolated(samples: Sequence[float], percent: float) -> float:
    """Linear between the neighbours of position (n - 1) * percent / 100; 0.0 without a sample, as published."""
    if not samples:
        return 0.0
    ordered = sorted(samples)
    position = (len(ordered) - 1) * (percent / 100)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    fraction = position - low
    return ordered[low] * (1 - fraction) + ordered[high] * fraction
