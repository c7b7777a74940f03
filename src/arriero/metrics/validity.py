"""Validity: whether the generator kept up with its own schedule, and on a machine of its own.

A figure of a server measured by a generator that was late is a figure of the generator. So each result begins with a
flag, with its reasons in words and numbers, and no comparison accepts an invalid one.

| flag | all of |
| --- | --- |
| valid | p99 of send lag <= max(5 ms, 5 % of the median service TTFT), 99 % of the intended rate achieved |
| degraded | p99 of send lag <= max(20 ms, 20 % of that median), 95 % achieved |
| invalid | anything else, or the generator's own event loop was blocked for more than 100 ms |

Beside another busy process, or interrupted, a run is at most degraded. The rate achieved is the share of the requests
intended in the window that were on the wire by its end plus the lag that the flag allows: a constant lag does not lower
it, a generator that falls behind does. A request whose connection failed was tried in time.

Lag is actual - intended send, whatever it was spent on. A server that accepts connections slowly makes it long as well,
and that is no fault of the generator; but then its figures hold more than service. So a run that would not be invalid
without the time that connecting took is degraded, and says so.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from arriero.metrics.client_latency import service_ttft
from arriero.metrics.client_life import ClientLife, Outcome
from arriero.metrics.client_window import ClientWindow, client_window
from arriero.metrics.distribution import FEWEST_FOR_P99
from arriero.metrics.quantiles import nearest_rank
from arriero.metrics.rates import share

BLOCKED_NS: Final = 100_000_000
"""The longest block of the generator's event loop that a run may have."""


class Flag(StrEnum):
    """How far a result may be trusted."""

    VALID = "valid"
    DEGRADED = "degraded"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """What a flag demands.

    Attributes:
        lag_ns: p99 of send lag that is allowed in any case.
        lag_share: of the median service TTFT, allowed if that is more.
        achieved: least share of the intended rate.
    """

    lag_ns: int
    lag_share: float
    achieved: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidityLimits:
    """All limits; they may be changed, and stand in every result.

    Attributes:
        valid: for `valid`.
        degraded: for `degraded`.
        blocked_ns: longest block of the generator's event loop.
        neighbour_cores: cores that all other processes together may keep busy before a run is degraded.
    """

    valid: Level = Level(lag_ns=5_000_000, lag_share=0.05, achieved=0.99)
    degraded: Level = Level(lag_ns=20_000_000, lag_share=0.2, achieved=0.95)
    blocked_ns: int = BLOCKED_NS
    neighbour_cores: float = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class BusyProcess:
    """A process that is neither generator nor server, and how many cores it kept busy."""

    name: str
    cores: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Validity:
    """The flag and everything it rests on.

    Attributes:
        flag: the verdict.
        reasons: why it is not `valid`, one sentence each; empty if it is.
        num_lags: requests of the window that were sent and had been intended; 0 in a closed loop.
        lag_p50_ns: send lag of these, actual - intended send; None without any.
        lag_p99_ns: same; the maximum below 100 of them.
        lag_max_ns: same.
        lag_limit_ns: what `valid` allows here.
        median_service_ttft_ns: None without a first token.
        intended: requests due in the window; None in a closed loop.
        achieved: share of them on the wire in time.
        longest_block_ns: of the generator's event loop; None if nothing watched it.
        neighbours: the busiest other processes, most cores first.
        neighbour_cores: busy cores of all others together.
        limits: that were in force.
    """

    flag: Flag
    reasons: tuple[str, ...]
    num_lags: int
    lag_p50_ns: float | None
    lag_p99_ns: float | None
    lag_max_ns: float | None
    lag_limit_ns: float
    median_service_ttft_ns: float | None
    intended: int | None
    achieved: float | None
    longest_block_ns: int | None
    neighbours: tuple[BusyProcess, ...]
    neighbour_cores: float
    limits: ValidityLimits


def judge_validity(
    lives: Sequence[ClientLife],
    *,
    window: ClientWindow | None = None,
    longest_block_ns: int | None = None,
    neighbours: Sequence[BusyProcess] = (),
    was_interrupted: bool = False,
    limits: ValidityLimits = ValidityLimits(),
) -> Validity:
    """The flag of one run or one point of a sweep.

    Args:
        lives: all requests; warm-ups are left out here.
        window: as for the summary; None measures everything.
        longest_block_ns: of the generator's event loop; None where there is no loop, as in a simulation.
        neighbours: other processes that were busy before or during the run, each with its cores.
        was_interrupted: somebody stopped the run.
        limits: to judge by.
    """
    frame = client_window(lives) if window is None else window
    due = [life for life in lives if frame.holds(life) and frame.was_due(life)]
    lag = _lag_of(due, _sent_at)
    pace = _pace_of(due, frame, lag, limits, _sent_at)
    others = math.fsum(each.cores for each in neighbours)
    flag, reasons = _flag(lag, pace, limits)
    if flag is Flag.INVALID and (excuse := _excuse(due, frame, limits)):
        flag, reasons = Flag.DEGRADED, (*reasons, excuse)
    if all(life.outcome is Outcome.NOT_SENT for life in due):
        flag, reasons = Flag.INVALID, ("no request was sent in the window",)
    if longest_block_ns is not None and longest_block_ns > limits.blocked_ns:
        flag = Flag.INVALID
        reasons += (
            f"the generator's event loop was blocked for {_ms(longest_block_ns)}, more than {_ms(limits.blocked_ns)}",
        )
    if others > limits.neighbour_cores:
        flag = _at_most_degraded(flag)
        reasons += (_neighbour_words(neighbours, others, limits),)
    if was_interrupted:
        flag = _at_most_degraded(flag)
        reasons += ("the run was interrupted; what is measured ends there",)
    return Validity(
        flag=flag,
        reasons=reasons,
        num_lags=lag.num,
        lag_p50_ns=lag.p50,
        lag_p99_ns=lag.p99,
        lag_max_ns=lag.maximum,
        lag_limit_ns=_lag_limit(limits.valid, lag),
        median_service_ttft_ns=lag.service_ttft,
        intended=pace.intended,
        achieved=pace.achieved_valid,
        longest_block_ns=longest_block_ns,
        neighbours=tuple(sorted(neighbours, key=lambda each: (-each.cores, each.name))),
        neighbour_cores=others,
        limits=limits,
    )


def worst(validities: Iterable[Validity]) -> Validity:
    """The least trustworthy of at least one; the first of equals."""
    return max(validities, key=lambda each: _ORDER.index(each.flag))


_ORDER: Final = (Flag.VALID, Flag.DEGRADED, Flag.INVALID)


_When: TypeAlias = Callable[[ClientLife], int | None]
"""When the generator did its part for a request."""


class _Lag(NamedTuple):
    num: int
    p50: float | None
    p99: float | None
    maximum: float | None
    service_ttft: float | None  # median


class _Pace(NamedTuple):
    intended: int | None  # None in a closed loop
    achieved_valid: float | None  # share on the wire by the end of the window and the lag that `valid` allows
    achieved_degraded: float | None  # the same with the lag that `degraded` allows


def _sent_at(life: ClientLife) -> int | None:
    return life.sent_at


def _began_to_connect_at(life: ClientLife) -> int | None:
    """The actual send without the time that its connection took to open."""
    return None if life.sent_at is None else life.sent_at - (life.connect_ns or 0)


def _lag_of(due: Sequence[ClientLife], when: _When) -> _Lag:
    moments = ((when(life), life.intended_at) for life in due)
    lags = sorted(float(left - wanted) for left, wanted in moments if left is not None and wanted is not None)
    waits = sorted(float(wait) for life in due if (wait := service_ttft(life)) is not None)
    median = nearest_rank(waits, 0.5) if waits else None
    if not lags:
        return _Lag(0, None, None, None, median)
    return _Lag(len(lags), nearest_rank(lags, 0.5), nearest_rank(lags, 0.99), lags[-1], median)


def _pace_of(due: Sequence[ClientLife], window: ClientWindow, lag: _Lag, limits: ValidityLimits, when: _When) -> _Pace:
    intended = [life for life in due if life.intended_at is not None]
    if not intended:
        return _Pace(None, None, None)
    achieved: list[float | None] = []
    for level in (limits.valid, limits.degraded):
        latest = window.measured.ends_at + _lag_limit(level, lag)
        in_time = sum(_left_by(life, latest, when) for life in intended)
        achieved.append(share(in_time, len(intended)))
    return _Pace(len(intended), achieved[0], achieved[1])


def _left_by(life: ClientLife, latest: float, when: _When) -> bool:
    left = when(life)
    return life.outcome is not Outcome.NOT_SENT if left is None else left <= latest


def _excuse(due: Sequence[ClientLife], window: ClientWindow, limits: ValidityLimits) -> str:
    """Why an invalid run is only degraded: what connecting took made it so; empty if it did not."""
    lag = _lag_of(due, _began_to_connect_at)
    pace = _pace_of(due, window, lag, limits, _began_to_connect_at)
    if lag.p99 is None or _flag(lag, pace, limits)[0] is Flag.INVALID:
        return ""
    return f"connecting took that long: without it {_p99_words(lag)}"


def _lag_limit(level: Level, lag: _Lag) -> float:
    return max(float(level.lag_ns), level.lag_share * (lag.service_ttft or 0))


def _flag(lag: _Lag, pace: _Pace, limits: ValidityLimits) -> tuple[Flag, tuple[str, ...]]:
    """The flag that lag and pace alone allow, and why it is not the best."""
    if not (reasons := _faults(limits.valid, lag, pace.achieved_valid, pace)):
        return Flag.VALID, ()
    worse = _faults(limits.degraded, lag, pace.achieved_degraded, pace)
    return (Flag.INVALID, worse) if worse else (Flag.DEGRADED, reasons)


def _faults(level: Level, lag: _Lag, achieved: float | None, pace: _Pace) -> tuple[str, ...]:
    reasons: list[str] = []
    limit = _lag_limit(level, lag)
    if lag.p99 is not None and lag.p99 > limit:
        reasons.append(f"requests left late: {_p99_words(lag)}, more than {_ms(limit)}")
    if achieved is not None and pace.intended is not None and achieved < level.achieved:
        sent = round(achieved * pace.intended)
        reasons.append(
            f"the generator fell behind: {sent} of {pace.intended} requests were sent in time "
            f"({achieved:.1%} of the intended rate, less than {level.achieved:.0%})"
        )
    return tuple(reasons)


def _p99_words(lag: _Lag) -> str:
    """The p99, or the maximum of too few."""
    assert lag.p99 is not None, "there are lags"
    if lag.num >= FEWEST_FOR_P99:
        return f"p99 of send lag {_ms(lag.p99)}"
    return f"longest send lag {_ms(lag.p99)} (n = {lag.num})"


def _at_most_degraded(flag: Flag) -> Flag:
    return Flag.DEGRADED if flag is Flag.VALID else flag


def _neighbour_words(neighbours: Sequence[BusyProcess], others: float, limits: ValidityLimits) -> str:
    names = ", ".join(f"{each.name} {each.cores:.2f}" for each in sorted(neighbours, key=lambda each: -each.cores)[:3])
    return (
        f"other processes kept {others:.2f} cores busy, more than {limits.neighbour_cores:g} ({names}); "
        f"run on a machine that does nothing else"
    )


def _ms(duration_ns: float) -> str:
    return f"{duration_ns / 1e6:,.1f} ms"
