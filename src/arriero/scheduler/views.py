"""What others may see of a scheduler, between two of its verbs."""

from dataclasses import dataclass

from arriero.core.ids import StepNumber
from arriero.kv.protocol import KvManager, KvUsage
from arriero.kv.reuse import ReuseFigures
from arriero.scheduler.cancels import CancelCounts
from arriero.scheduler.progress import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSnapshot:
    """Frozen figures of one moment.

    Attributes:
        num_deferred_prefix: those of the waiting that waited, at the last plan, for a prefix that another prompt was
            computing.
        reuse: None where nothing is ever reused.
        reuse_overtakes: requests that started before an older one, since a run of their conversation was there.
    """

    step: StepNumber
    num_waiting: int
    num_running: int
    kv: KvUsage
    cancels: CancelCounts
    num_early_cancels: int
    num_deferred_prefix: int = 0
    reuse: ReuseFigures | None = None
    reuse_overtakes: int = 0


@dataclass(frozen=True, slots=True)
class SchedulerView:
    """The live parts, for `check_scheduler`; nobody else may hold on to them."""

    kv: KvManager
    alive: tuple[Progress, ...]
    running: tuple[Progress, ...]
    waiting: tuple[Progress, ...]
