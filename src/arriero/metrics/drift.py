"""Signs that samples should not be averaged: their level changes with time, or they jump between two levels.

Drift is a permutation test: the most telling split of the samples into earlier and later ones, by ranks, against the
same in random orders of the very same samples. So it needs no assumption about their distribution, and it cannot find
anything in fewer than six samples, of which too few orders exist. Two modes are found by the widest gap between sorted
samples, measured in the scatter on its two sides, against the same in normal samples of that number.

Both compare with random draws from a seed, so the same samples give the same answer. A change smaller than
`LEAST_CHANGE` is not reported however sure it is.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

LEAST_CHANGE: Final = 0.01
"""Relative change of level below which a drift does not matter."""

LEAST_GAP: Final = 0.02
"""Relative gap below which two modes do not matter, so that a coarse clock does not make modes."""

FEWEST: Final = 6
"""Samples below which nothing can be found."""

WARM_UP_OVER_SLOPE: Final = 0.6
"""A warm-up has to leave so much less unexplained than a slope through all samples, or it is called a slope."""

_LEAST_GROUP: Final = 0.1  # of the samples, and two: a few outliers are no mode
_ORDERS: Final = 2_000
_NORMALS: Final = 4_000

_Floats: TypeAlias = NDArray[np.float64]
_Indices: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Whether samples in the order of time stay at one level.

    Attributes:
        found: they do not.
        is_warm_up: an early part differs and then a level stays, by a step or a ramp; else it is a slope throughout.
        num_early: samples before the level that stays; without them the rest is steady, if `rest_is_steady`.
        rest_is_steady: see there.
        change: level that stays / beginning - 1; of a slope, its end / its beginning - 1.
        p_value: how often a random order of the same samples changes as much.
        words: all that in a sentence, with what to do; empty if nothing is found.
    """

    found: bool
    is_warm_up: bool = False
    num_early: int = 0
    rest_is_steady: bool = True
    change: float = 0.0
    p_value: float = 1.0
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoModes:
    """Whether samples fall into two groups with a gap between them.

    Attributes:
        found: they do.
        low: median of the lower group.
        high: median of the upper group.
        num_low: samples in the lower group.
        num_high: samples in the upper group.
        num_switches: changes between the groups in the order of time; 1 is a step, more is a system that jumps.
        words: all that in a sentence; empty if nothing is found.
    """

    found: bool
    low: float | None = None
    high: float | None = None
    num_low: int = 0
    num_high: int = 0
    num_switches: int = 0
    words: str = ""


def drift(samples: Sequence[float], *, seed: int = 0, error_rate: float = 0.01) -> Drift:
    """Whether the level of samples in the order of time changes.

    Args:
        samples: of one side, in the order of running.
        seed: of the random orders that they are compared with.
        error_rate: share of steady series that are called drifting.
    """
    values = np.asarray(samples, dtype=np.float64)
    if len(values) < FEWEST:
        return Drift(found=False)
    split = _best_split(values, seed)
    if split.p_value > error_rate:
        return Drift(found=False, p_value=split.p_value)
    step, slope = _step(values, split.num_early), _slope(values)
    warm_up = min((step, *_ramps(values)), key=lambda fit: fit.misfit)
    is_warm_up = warm_up.misfit <= WARM_UP_OVER_SLOPE * slope.misfit
    change = warm_up.change if is_warm_up else slope.change
    if abs(change) < LEAST_CHANGE:
        return Drift(found=False, change=change, p_value=split.p_value)
    if not is_warm_up:
        words = _slope_words(values, change)
        return Drift(found=True, rest_is_steady=False, change=change, p_value=split.p_value, words=words)
    num_early, steady = _settle(values, warm_up.num_early, seed, error_rate)
    return Drift(
        found=True,
        is_warm_up=True,
        num_early=num_early,
        rest_is_steady=steady,
        change=change,
        p_value=split.p_value,
        words=_warm_up_words(values, num_early, steady=steady),
    )


def two_modes(samples: Sequence[float], *, seed: int = 0, error_rate: float = 0.001) -> TwoModes:
    """Whether samples fall into two groups; needs two of each, and a tenth of all.

    Args:
        samples: of one side, in the order of running.
        seed: of the normal samples that they are compared with.
        error_rate: share of normal samples that are called two-moded.
    """
    values = np.asarray(samples, dtype=np.float64)
    if len(values) < FEWEST:
        return TwoModes(found=False)
    ordered = np.sort(values)
    gaps = _gap_scores(ordered[np.newaxis, :])[0]
    num_low = int(np.argmax(gaps)) + _least_group(len(values))
    normals = np.sort(np.random.default_rng(seed).standard_normal((_NORMALS, len(values))), axis=1)
    chance = (1 + int(np.count_nonzero(_gap_scores(normals).max(axis=1) >= gaps.max()))) / (_NORMALS + 1)
    low, high = float(np.median(ordered[:num_low])), float(np.median(ordered[num_low:]))
    gap = float(ordered[num_low] - ordered[num_low - 1])
    if chance > error_rate or gap < LEAST_GAP * abs(float(np.median(ordered))):
        return TwoModes(found=False)
    is_high = values > ordered[num_low - 1]
    switches = int(np.count_nonzero(is_high[1:] != is_high[:-1]))
    num_high = len(values) - num_low
    return TwoModes(
        found=True,
        low=low,
        high=high,
        num_low=num_low,
        num_high=num_high,
        num_switches=switches,
        words=(
            f"two levels: {num_low} samples near {low:.4g} and {num_high} near {high:.4g}, with {switches} "
            f"{'change' if switches == 1 else 'changes'} between them; an average of both describes neither"
        ),
    )


class _Split(NamedTuple):
    num_early: int
    p_value: float


class _Fit(NamedTuple):
    misfit: float  # sum of squares
    change: float  # relative
    num_early: int = 0  # samples before the level that stays


def _best_split(values: _Floats, seed: int) -> _Split:
    """The split into earlier and later samples whose ranks differ most, and how often chance gives as much."""
    ranks = _ranks(values)
    scores = _split_scores(ranks[np.newaxis, :])[0]
    orders = np.random.default_rng(seed).permuted(np.tile(ranks, (_ORDERS, 1)), axis=1)
    at_least = np.count_nonzero(_split_scores(orders).max(axis=1) >= scores.max() - 1e-9)
    return _Split(int(np.argmax(scores)) + 1, (1 + int(at_least)) / (_ORDERS + 1))


def _settle(values: _Floats, num_early: int, seed: int, error_rate: float) -> tuple[int, bool]:
    """How many early samples to leave out so that the rest is steady, at most half; and whether it is then."""
    for more in range(num_early, max(num_early, len(values) // 2) + 1):
        if _is_steady(values[more:], seed, error_rate):
            return more, True
    return num_early, False


def _is_steady(rest: _Floats, seed: int, error_rate: float) -> bool:
    if len(rest) < FEWEST:
        return True
    split = _best_split(rest, seed)
    return split.p_value > error_rate or abs(_step(rest, split.num_early).change) < LEAST_CHANGE


def _split_scores(ranks: _Floats) -> _Floats:
    """float64[rows, n - 1]: for each split, the rank sum of the earlier ones away from its mean, standardised."""
    count = ranks.shape[1]
    early = np.arange(1, count, dtype=np.float64)
    sums: _Floats = np.cumsum(ranks, axis=1)[:, :-1] - early * ranks.mean(axis=1, keepdims=True)
    scores: _Floats = np.abs(sums) / np.sqrt(early * (count - early))
    return scores


def _ranks(values: _Floats) -> _Floats:
    """Ranks from 1; equal values share the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    means: _Floats = (ends - (counts - 1) / 2)[inverse]
    return means


def _least_group(count: int) -> int:
    return max(2, math.ceil(_LEAST_GROUP * count))


def _gap_scores(ordered: _Floats) -> _Floats:
    """float64[rows, gaps]: each gap with enough samples on either side, in the scatter around the two means."""
    count = ordered.shape[1]
    low: _Indices = np.arange(_least_group(count), count - _least_group(count) + 1, dtype=np.int64)
    high: _Indices = count - low
    # counted from the first value, so that squares do not swallow the scatter
    shifted = ordered - ordered[:, :1]
    sums, squares = np.cumsum(shifted, axis=1), np.cumsum(shifted**2, axis=1)
    low_sum, low_square = sums[:, low - 1], squares[:, low - 1]
    high_sum, high_square = sums[:, -1:] - low_sum, squares[:, -1:] - low_square
    scatter: _Floats = (low_square - low_sum**2 / low) + (high_square - high_sum**2 / high)
    deviation = np.sqrt(np.maximum(scatter, 0) / (count - 2))
    gaps = shifted[:, low] - shifted[:, low - 1]
    floor = 1e-9 * np.maximum(shifted[:, -1:], np.finfo(np.float64).tiny)  # equal samples: a gap of 0 scores 0
    scores: _Floats = gaps / np.maximum(deviation, floor)
    return scores


def _step(values: _Floats, num_early: int) -> _Fit:
    """One level and then another."""
    early, late = values[:num_early], values[num_early:]
    misfit = float(((early - early.mean()) ** 2).sum() + ((late - late.mean()) ** 2).sum())
    return _Fit(misfit, _relative(float(np.median(early)), float(np.median(late))), num_early)


def _ramps(values: _Floats) -> Iterator[_Fit]:
    """A way to a level and then the level, for every length of the way that leaves enough of the level."""
    index = np.arange(len(values))
    for num_early in range(2, len(values) - FEWEST + 1):
        way = np.minimum(index - num_early, 0)
        steepness, level = np.polyfit(way, values, 1)
        misfit = float(((values - level - steepness * way) ** 2).sum())
        yield _Fit(misfit, _relative(float(level - steepness * num_early), float(level)), num_early)


def _slope(values: _Floats) -> _Fit:
    """A straight line through all samples."""
    index = np.arange(len(values))
    steepness, start = np.polyfit(index, values, 1)
    fitted = start + steepness * index
    return _Fit(float(((values - fitted) ** 2).sum()), _relative(float(fitted[0]), float(fitted[-1])))


def _relative(before: float, after: float) -> float:
    return after / before - 1 if before else 0.0 if after == before else float("inf")


def _warm_up_words(values: _Floats, num_early: int, *, steady: bool) -> str:
    early, late = float(np.median(values[:num_early])), float(np.median(values[num_early:]))
    remedy = (
        f"still warming up: leave out the first {num_early}, or warm up longer"
        if steady
        else "and the later ones are not steady either: warm up longer, and look for what changes"
    )
    return f"the first {num_early} of {len(values)} samples lie near {early:.4g}, the others near {late:.4g}; {remedy}"


def _slope_words(values: _Floats, change: float) -> str:
    way = "rise" if change > 0 else "fall"
    return f"{len(values)} samples {way} by {abs(change):.1%} from the first to the last; warm up longer"
