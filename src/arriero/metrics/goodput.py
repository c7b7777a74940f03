"""Objectives on latencies, and which requests keep all of them."""

from collections.abc import Iterable
from typing import NamedTuple

from arriero.core.ids import Time
from arriero.metrics.latency import Life


class Slos(NamedTuple):
    """Upper bounds in the unit of the time line; None for one that is not set."""

    ttft: Time | None = None
    tpot: Time | None = None
    e2e: Time | None = None


class Goodness(NamedTuple):
    """How finished requests did."""

    num_good: int
    ttft_violations: int
    tpot_violations: int
    e2e_violations: int


def is_good(life: Life, slos: Slos) -> bool:
    """Whether a finished request keeps every objective; an undefined metric does not count against it."""
    return not (breaks(life.ttft, slos.ttft) or breaks(life.tpot, slos.tpot) or breaks(life.e2e, slos.e2e))


def judge(finished: Iterable[Life], slos: Slos) -> Goodness:
    """Count good requests and violations of each objective."""
    good = late_first = slow = late_end = 0
    for life in finished:
        broken = breaks(life.ttft, slos.ttft), breaks(life.tpot, slos.tpot), breaks(life.e2e, slos.e2e)
        late_first += broken[0]
        slow += broken[1]
        late_end += broken[2]
        good += not any(broken)
    return Goodness(good, late_first, slow, late_end)


def breaks(value: float | None, bound: Time | None) -> bool:
    """Whether a latency exceeds its bound; what is undefined, or has none, does not."""
    return value is not None and bound is not None and value > bound
