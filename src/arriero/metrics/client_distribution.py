"""Distribution of a latency: percentiles by either rule, over samples with and without weights, and failures.

A failure is larger than every sample. By nearest rank that decides a percentile whenever the rank falls among failures;
no mean, maximum or interpolated value exists with them.
"""

import math
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from arriero.metrics.client_figures import INFINITE, Distribution
from arriero.metrics.definitions_parts import PercentileRule, Samples
from arriero.metrics.distribution import FEWEST_FOR_P99
from arriero.metrics.quantiles import nearest_rank

FEWEST_FOR_P99_9: Final = 1_000
"""Samples below which a p99.9 is not shown."""

_SHARES: Final = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99_9": 0.999}
_FEWEST: Final = {"p99": FEWEST_FOR_P99, "p99_9": FEWEST_FOR_P99_9}


@dataclass(slots=True)
class Pool:
    """Collects the samples of many requests; 8 bytes a sample, twice that once weights differ.

    Attributes:
        num_infinite: failures so far.
        num_undefined: requests so far that had no sample.
    """

    num_infinite: int = 0
    num_undefined: int = 0
    _values: "array[float]" = field(default_factory=lambda: array("d"))
    _weights: "array[float] | None" = None  # None as long as each is 1

    def add(self, samples: Samples) -> None:
        """Take the samples of one request that ended normally; without any it is undefined."""
        self.num_undefined += not samples.values
        self.add_seen(samples)

    def add_seen(self, samples: Samples) -> None:
        """Take what there is of one request."""
        values, weight = samples
        if self._weights is None and weight != 1.0:
            self._weights = array("d", [1.0]) * len(self._values)
        self._values.extend(values)
        if self._weights is not None:
            self._weights.extend([weight] * len(values))

    def fail(self) -> None:
        """Take a request whose latency is larger than every sample."""
        self.num_infinite += 1

    def copy(self) -> "Pool":
        """Another one with the same samples."""
        weights = None if self._weights is None else self._weights[:]
        return Pool(self.num_infinite, self.num_undefined, self._values[:], weights)

    def describe(self, rule: PercentileRule, undefined: str = "no request has it") -> Distribution:
        """Everything about the samples so far.

        Args:
            rule: of the percentiles; with failures it is nearest rank in any case.
            undefined: the reason that stands where there is no sample at all.
        """
        ordered = np.frombuffer(self._values, dtype=np.float64)
        weights = None if self._weights is None else np.frombuffer(self._weights, dtype=np.float64)
        if weights is None:
            ordered = np.sort(ordered)
        else:
            order = np.argsort(ordered, kind="stable")
            ordered, weights = ordered[order], weights[order]
        figures, reasons = _figures(ordered, weights, self.num_infinite, rule, undefined)
        return Distribution(
            n=len(ordered),
            num_infinite=self.num_infinite,
            num_undefined=self.num_undefined,
            reasons=reasons,
            **figures,
        )


def describe(
    values: Sequence[float], *, num_infinite: int = 0, rule: PercentileRule = PercentileRule.NEAREST_RANK
) -> Distribution:
    """Everything about samples without weights."""
    pool = Pool(num_infinite=num_infinite)
    if values:
        pool.add(Samples(values))
    return pool.describe(rule)


def _figures(
    ordered: NDArray[np.float64],
    weights: NDArray[np.float64] | None,
    num_infinite: int,
    rule: PercentileRule,
    undefined: str,
) -> tuple[dict[str, float | None], dict[str, str]]:
    total = len(ordered) + num_infinite
    figures: dict[str, float | None] = dict.fromkeys(("mean", "min", *_SHARES, "max"))
    if not total:
        return figures, dict.fromkeys(figures, undefined)
    reasons: dict[str, str] = {}
    if len(ordered):
        figures["min"] = float(ordered[0])
    else:
        reasons["min"] = INFINITE
    if num_infinite:
        reasons |= {"mean": INFINITE, "max": INFINITE}
    else:
        figures["mean"] = _mean(ordered, weights)
        figures["max"] = float(ordered[-1])
    for name, share in _SHARES.items():
        if total < _FEWEST.get(name, 0):
            reasons[name] = f"fewer than {_FEWEST[name]} samples: see max"
            continue
        figures[name] = _percentile(ordered, weights, num_infinite, share, rule)
        if figures[name] is None:
            reasons[name] = INFINITE
    return figures, dict(sorted(reasons.items()))


def _percentile(
    ordered: NDArray[np.float64],
    weights: NDArray[np.float64] | None,
    num_infinite: int,
    share: float,
    rule: PercentileRule,
) -> float | None:
    """One percentile; None if it falls among the failures, each of which weighs as much as a sample."""
    if weights is not None:
        passed: list[float] = np.cumsum(weights).tolist()
        wanted = share * (passed[-1] + num_infinite)
        rank = bisect_left(passed, wanted)
        return float(ordered[rank]) if rank < len(ordered) else None
    if rule is PercentileRule.LINEAR and not num_infinite:
        return float(np.quantile(ordered, share))
    rank = nearest_rank(range(len(ordered) + num_infinite), share)
    return float(ordered[rank]) if rank < len(ordered) else None


def _mean(values: NDArray[np.float64], weights: NDArray[np.float64] | None) -> float:
    """From exact sums, so that it is the same on every machine."""
    if weights is None:
        return math.fsum(values.tolist()) / len(values)
    products: list[float] = (values * weights).tolist()
    return math.fsum(products) / math.fsum(weights)
