"""How many requests waited, over time."""

from collections.abc import Sequence
from typing import NamedTuple

from arriero.metrics.latency import Life


class QueueDepth(NamedTuple):
    """Figures of the waiting requests."""

    maximum: int
    average: float | None  # None if the span is not positive


def queue_depth(lives: Sequence[Life], until_us: int) -> QueueDepth:
    """Depth from the first arrival to `until_us`; at one moment arrivals count before starts.

    Cost: O(n log n).
    """
    events = [(life.arrival_at, -1) for life in lives if life.arrival_at <= until_us]
    events.extend((life.started_at, 1) for life in lives if life.started_at is not None and life.started_at <= until_us)
    events.sort()  # by time; an arrival, written as -1, comes before a start
    if not events:
        return QueueDepth(0, None)
    first = before = events[0][0]
    depth = maximum = 0
    area: float = 0
    for at, change in events:
        area += depth * (at - before)
        before = at
        depth -= change
        maximum = max(maximum, depth)
    area += depth * (until_us - before)
    span = until_us - first
    return QueueDepth(maximum, area / span if span > 0 else None)
