"""Kernels timed in turns, so that what slows the machine down for a while slows all of them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from arriero.lab.kernels.gates import same_bits
from arriero.lab.kernels.reference import Double, Single
from arriero.metrics.kernel_times import RESAMPLES, ratio_of_medians, time_figures
from arriero.record.cpu_lab.kernels import TimedKernel, TimedSize

Timer: TypeAlias = Callable[[int], int]
"""Calls -> nanoseconds."""


class Contestant(NamedTuple):
    """One kernel that is timed."""

    label: str
    role: Literal["baseline", "candidate", "ggml"]
    run: Timer
    out: Single  # where its last result is


class Turns(NamedTuple):
    """How long and how often."""

    warm_ups: int
    repetitions: int
    calls: int


def times_in_turns(contestants: Sequence[Contestant], turns: Turns) -> Mapping[str, tuple[int, ...]]:
    """Label -> nanoseconds of each repetition.

    All warm up first. Then every repetition runs each of them once, from the first to the last and back by turns.
    """
    for each in contestants:
        if turns.warm_ups:
            each.run(turns.warm_ups)
    found: dict[str, list[int]] = {each.label: [] for each in contestants}
    for repetition in range(turns.repetitions):
        for each in contestants if repetition % 2 == 0 else tuple(reversed(contestants)):
            found[each.label].append(max(1, each.run(turns.calls)))
    return {label: tuple(times) for label, times in found.items()}


def timed_size(
    contestants: Sequence[Contestant],
    turns: Turns,
    *,
    size: int,
    magnitude: Double,
    seed: int,
    resamples: int = RESAMPLES,
) -> TimedSize:
    """Times and figures of one size.

    Args:
        contestants: baseline and candidate first.
        turns: see there.
        size: blocks that a result runs over.
        magnitude: sum of the absolute terms of the results, to which differences are relative.
        seed: of the interval.
        resamples: same.
    """
    times = times_in_turns(contestants, turns)
    baseline = contestants[0].out
    kernels = tuple(
        TimedKernel(
            label=each.label,
            role=each.role,
            nanoseconds=times[each.label],
            figures=time_figures(times[each.label], turns.calls),
            equal_bits=bool(same_bits(each.out, baseline).all()),
            largest_difference=_largest_difference(each.out, baseline, magnitude),
        )
        for each in contestants
    )
    ratio = ratio_of_medians(kernels[0].nanoseconds, kernels[1].nanoseconds, seed=seed, resamples=resamples)
    return TimedSize(size=size, calls=turns.calls, warm_ups=turns.warm_ups, kernels=kernels, ratio=ratio)


def _largest_difference(found: Single, baseline: Single, magnitude: Double) -> float:
    differences = np.abs(found.astype(np.float64) - baseline.astype(np.float64)).ravel()
    return float((differences / np.maximum(magnitude.ravel(), np.finfo(np.float64).tiny)).max())
