"""Distribution: the percentiles of a metric with everything a reader needs to trust them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from arriero.metrics.quantiles import PERCENTS, nearest_rank, weighted_percentiles

FEWEST_FOR_P99: Final = 100
"""Samples below which a p99 is little more than the maximum, and is not shown."""


class Figure(NamedTuple):
    """A number, or why there is none."""

    value: float | None
    reason: str | None = None

    def as_json(self) -> Any:  # noqa: ANN401 - a number or an object
        """The number itself; else null and the reason."""
        return self.value if self.value is not None else {"value": None, "reason": self.reason}


def figure(value: float | None, reason: str) -> Figure:
    """A figure; the reason stands for None only."""
    return Figure(value) if value is not None else Figure(None, reason)


def distribution(samples: Sequence[float], *, num_censored: int = 0, undefined: str = "no samples") -> dict[str, Any]:
    """Percentiles by nearest rank, mean, least and greatest, beside the counts they rest on.

    Args:
        samples: of requests that had the metric.
        num_censored: requests that would have had it had they ended; each counts as larger than every sample.
        undefined: the reason that stands where there are no samples at all.
    """
    ordered = sorted(samples)
    found: dict[str, Any] = {"n": len(ordered), "censored": num_censored}
    total = len(ordered) + num_censored
    for percent in PERCENTS:
        found[f"p{percent}"] = _percentile(ordered, percent, total, undefined).as_json()
    reason = "some are censored" if num_censored else undefined
    is_whole = bool(ordered) and not num_censored
    found["mean"] = figure(sum(ordered) / len(ordered) if is_whole else None, reason).as_json()
    found["min"] = figure(ordered[0] if ordered else None, undefined).as_json()
    found["max"] = figure(ordered[-1] if is_whole else None, reason).as_json()
    return found


def weighted_distribution(weights: Mapping[int, float], *, num_samples: int, undefined: str) -> dict[str, Any]:
    """The same for values that stand for a weight each.

    Args:
        weights: value → weight.
        num_samples: how many samples they came from.
        undefined: the reason that stands where there are none.
    """
    found: dict[str, Any] = {"n": num_samples}
    for name, value in weighted_percentiles(weights)._asdict().items():
        reason = undefined if value is None else _TOO_FEW
        shown = None if name == "p99" and num_samples < FEWEST_FOR_P99 else value
        found[name] = figure(shown, reason).as_json()
    total = sum(weights.values())
    mean = sum(value * weight for value, weight in weights.items()) / total if total else None
    found["mean"] = figure(mean, undefined).as_json()
    found["max"] = figure(max(weights, default=None), undefined).as_json()
    return found


_TOO_FEW: Final = f"fewer than {FEWEST_FOR_P99} samples: see max"


def _percentile(ordered: Sequence[float], percent: int, total: int, undefined: str) -> Figure:
    if not total:
        return Figure(None, undefined)
    if percent == PERCENTS[-1] and total < FEWEST_FOR_P99:
        return Figure(None, _TOO_FEW)
    rank = nearest_rank(range(total), percent / 100)
    if rank >= len(ordered):
        return Figure(None, "the rank falls among censored requests")
    return Figure(ordered[rank])
