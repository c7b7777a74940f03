"""Figures over windows of a text, with intervals that treat a window, and not a token, as what was drawn by chance.

Tokens of one passage are hard or easy together, so an interval over single tokens would be several times too narrow.
A resample therefore draws whole windows (a cluster bootstrap), and figures of two models keep the same draws, so that
what makes a window hard for both of them cancels (pairing). Ends are percentiles of the resampled figures.

What such an interval does not know: neighbouring windows may belong to one passage, and another kind of text may give
another figure altogether. With few windows a percentile interval is a little too narrow: for a mean of n windows by
about sqrt((n - 1) / n).

Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapters 8 and 13.
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

RESAMPLES: Final = 4_000
CONFIDENCE: Final = 0.95
FEWEST_WINDOWS: Final = 5
"""Windows below which resampling says next to nothing."""

Values = NDArray[np.float64]
"""float64[num_windows, tokens of a window]."""
Draws = NDArray[np.int64]
"""int64[resamples, num_windows]: which windows each resample has."""


class Bounds(NamedTuple):
    """A figure and the interval around it."""

    value: float
    low: float
    high: float


def draw_windows(num_windows: int, *, seed: int, resamples: int = RESAMPLES) -> Draws:
    """Which windows each resample consists of."""
    return np.random.default_rng(seed).integers(num_windows, size=(resamples, num_windows))


def mean_bounds(values: Values, draws: Draws, confidence: float = CONFIDENCE) -> Bounds:
    """The mean over all tokens; windows are equally long, so it is the mean of their means."""
    means = values.mean(axis=1)
    return _bounds(float(means.mean()), means[draws].mean(axis=1), confidence)


def exponential_bounds(values: Values, draws: Draws, confidence: float = CONFIDENCE) -> Bounds:
    """Exp of the mean over all tokens: of negative log-likelihoods the perplexity, of differences a ratio of two."""
    return Bounds(*(math.exp(value) for value in mean_bounds(values, draws, confidence)))


def rank_bounds(
    values: Values, shares: Sequence[float], draws: Draws, confidence: float = CONFIDENCE
) -> tuple[Bounds, ...]:
    """Percentiles by nearest rank over all tokens, one for each share between 0 and 1."""
    ranks = [_rank(share, values.size) for share in shares]
    whole = np.partition(values.reshape(-1), ranks)[ranks]
    found = np.empty((len(draws), len(ranks)))
    for index, drawn in enumerate(draws):  # one at a time: all at once would be gigabytes
        found[index] = np.partition(values[drawn].reshape(-1), ranks)[ranks]
    return tuple(_bounds(float(value), found[:, column], confidence) for column, value in enumerate(whole))


def _rank(share: float, count: int) -> int:
    """Place of a nearest rank, counted from 0; the same as in `quantiles.nearest_rank`."""
    return max(1, min(count, math.ceil(share * count))) - 1


def _bounds(value: float, resampled: NDArray[np.float64], confidence: float) -> Bounds:
    outside = (1 - confidence) / 2
    low, high = np.quantile(resampled, (outside, 1 - outside)).tolist()
    return Bounds(value, low, high)
