"""CostChange: what calibrated costs have become on a machine that serves: factors on them, and the threads in use.

A small value that is sent, recorded and repeated. Its factors are those of the calibrated costs, whatever changes came
before, so the latest change says everything.
"""

from dataclasses import dataclass
from math import exp, inf, log
from typing import NamedTuple

from arriero.core.errors import ConfigError
from arriero.core.option_kinds import Threads
from arriero.costmodel.terms import TermGroup


class GroupFactors(NamedTuple):
    """What the costs at one number of threads are multiplied with, by group of terms.

    Attributes:
        threads: that compute.
        fixed, rows, attention: above 0; see `TermGroup`.
    """

    threads: int
    fixed: float = 1.0
    rows: float = 1.0
    attention: float = 1.0

    @property
    def by_group(self) -> dict[TermGroup, float]:
        """The same, by group."""
        return {TermGroup.FIXED: self.fixed, TermGroup.ROWS: self.rows, TermGroup.ATTENTION: self.attention}


@dataclass(frozen=True, slots=True, kw_only=True)
class CostChange:
    """What becomes of a `CalibratedCost`.

    Attributes:
        threads: that compute from now on.
        factors: at most one for each number of threads; the others keep their calibrated costs.
        host: what the host's costs are multiplied with; above 0.
        spread: the new `CalibratedCost.spread`; at least 0.
    """

    threads: Threads
    factors: tuple[GroupFactors, ...] = ()
    host: float = 1.0
    spread: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what is no factor.

        Raises:
            ConfigError: names it.
        """
        numbers = [each.threads for each in self.factors]
        if len(set(numbers)) != len(numbers):
            raise ConfigError("a change of costs has two sets of factors for one number of threads; leave one out")
        every = [self.host, *(factor for each in self.factors for factor in each[1:])]
        if not all(0 < factor < inf for factor in every) or not 0 <= self.spread < inf:
            raise ConfigError("a change of costs needs factors above 0 and a spread of at least 0")

    def moved_from(self, other: "CostChange") -> float:
        """By which part of itself the factor changed that changed most; infinite where other threads compute."""
        if self.threads != other.threads:
            return inf
        ours, theirs = _numbers(self), _numbers(other)
        changes = [abs(log(ours.get(name, 1.0) / theirs.get(name, 1.0))) for name in {**ours, **theirs}]
        return exp(max(changes)) - 1


def _numbers(change: CostChange) -> dict[tuple[int, str], float]:
    """Every factor by its name; what a promise has to allow for is one of them."""
    found = {(0, "host"): change.host, (0, "spread"): 1 + change.spread}
    for each in change.factors:
        found |= {(each.threads, str(group)): factor for group, factor in each.by_group.items()}
    return found
