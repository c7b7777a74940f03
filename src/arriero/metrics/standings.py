"""Standings: the Pareto front of figures that are known within ranges only.

A front of means takes every digit for exact: of two files that differ by less than their own repetitions, one is
called beaten. Here a point is beaten only if another one at its worst is as good everywhere and better somewhere than
the point at its best. It is on the front if, at its own worst, it is not beaten by any other at its best. What lies
between is not resolved, and is not taken off the front.

Wider ranges only take verdicts away; ranges of a single value each give the exact front.
"""

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from arriero.metrics.pareto import Costs, pareto_front
from arriero.metrics.spread import Spread


class Range(NamedTuple):
    """What a cost is known to lie in; the lower, the better."""

    low: float
    high: float  # at least `low`


class Standing(StrEnum):
    """What is known of a point among others."""

    ON_FRONT = "on the front"
    NOT_RESOLVED = "not resolved"
    BEATEN = "beaten"


class Offer(NamedTuple):
    """A model file at one workload."""

    num_bytes: int
    rate: Spread  # tokens/s
    divergence: float | None = None  # from a reference, nats; None where nobody measured it
    divergence_high: float | None = None  # the upper end of its interval; None without one


def standings(points: Sequence[Sequence[Range]]) -> tuple[Standing, ...]:
    """For each point what is known of it.

    Equal points of exact figures stand on the front together. What is beaten is beaten by a point that is not.
    Cost: O(points^3 x objectives), which is nothing for model files.

    Raises:
        ValueError: points have different numbers of objectives.
    """
    best = [[each.low for each in point] for point in points]
    worst = [[each.high for each in point] for point in points]
    return tuple(_standing(number, best, worst) for number in range(len(points)))


def offer_standings(offers: Sequence[Offer]) -> tuple[Standing, ...]:
    """By size and speed, and by divergence where every offer has one.

    Sizes are exact, a rate lies between its least and its greatest repetition, a divergence in its interval.
    """
    with_divergence = all(offer.divergence is not None for offer in offers)
    return standings([_costs(offer, with_divergence=with_divergence) for offer in offers])


def _costs(offer: Offer, *, with_divergence: bool) -> tuple[Range, ...]:
    costs = (Range(offer.num_bytes, offer.num_bytes), _rate_cost(offer.rate))
    if not with_divergence or offer.divergence is None:
        return costs
    return (*costs, _around(offer.divergence, offer.divergence_high))


def _rate_cost(rate: Spread) -> Range:
    """A single repetition says nothing of what the next one would be."""
    return Range(-math.inf, math.inf) if rate.n == 1 else Range(-rate.maximum, -rate.minimum)


def _around(value: float, high: float | None) -> Range:
    """Only the upper end of an interval is kept, so it counts as wide below as above; exact without one."""
    reach = 0.0 if high is None else abs(high - value)
    return Range(value - reach, value + reach)


def _standing(number: int, best: Sequence[Costs], worst: Sequence[Costs]) -> Standing:
    if _is_beaten(number, best, worst):
        return Standing.BEATEN
    return Standing.NOT_RESOLVED if _is_beaten(number, worst, best) else Standing.ON_FRONT


def _is_beaten(number: int, own: Sequence[Costs], others: Sequence[Costs]) -> bool:
    """Whether a point, by the first figures, is beaten by any other one by the second."""
    return not pareto_front([own[number], *others[:number], *others[number + 1 :]])[0]
