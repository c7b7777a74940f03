"""Rounds: every shape in turn at every number of threads, in an order drawn anew each time, until the time is up.

What disturbs a machine lasts a while. Whatever it hits is hit once, and not all of one shape.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from arriero.lab.shapes import Probe
from arriero.lab.stand import Nanoseconds, Sample, Stand

LEAST_VISITS: Final = 3
MOST_VISITS: Final = 200
"""More would say nothing new; small models are done before the time is up."""
_PATIENCE: Final = 2.0

Tell = Callable[[float, str], None]
"""Hears which part of the time is over, and what is being measured."""


class Measured(NamedTuple):
    """What the rounds gave.

    Attributes:
        samples: by number of threads, in the order in which they were taken.
        num_rounds: times that every shape was visited.
        seconds: from the first step to the last.
    """

    samples: Mapping[int, list[Sample]]
    num_rounds: int
    seconds: float


def measure_rounds(
    stands: Mapping[int, Stand],
    probes: Sequence[Probe],
    *,
    seconds: float,
    clock: Nanoseconds,
    seed: int = 1,
    tell: Tell | None = None,
) -> Measured:
    """Visit every shape at least three times, and go on until the time is up.

    Where three visits take more than twice the time, what is left of them is dropped, but for the first.

    Args:
        stands: prepared, by number of threads.
        probes: the shapes.
        seconds: how long.
        clock: whose nanoseconds they are.
        seed: of the order.
        tell: progress.
    """
    order = random.Random(seed)
    pairs = [(threads, probe) for threads in sorted(stands) for probe in probes]
    spent = dict.fromkeys(range(len(pairs)), 0.0)
    samples: dict[int, list[Sample]] = {threads: [] for threads in stands}
    began, num_rounds, share = clock(), 0, seconds / len(pairs)
    while num_rounds < MOST_VISITS:
        for place in order.sample(range(len(pairs)), len(pairs)):
            passed = (clock() - began) / 1e9
            if num_rounds and passed > seconds * (1 if num_rounds >= LEAST_VISITS else _PATIENCE):
                return Measured(samples, num_rounds, passed)
            if num_rounds >= LEAST_VISITS and spent[place] > share:
                continue  # a long one has had its part; the short ones go on
            threads, probe = pairs[place]
            if tell is not None:
                tell(min(1.0, passed / seconds), f"{probe.name}, {threads} threads")
            at = clock()
            samples[threads] += stands[threads].measure(probe)
            spent[place] += (clock() - at) / 1e9
        num_rounds += 1
    return Measured(samples, num_rounds, (clock() - began) / 1e9)
