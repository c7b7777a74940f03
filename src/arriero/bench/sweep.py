"""Sweeps: one workload at several rates, or with several numbers of clients."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from arriero.bench.schedule import Schedule
from arriero.bench.schedule_arrivals import ClosedLoop, OpenLoop
from arriero.bench.schedule_making import ScheduleOptions, make_schedule
from arriero.bench.schedule_work import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPoint:
    """A schedule, and in what it differs from the others of its sweep."""

    schedule: Schedule
    setting: Mapping[str, Any]


def plan_points(work: Work, options: ScheduleOptions, values: Sequence[float]) -> tuple[PlannedPoint, ...]:
    """A point for each rate of an open loop, or for each number of clients of a closed one.

    Each point has prompts of its own where the workload leaves them open, because a server that remembers prompts
    would answer the second point from the first. Lengths, arrivals' pattern and cancellations are the same in all.

    Args:
        work: the requests.
        options: of all points; the loop of each gets its value.
        values: in the order in which they are run; without any, a single point as the options say.
    """
    if not values:
        return (PlannedPoint(schedule=make_schedule(work, options), setting={}),)
    return tuple(_point(work, options, number, value, len(values)) for number, value in enumerate(values))


def _point(work: Work, options: ScheduleOptions, number: int, value: float, num_points: int) -> PlannedPoint:
    salt = options.salt if num_points == 1 else f"{options.salt}/point-{number}"
    match options.loop:
        case OpenLoop() as loop:
            loop = replace(loop, rate_per_s=value)
            setting: dict[str, Any] = {"rate_per_s": float(value)}
        case ClosedLoop() as loop:
            loop = replace(loop, num_clients=int(value))
            setting = {"clients": int(value)}
        case loop:
            setting = {}
    return PlannedPoint(schedule=make_schedule(work, replace(options, loop=loop, salt=salt)), setting=setting)
