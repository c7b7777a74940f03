"""Threads by shape: what a step takes at each number of threads, and at which it takes least."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from arriero.core.option_kinds import Threads
from arriero.costmodel.calibrated import CalibratedCost
from arriero.costmodel.passes import AnyRow, split


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Microseconds of one step.

    Attributes:
        single: of its passes of one row, by number of threads.
        many: of all others, by number of threads.
        host: outside the decode call, whoever computes.
    """

    single: Mapping[int, float]
    many: Mapping[int, float]
    host: float

    def time(self, threads: Threads) -> float:
        """Of the decode call."""
        return self.single[threads.decode] + self.many[threads.prefill]

    def used(self, threads: Threads) -> int:
        """The number that computes the larger part of it."""
        larger = self.many[threads.prefill] >= self.single[threads.decode]
        return threads.prefill if larger else threads.decode


def step_times(cost: CalibratedCost, rows: Sequence[AnyRow], numbers: Sequence[int], *, pool: int = 0) -> StepTimes:
    """What a step of these rows takes, ascending by sequence id.

    Args:
        cost: where the numbers were calibrated.
        rows: of a plan, or stretches.
        numbers: of threads.
        pool: see `CalibratedCost.time`.

    Cost: one split of the rows into passes, and their terms for each number.
    """
    single, many = dict.fromkeys(numbers, 0.0), dict.fromkeys(numbers, 0.0)
    for one in split(rows, cost.rules, pool=pool):
        into = single if one.rows == 1 else many
        for number in numbers:
            into[number] += cost.passes[number].time(one)
    return StepTimes(single, many, cost.host.time(len(rows), sum(row.wants_logits for row in rows)))


def best_threads(times: StepTimes, now: Threads, most: Threads, numbers: Sequence[int], *, gain: float) -> Threads:
    """The numbers at which a step takes least, or those in use, as far as they are allowed, where little is gained.

    Args:
        times: of the step.
        now: numbers in use, of `numbers`.
        most: those that are allowed.
        numbers: ascending; none of `most` is below the first.
        gain: part of the decode call that a change of one of the two has to save.
    """
    capped = Threads(min(now.decode, most.decode), min(now.prefill, most.prefill))
    least = gain * times.time(capped)
    return Threads(
        _best_of(times.single, capped.decode, most.decode, numbers, least),
        _best_of(times.many, capped.prefill, most.prefill, numbers, least),
    )


def _best_of(times: Mapping[int, float], now: int, most: int, numbers: Sequence[int], least: float) -> int:
    best = min((number for number in numbers if number <= most), key=times.__getitem__)
    return best if times[now] - times[best] > least else now
