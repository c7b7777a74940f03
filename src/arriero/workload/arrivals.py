"""Arrival processes: when requests, or whole conversations, begin.

Each is drawn from one generator in order, so more of them never move the earlier ones.
"""

import math
import random
from collections.abc import Iterator
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from arriero.workload.amounts import Amount, Count, Positive

_Rate = Annotated[float, Meta(gt=0, le=1e6)]


class Poisson(msgspec.Struct, frozen=True, kw_only=True, tag_field="mode", tag="poisson", forbid_unknown_fields=True):
    """Independent arrivals: exponential gaps, the first arrival at the start."""

    rate_per_s: _Rate
    start_time_us: Count = 0


class Gamma(msgspec.Struct, frozen=True, kw_only=True, tag_field="mode", tag="gamma", forbid_unknown_fields=True):
    """Gamma gaps: arrivals in bursts above a burstiness of 1, more even than chance below it.

    Attributes:
        rate_per_s: mean rate.
        burstiness: coefficient of variation of the gaps; 1 is a Poisson process.
    """

    rate_per_s: _Rate
    burstiness: Annotated[float, Meta(ge=0.01, le=20)]
    start_time_us: Count = 0


class Constant(msgspec.Struct, frozen=True, kw_only=True, tag_field="mode", tag="constant", forbid_unknown_fields=True):
    """One every so often."""

    interval_us: Positive
    start_time_us: Count = 0


class Burst(msgspec.Struct, frozen=True, kw_only=True, tag_field="mode", tag="burst", forbid_unknown_fields=True):
    """Groups that arrive together, one group every so often."""

    burst_size: Positive
    interval_us: Positive
    start_time_us: Count = 0


class ClosedLoop(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="mode", tag="closed_loop", forbid_unknown_fields=True
):
    """Clients that each wait for their answer, think, and ask again; see `notes.py` for how a file says so.

    Request i belongs to client i modulo `num_clients`.
    """

    num_clients: Positive
    think_time_us: Amount
    start_time_us: Count = 0


OpenArrival: TypeAlias = Poisson | Gamma | Constant | Burst
Arrival: TypeAlias = OpenArrival | ClosedLoop


def beginnings(arrival: OpenArrival, rng: random.Random) -> Iterator[int]:
    """Times in microseconds, never going back, without an end."""
    match arrival:
        case Poisson(rate_per_s=rate, start_time_us=start):
            yield from _summed(start, _gamma_gaps(rate, 1.0, rng))
        case Gamma(rate_per_s=rate, burstiness=burstiness, start_time_us=start):
            yield from _summed(start, _gamma_gaps(rate, burstiness, rng))
        case Constant(interval_us=interval, start_time_us=start):
            now = start
            while True:
                yield now
                now += interval
        case Burst(burst_size=size, interval_us=interval, start_time_us=start):
            now = start
            while True:
                yield from (now for _ in range(size))
                now += interval


def _gamma_gaps(rate_per_s: float, burstiness: float, rng: random.Random) -> Iterator[float]:
    mean_us = 1e6 / rate_per_s
    shape = 1 / burstiness**2
    while True:
        yield rng.gammavariate(shape, mean_us / shape)


def _summed(start: int, gaps: Iterator[float]) -> Iterator[int]:
    # Fractions are carried along: rounding each gap would speed up dense arrivals.
    passed = 0.0
    yield start
    for gap in gaps:
        passed += gap
        yield start + math.floor(passed)
