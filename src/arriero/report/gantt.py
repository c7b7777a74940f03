"""Gantt: which requests are drawn as bars, and where each bar changes its colour."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from arriero.metrics.quantiles import weighted_percentiles
from arriero.metrics.served import Outcome
from arriero.report.columns import Floats, RequestColumns
from arriero.report.series import FULL, Detail, count_over_time

STALL_FACTOR: Final = 3.0
"""A gap between two tokens of a request is drawn as a stall from so many median gaps on."""
_BEFORE: Final = 3 / 4  # which part of the bars arrived before the moment that is looked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One request, microseconds; None for a moment that never came.

    Attributes:
        number: by arrival, from 1.
        until: where the bar ends: the end of the request, or of the run.
        stall: the largest gap between two of its tokens, if that is a stall.
        is_whole: whether it ended normally.
        preemptions: how often it lost its place meanwhile.
    """

    number: int
    arrival: float
    started: float | None
    first: float | None
    until: float
    stall: tuple[float, float] | None
    is_whole: bool
    outcome: str
    preemptions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Gantt:
    """Bars by arrival.

    Attributes:
        num_requests: of the whole run.
        busiest_at: the moment with most requests waiting, or running if nobody ever waits; microseconds.
        num_at_busiest: how many these were.
        counts_waiting: whether they waited, rather than ran.
    """

    bars: tuple[Bar, ...]
    num_requests: int
    busiest_at: float
    num_at_busiest: int
    counts_waiting: bool

    @property
    def shows_all(self) -> bool:
        """Whether nobody is left out."""
        return len(self.bars) == self.num_requests


def gantt(requests: RequestColumns, ended_at: float, detail: Detail = FULL) -> Gantt | None:
    """Everybody, or the neighbours by arrival of whoever arrived last before the busiest moment; None for nobody.

    Args:
        requests: all of them.
        ended_at: of the run, microseconds.
        detail: how many bars are drawn.
    """
    if not requests.num_requests:
        return None
    max_bars = detail.num_bars
    busiest_at, height, counts_waiting = _busiest(requests, ended_at)
    arrivals = requests.moments["arrival"]
    order = np.argsort(arrivals, kind="stable")
    last = int(np.searchsorted(arrivals[order], busiest_at, side="right"))
    first = max(0, min(len(order) - max_bars, last - round(max_bars * _BEFORE)))
    threshold = _stall_threshold(requests)
    bars = tuple(
        _bar(requests, int(index), number, ended_at, threshold)
        for number, index in enumerate(order[first : first + max_bars].tolist(), start=first + 1)
    )
    return Gantt(
        bars=bars,
        num_requests=requests.num_requests,
        busiest_at=busiest_at,
        num_at_busiest=height,
        counts_waiting=counts_waiting,
    )


def _busiest(requests: RequestColumns, ended_at: float) -> tuple[float, int, bool]:
    """When most waited or, if nobody waited, most ran; how many; and which of the two it is."""
    moments = requests.moments
    for (begins, ends), counts_waiting in (
        (waits(requests), True),
        ((moments["started"], moments["ended"]), False),
    ):
        depth = count_over_time(begins, ends, (0.0, ended_at))
        heights = depth.values if depth.peaks is None else depth.peaks
        top = int(heights.argmax())
        if heights[top] > 0:
            return float(depth.edges[top]), int(heights[top]), counts_waiting
    return 0.0, 0, False


def _stall_threshold(requests: RequestColumns) -> float | None:
    median = weighted_percentiles(requests.gaps.pooled).p50
    return None if not median else STALL_FACTOR * median


def _bar(requests: RequestColumns, index: int, number: int, ended_at: float, threshold: float | None) -> Bar:
    def moment(name: str) -> float | None:
        value = float(requests.moments[name][index])
        return None if np.isnan(value) else value

    largest = float(requests.latencies["itl_max"][index])
    begin, end = moment("stall_from"), moment("stall_until")
    is_stall = threshold is not None and largest >= threshold
    outcome, until = requests.outcomes[index], moment("ended")
    if until is None:
        until = moment("arrival") if outcome == Outcome.REJECTED else ended_at
    return Bar(
        number=number,
        arrival=float(requests.moments["arrival"][index]),
        started=moment("started"),
        first=moment("first"),
        until=ended_at if until is None else until,
        stall=(begin, end) if is_stall and begin is not None and end is not None else None,
        is_whole=outcome == Outcome.FINISHED,
        outcome=outcome,
        preemptions=int(requests.amounts["preemptions"][index]),
    )


def waits(requests: RequestColumns) -> tuple[Floats, Floats]:
    """From when until when each request waited; one that was rejected on arrival did not."""
    moments = requests.moments
    rejected = requests.ended_as(Outcome.REJECTED)
    begins = np.where(rejected, np.nan, moments["arrival"])
    ends = np.where(np.isnan(moments["started"]), moments["ended"], moments["started"])
    return begins, ends
