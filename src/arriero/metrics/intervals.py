"""Several runs of one configuration under different seeds: mean and interval of each figure.

The interval is Student's t over the runs: seeds are few, and a bootstrap of three or five values is too narrow. It
assumes that the figure of a run is roughly normal from seed to seed, which rates and percentiles of thousands of
requests are.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

CONFIDENCE: Final = 0.95


class Interval(NamedTuple):
    """The mean of one figure over runs, and how sure it is."""

    mean: float
    half_width: float | None  # None for a single run
    num_runs: int


def interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Mean and half the width of the t interval of at least one value."""
    count = len(values)
    mean = math.fsum(values) / count
    if count < 2:
        return Interval(mean, None, count)
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    return Interval(mean, t_quantile((1 + confidence) / 2, count - 1) * math.sqrt(variance / count), count)


def over_runs(summaries: Sequence[Mapping[str, Any]], confidence: float = CONFIDENCE) -> dict[str, Any]:
    """Interval of every figure, by dotted name; one that is undefined in some run says in how many it is defined."""
    found: dict[str, Any] = {}
    flat = [dict(_flat(summary)) for summary in summaries]
    for name in dict.fromkeys(name for each in flat for name in each):
        values = [each[name] for each in flat if name in each]
        found[name] = interval(values, confidence)._asdict()
    return found


def t_quantile(probability: float, freedom: int) -> float:
    """The quantile of Student's t, for a probability of at least one half and whole degrees of freedom.

    By bisection of the distribution, whose closed form for whole degrees is exact; good to 12 digits.
    """
    low, high = 0.0, 1.0
    while _t_distribution(high, freedom) < probability:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        if _t_distribution(middle, freedom) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _t_distribution(t: float, freedom: int) -> float:
    """P(T <= t) for t >= 0. Source: Abramowitz and Stegun, 26.7.3 and 26.7.4."""
    angle = math.atan(t / math.sqrt(freedom))
    cosine_squared = math.cos(angle) ** 2
    is_odd = freedom % 2
    term = math.cos(angle) if is_odd else 1.0
    total = 0.0
    for k in range(freedom // 2):
        total += term
        step = (2 * k + 2) / (2 * k + 3) if is_odd else (2 * k + 1) / (2 * k + 2)
        term *= cosine_squared * step
    within = 2 / math.pi * (angle + math.sin(angle) * total) if is_odd else math.sin(angle) * total
    return 0.5 + within / 2


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    for name, value in values.items():
        match value:
            case bool():
                continue
            case int() | float():
                yield f"{prefix}{name}", value
            case Mapping():
                yield from _flat(cast("Mapping[str, Any]", value), f"{prefix}{name}.")
            case _:
                continue
