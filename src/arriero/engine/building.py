"""Building: from the options of an engine to the scheduler that it runs.

`engine/journal.py` describes the same parts, so that a replay can build them again.
"""

from arriero.backend.protocol import BackendLimits
from arriero.core.events import SavedRun
from arriero.engine.options import EngineOptions, closes_holes, num_running, step_budget
from arriero.kv.cells import CellLayout, CellManager
from arriero.kv.sequence_ids import LowestFirst, PooledIds, SequenceIds
from arriero.scheduler.admission import AtMost, Continuous
from arriero.scheduler.holes import Closed
from arriero.scheduler.planners import DecodeFirst, PhasesApart, Planner
from arriero.scheduler.rules import SchedulerLimits, SchedulerRules
from arriero.scheduler.scheduler import Scheduler
from arriero.scheduler.starts import Following, InOrder, ReuseFirst, Starts


def build_scheduler(
    limits: BackendLimits, options: EngineOptions, num_preloaded: int, saved: tuple[SavedRun, ...] = ()
) -> Scheduler:
    """A fresh scheduler.

    Args:
        limits: of the backend.
        options: of the engine.
        num_preloaded: requests that start with step 0.
        saved: what the host store holds.
    """
    return Scheduler(
        kv=_manager(limits, options, num_preloaded, saved),
        planner=_planner(limits, options),
        policy=options.policy.new(),
        limits=SchedulerLimits(
            num_rows=limits.num_rows,
            budget=step_budget(options),
            cost=options.cost,
            headroom_per_sequence=options.headroom_per_sequence,
        ),
        rules=SchedulerRules(
            start=AtMost(num_running(limits, options)) if options.retained else Continuous(),
            reuse=options.reuse,
            holes=Closed() if closes_holes(limits, options) else None,
            swap=options.swap,
            displaces=options.displaces,
        ),
    )


def _manager(
    limits: BackendLimits, options: EngineOptions, num_preloaded: int, saved: tuple[SavedRun, ...]
) -> CellManager:
    layout = CellLayout(
        num_sequences=limits.num_sequences,
        num_cells=limits.num_cells,
        sequence_limit=limits.sequence_limit,
        unified=limits.unified,
    )
    ids: SequenceIds = LowestFirst(limits.num_sequences)
    if options.published_pools is not None:
        reuse_completed = options.published_pools
        ids = PooledIds(limits.num_sequences, num_preloaded=num_preloaded, reuse_completed=reuse_completed)
    manager = CellManager(layout, ids, reuse=options.reuse, swap_tokens=options.swap_tokens)
    if saved:
        manager.adopt(saved)
    return manager


def _planner(limits: BackendLimits, options: EngineOptions) -> Planner:
    starts = starts_of(options)
    return PhasesApart(max_chunk=limits.micro_batch, starts=starts) if options.exact else DecodeFirst(starts)


def starts_of(options: EngineOptions) -> Starts:
    """How waiting requests are offered."""
    if options.reuse is None:
        return InOrder()
    if options.reuse.per_session:
        return ReuseFirst()
    return Following() if options.reuse.follows else InOrder()
