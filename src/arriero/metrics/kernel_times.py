"""Figures of a micro-benchmark: times of many calls, repeated in turns with those of another kernel.

The ratio is that of the two medians. Its interval is a percentile bootstrap over repetitions: the two times of one
repetition lie side by side in time and are drawn together, so that a stretch in which the machine was slow does not
widen it.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from arriero.metrics.paired_figures import side_figures
from arriero.metrics.quantiles import interpolated

RESAMPLES: Final = 10_000
CONFIDENCE: Final = 0.95


class TimeFigures(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of one call, over repetitions.

    Attributes:
        median_ns: of the repetitions' means.
        least_ns: same.
        cv: sample SD / mean, a ratio; null for one repetition.
    """

    median_ns: float
    least_ns: float
    cv: float | None


class Ratio(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many times as long the first kernel takes as the second, with its interval."""

    value: float
    low: float
    high: float


def time_figures(nanoseconds: Sequence[int], calls: int) -> TimeFigures:
    """Figures of one call from the times of repetitions of `calls` calls; at least one repetition."""
    per_call = [each / calls for each in nanoseconds]
    figures = side_figures(per_call)
    cv = figures.cv if len(per_call) > 1 else None
    return TimeFigures(median_ns=figures.median, least_ns=min(per_call), cv=cv)


def ratio_of_medians(
    first: Sequence[int],
    second: Sequence[int],
    *,
    seed: int,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
) -> Ratio:
    """Median of the first / median of the second, and its interval.

    Args:
        first: times by repetition.
        second: times of the same repetitions; as many.
        seed: of the resamples.
        resamples: drawn.
        confidence: of the interval.

    Raises:
        ValueError: different numbers of times, or none.
    """
    if len(first) != len(second) or not first:
        raise ValueError(f"{len(first)} and {len(second)} times: give as many of both, at least one")
    one, other = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    draws = np.random.default_rng(seed).integers(len(first), size=(resamples, len(first)))
    ratios = (np.median(one[draws], axis=1) / np.median(other[draws], axis=1)).tolist()
    outside = 100 * (1 - confidence) / 2
    value = float(np.median(one) / np.median(other))
    return Ratio(value=value, low=interpolated(ratios, outside), high=interpolated(ratios, 100 - outside))
