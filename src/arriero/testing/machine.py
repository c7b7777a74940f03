"""Machine: how long steps take on some cores, of which others may want some; for tests in virtual time."""

import random
from collections.abc import Sequence

from arriero.core.option_kinds import Threads
from arriero.costmodel.calibrated import CalibratedCost
from arriero.costmodel.passes import AnyRow, split

CROWDED = 8.0
"""How many times as long a pass takes whose threads have to share a core: each waits for the last at every barrier."""


class Machine:
    """A machine that is as fast as its cost model says, unless its cores are wanted by others.

    Attributes:
        busy: cores that others use.
        crowded: how many times as long a pass takes whose threads have to share a core.
        slowdown: how many times as long everything takes, whatever the threads, as beside somebody who uses the
            memory's bandwidth.
    """

    def __init__(self, cost: CalibratedCost, *, cores: int, noise: float = 0.0, seed: int = 1) -> None:
        """Start quiet; `noise` is the standard deviation of a step's logarithm."""
        self.busy = 0
        self.crowded = CROWDED
        self.slowdown = 1.0
        self._cost = cost
        self._cores = cores
        self._noise = noise
        self._chance = random.Random(seed)

    def decode_time(self, rows: Sequence[AnyRow], threads: Threads, *, pool: int = 0) -> int:
        """Microseconds of a decode call."""
        total = 0.0
        for one in split(rows, self._cost.rules, pool=pool):
            number = threads.decode if one.rows == 1 else threads.prefill
            crowding = self.crowded if number > self._cores - self.busy else 1.0
            total += self._cost.passes[number].time(one) * crowding
        return max(1, round(total * self.slowdown * self._chance.lognormvariate(0.0, self._noise)))
