"""What a scheduler is told: how much a step may take, and what a request is taken to be."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from arriero.core.request import Request
from arriero.kv.reuse import ReuseRules
from arriero.scheduler.admission import Continuous, FitCheck, StartRule, check_fits
from arriero.scheduler.draft import UNMETERED, PrefillBudget
from arriero.scheduler.holes import Holes
from arriero.scheduler.progress import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerLimits:
    """What a step may take.

    Attributes:
        num_rows: rows of one batch; at least the number of requests that may run at once, so that every decoder always
            has its row.
        budget: prompt rows of one step.
        headroom_per_sequence: cells that must stay free for each running request when another one starts.
        num_sequences: sequences of one step, where that is less than may run at once.
    """

    num_rows: int
    budget: PrefillBudget = UNMETERED
    headroom_per_sequence: int = 8
    num_sequences: int = sys.maxsize


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
    """

    fits: FitCheck = check_fits
    start: StartRule = field(default_factory=Continuous)
    progress: Callable[[Request, tuple[int | float, ...]], Progress] = Progress
    names_deferred: bool = False
    reuse: ReuseRules | None = None
    holes: Holes | None = None


LIVE_RULES = SchedulerRules()
