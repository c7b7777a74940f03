"""Spread: what a handful of repetitions of one measurement say."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Figures of one group of repetitions, in the unit of the values.

    Attributes:
        n: how many.
        mean: the exact sum, rounded once, over n.
        median: the middle value, or the mean of the two in the middle.
        minimum: least.
        maximum: largest.
        sd: of a sample, n - 1; 0 for one value.
        cv: sd / mean, a ratio; None where the mean is 0.
    """

    n: int
    mean: float
    median: float
    minimum: float
    maximum: float
    sd: float
    cv: float | None


def spread(values: Sequence[float]) -> Spread:
    """The figures of at least one finite value.

    Raises:
        ValueError: there is none, or one is not finite.
    """
    if not values:
        raise ValueError("no value, no spread")
    if not all(map(math.isfinite, values)):
        raise ValueError("a value is not finite; leave it out and count it")
    count = len(values)
    mean = math.fsum(values) / count
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1)) if count > 1 else 0.0
    ordered = sorted(values)
    low, high = ordered[(count - 1) // 2], ordered[count // 2]
    return Spread(
        n=count,
        mean=mean,
        median=low if low == high else (low + high) / 2,
        minimum=ordered[0],
        maximum=ordered[-1],
        sd=sd,
        cv=sd / mean if mean else None,
    )


def ratio(value: float | None, base: float | None) -> float | None:
    """Value / base; None where either is missing or the base is 0."""
    return None if value is None or not base else value / base
