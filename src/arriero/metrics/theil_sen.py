"""Theil and Sen's slope: the median over all pairs of points, and how far it is known.

One wild point moves it little. The interval rests on the number of pairs that rise and fall, whatever the noise looks
like, and is wide where there are few points. Source: Sen, Estimates of the regression coefficient based on Kendall's
tau, 1968; without its correction for ties.
"""

from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist, median
from typing import Final, NamedTuple

FEWEST: Final = 3
"""Points below which there is no interval to speak of."""


class Slope(NamedTuple):
    """A slope and its interval, in units of y for each unit of x."""

    value: float
    low: float
    high: float


def theil_sen(points: Sequence[tuple[float, float]], confidence: float = 0.95) -> Slope | None:
    """The slope through points (x, y); None of fewer than three different x.

    Cost: O(n^2 log n).
    """
    slopes = sorted(
        (b[1] - a[1]) / (b[0] - a[0]) for number, a in enumerate(points) for b in points[number + 1 :] if b[0] != a[0]
    )
    if len({x for x, _ in points}) < FEWEST:
        return None
    num_points, num_slopes = len(points), len(slopes)
    spread = sqrt(num_points * (num_points - 1) * (2 * num_points + 5) / 18)
    reach = NormalDist().inv_cdf((1 + confidence) / 2) * spread
    low, high = int((num_slopes - reach) / 2), int((num_slopes + reach) / 2) + 1
    return Slope(median(slopes), slopes[max(0, low)], slopes[min(num_slopes - 1, high)])
