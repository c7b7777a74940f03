"""What a scheduler is told: how much a step may take, and what a request is taken to be."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from arriero.core.errors import ConfigError
from arriero.core.request import Request
from arriero.costmodel.calibrated import CalibratedCost
from arriero.costmodel.change import CostChange
from arriero.kv.reuse import ReuseRules
from arriero.scheduler.admission import Continuous, FitCheck, StartRule, check_fits
from arriero.scheduler.draft import UNMETERED, PrefillBudget
from arriero.scheduler.holes import Holes
from arriero.scheduler.preemption import SwapRule
from arriero.scheduler.progress import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerLimits:
    """What a step may take.

    Attributes:
        num_rows: rows of one batch; at least the number of requests that may run at once, so that every decoder always
            has its row.
        budget: what prompts may take of one step.
        headroom_per_sequence: cells that must stay free for each running request when another one starts.
        num_sequences: sequences of one step, where that is less than may run at once.
        cost: what steps take; None: what the budget's target says, or nobody knows.
    """

    num_rows: int
    budget: PrefillBudget = UNMETERED
    headroom_per_sequence: int = 8
    num_sequences: int = sys.maxsize
    cost: CalibratedCost | None = None

    def __post_init__(self) -> None:
        """Take the costs of the target, and refuse two opinions about what a step takes.

        Raises:
            ConfigError: the target's costs are others than these.
        """
        within = self.budget.within
        if within is None:
            return
        if self.cost is None:
            object.__setattr__(self, "cost", within.cost)
        elif within.cost != self.cost:
            raise ConfigError("an ITL target plans with other costs than its scheduler; give both the same")

    def changed(self, change: CostChange) -> "SchedulerLimits":
        """The same limits on a machine that has changed.

        Raises:
            ConfigError: nobody said what steps take, or the change names threads that were not measured.
        """
        if self.cost is None:
            raise ConfigError("costs change where there are none; give the scheduler its limits with a cost")
        cost, within = self.cost.changed(change), self.budget.within
        if within is None:
            return replace(self, cost=cost)
        return replace(self, cost=cost, budget=replace(self.budget, within=replace(within, cost=cost)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerRules:
    """What a request is taken to be; the defaults are those of a live engine without prefix reuse.

    Attributes:
        fits: refuses requests that can never run.
        start: when a waiting request may take a slot.
        progress: makes the mutable half of a request, and so decides which step gives the first token.
        names_deferred: whether plans list who was not taken, beside the counts.
        reuse: the rules that the KV manager was made with; they say whose tokens it is offered at the end.
        holes: when a running request moves to a lower sequence id; None: never.
        swap: whether the KV of a request that yields is kept outside for it; None: it is computed again.
        displaces: whether a request that ranks before one that runs takes its slot, under policies that go by rank.
    """

    fits: FitCheck = check_fits
    start: StartRule = field(default_factory=Continuous)
    progress: Callable[[Request, tuple[int | float, ...]], Progress] = Progress
    names_deferred: bool = False
    reuse: ReuseRules | None = None
    holes: Holes | None = None
    swap: SwapRule | None = None
    displaces: bool = False


LIVE_RULES = SchedulerRules()
