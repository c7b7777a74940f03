"""Latencies of a simulated or recorded run: the distributions that its tables and figures show."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from arriero.metrics.distribution import distribution, weighted_distribution
from arriero.metrics.served import Outcome
from arriero.report.columns import Floats
from arriero.report.run_view import RunView


class Latency(NamedTuple):
    """One latency of requests, or of their tokens."""

    name: str
    label: str
    definition: str


LATENCIES: Final = (
    Latency("queue", "queue time", "begin of the first step that computes a row for the request - arrival"),
    Latency("ttft", "TTFT", "first token - arrival"),
    Latency("tpot", "TPOT", "(last - first token) / (tokens - 1), one for each finished request of 2 tokens or more"),
    Latency("e2e", "E2E", "last token - arrival, of requests that finished"),
    Latency("itl_max", "largest gap", "the greatest gap between two tokens of a request, one for each request"),
)
ITL: Final = Latency("itl", "ITL", "gap between two tokens; every gap of every request counts once")
STATISTICS: Final = ("n", "censored", "p50", "p90", "p95", "p99", "mean", "max")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A run and the distributions of its latencies, microseconds, as `metrics.distribution` makes them.

    Attributes:
        finished: name of `LATENCIES` → of requests that finished.
        everybody: the same of all but those cancelled as planned; one that did not finish and lacks the latency is
            larger than every sample.
        itl: of all gaps between tokens.
    """

    run: RunView
    finished: Mapping[str, dict[str, Any]]
    everybody: Mapping[str, dict[str, Any]]
    itl: dict[str, Any]


def measured(run: RunView) -> Measured:
    """Sort everything once."""
    requests = run.requests
    finished = requests.ended_as(Outcome.FINISHED)
    pooled = requests.gaps.pooled
    of_finished: dict[str, dict[str, Any]] = {}
    of_all: dict[str, dict[str, Any]] = {}
    for latency in LATENCIES:
        values = requests.latencies[latency.name]
        of_finished[latency.name] = _distribution(values[finished], 0)
        of_all[latency.name] = _distribution(*samples(run, latency.name))
    return Measured(
        run=run,
        finished=of_finished,
        everybody=of_all,
        itl=weighted_distribution(pooled, num_samples=sum(pooled.values()), undefined="no request has two tokens"),
    )


def samples(run: RunView, name: str) -> tuple[Floats, int]:
    """Values of everybody but those cancelled as planned, NaN included, and how many are larger than all samples."""
    requests = run.requests
    counted = ~requests.ended_as(Outcome.CANCELLED)
    values = requests.latencies[name]
    censored = counted & ~requests.ended_as(Outcome.FINISHED) & np.isnan(values)
    return values[counted], int(censored.sum())


def _distribution(values: Floats, num_censored: int) -> dict[str, Any]:
    known = values[~np.isnan(values)].tolist()
    return distribution(known, num_censored=num_censored, undefined="no request has it")
