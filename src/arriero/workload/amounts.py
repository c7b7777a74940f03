"""Amounts: whole numbers by chance, for lengths in tokens and for times in microseconds."""

import math
import random
from statistics import NormalDist
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from arriero.workload.records import COUNT_MAX

Count = Annotated[int, Meta(ge=0, le=COUNT_MAX)]
Positive = Annotated[int, Meta(ge=1, le=COUNT_MAX)]
_STANDARD: Final = NormalDist()
_ALMOST_ONE: Final = math.nextafter(1.0, 0.0)
_ALMOST_ZERO: Final = math.nextafter(0.0, 1.0)


class Constant(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="distribution", tag="constant", forbid_unknown_fields=True
):
    """Always the same."""

    value: Count


class Uniform(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="distribution", tag="uniform", forbid_unknown_fields=True
):
    """Each whole number from `low` to `high`, both included, equally often."""

    low: Count
    high: Count

    def __post_init__(self) -> None:
        """Refuse an empty range."""
        _check_order(self.low, self.high)


class LogNormal(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="distribution", tag="lognormal", forbid_unknown_fields=True
):
    """ln(amount) is normal, rounded to a whole number.

    The range cuts the distribution: what lies outside is never drawn, and nothing is moved to its ends.

    Attributes:
        mu: mean of ln(amount).
        sigma: standard deviation of ln(amount).
        low: the least amount.
        high: the greatest amount, or None.
    """

    mu: Annotated[float, Meta(ge=-40, le=40)]
    sigma: Annotated[float, Meta(gt=0, le=10)]
    low: Positive = 1
    high: Positive | None = None

    def __post_init__(self) -> None:
        """Refuse an empty range."""
        _check_order(self.low, self.high)


class Exponential(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="distribution", tag="exponential", forbid_unknown_fields=True
):
    """Exponential with this mean, rounded down."""

    mean: Annotated[float, Meta(gt=0, le=1e15)]


class Empirical(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="distribution", tag="empirical", forbid_unknown_fields=True
):
    """One of the values seen, each as often as its weight says, or equally often without weights."""

    values: Annotated[tuple[Count, ...], Meta(min_length=1)]
    weights: tuple[Annotated[float, Meta(ge=0, le=1e15)], ...] | None = None

    def __post_init__(self) -> None:
        """Refuse weights that do not go with the values."""
        if self.weights is not None and len(self.weights) != len(self.values):
            raise ValueError(f"{len(self.weights)} weights for {len(self.values)} values; give one for each")
        if self.weights is not None and sum(self.weights) <= 0:
            raise ValueError("all weights are 0; make one larger")


Amount: TypeAlias = Constant | Uniform | LogNormal | Exponential | Empirical


def sample(amount: Amount, rng: random.Random) -> int:
    """Draw one."""
    match amount:
        case Constant(value=value):
            return value
        case Uniform(low=low, high=high):
            return rng.randint(low, high)
        case LogNormal():
            return _sample_log_normal(amount, rng)
        case Exponential(mean=mean):
            return math.floor(-mean * math.log1p(-rng.random()))
        case Empirical(values=values, weights=weights):
            return rng.choices(values, weights)[0]


def _sample_log_normal(amount: LogNormal, rng: random.Random) -> int:
    # One draw, mapped into the part of the cumulated probability that the range leaves.
    below = _STANDARD.cdf((math.log(amount.low) - amount.mu) / amount.sigma)
    above = 1.0 if amount.high is None else _STANDARD.cdf((math.log(amount.high) - amount.mu) / amount.sigma)
    share = min(max(below + rng.random() * (above - below), _ALMOST_ZERO), _ALMOST_ONE)
    value = round(math.exp(amount.mu + amount.sigma * _STANDARD.inv_cdf(share)))
    # The range again: beyond about eight sigma the cumulated probability has no digits left.
    return max(amount.low, value if amount.high is None else min(value, amount.high))


def _check_order(low: int, high: int | None) -> None:
    if high is not None and low > high:
        raise ValueError(f"low {low} is above high {high}; swap them")
