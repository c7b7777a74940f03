"""Arrivals of an open loop: one pattern of gaps for a seed, stretched to any rate, or along a ramp.

    pattern   times of a process with one arrival a second on average: constant, Poisson or gamma gaps
    rate      the pattern's time u arrives when the rate, summed up from the start, reaches u

So the points of a sweep differ in their rate and in nothing else, and a ramp is the same pattern again.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from arriero.bench.schedule_chance import chance
from arriero.workload.arrivals import Constant, Gamma, Poisson, beginnings

_US = 1_000_000
_NS = 1_000_000_000


class Process(StrEnum):
    """How gaps between arrivals vary."""

    CONSTANT = "constant"
    POISSON = "poisson"
    GAMMA = "gamma"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ramp:
    """A rate, or a number of clients, that moves evenly from one value to another and stays there."""

    start: float
    end: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLoop:
    """Arrivals that wait for nobody.

    Attributes:
        rate_per_s: of requests, or of conversations where there are any; with a ramp, its end.
        process: how gaps vary.
        cv: coefficient of variation of gamma gaps: above 1 in bursts, below it more even than chance.
        ramp: of the rate; None for the same one from the start.
    """

    rate_per_s: float
    process: Process = Process.POISSON
    cv: float = 1.0
    ramp: Ramp | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedLoop:
    """Clients that each wait for their answer.

    Attributes:
        num_clients: how many; with a ramp, its end.
        ramp: of the number of clients; None starts all at once.
    """

    num_clients: int
    ramp: Ramp | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The workload's own arrivals; `speed` 2 is twice its rate."""

    speed: float = 1.0


def arrival_times(loop: OpenLoop, seed: int) -> Iterator[int]:
    """Nanoseconds from the start, never going back, without an end."""
    moment = _moment_of(loop)
    for pattern_us in beginnings(_pattern(loop), chance(seed, "arrival")):
        yield round(moment(pattern_us / _US) * _NS)


def client_starts(loop: ClosedLoop) -> tuple[int, ...]:
    """When each client begins, nanoseconds from the start."""
    ramp = loop.ramp
    if ramp is None:
        return (0,) * loop.num_clients
    span = ramp.end - ramp.start
    # The client that makes the number n begins when the ramp reaches n.
    shares = (max(0.0, (n - ramp.start) / span) if span > 0 else 0.0 for n in range(1, loop.num_clients + 1))
    return tuple(round(share * ramp.seconds * _NS) for share in shares)


def _pattern(loop: OpenLoop) -> Constant | Poisson | Gamma:
    match loop.process:
        case Process.CONSTANT:
            return Constant(interval_us=_US)
        case Process.POISSON:
            return Poisson(rate_per_s=1.0)
        case Process.GAMMA:
            return Gamma(rate_per_s=1.0, burstiness=loop.cv)


def _moment_of(loop: OpenLoop) -> Callable[[float], float]:
    """From the pattern's time to seconds."""
    ramp = loop.ramp
    if ramp is None or ramp.seconds <= 0:
        return lambda pattern: pattern / loop.rate_per_s
    return partial(_along, ramp)


def _along(ramp: Ramp, pattern: float) -> float:
    """When the summed rate of a ramp reaches so many arrivals."""
    during = (ramp.start + ramp.end) / 2 * ramp.seconds
    if pattern >= during:
        return ramp.seconds + (pattern - during) / ramp.end
    # start * t + (end - start) * t^2 / (2 * seconds) = pattern, in the form that keeps its digits for a slight slope
    root = math.sqrt(ramp.start**2 + 2 * (ramp.end - ramp.start) * pattern / ramp.seconds)
    return 2 * pattern / (ramp.start + root) if pattern else 0.0
