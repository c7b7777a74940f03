"""From the setup in a journal to a scheduler."""

from typing import assert_never

from arriero.core.errors import BadJournal, ConfigError
from arriero.kv.cells import CellLayout, CellManager
from arriero.kv.sequence_ids import LowestFirst, PooledIds, SequenceIds
from arriero.record.journal_setup import (
    DecodeFirstSetup,
    IdsSetup,
    LowestFirstSetup,
    PhasesApartSetup,
    PlannerSetup,
    PooledSetup,
    Setup,
)
from arriero.scheduler.draft import PrefillBudget
from arriero.scheduler.planners import DecodeFirst, PhasesApart, Planner
from arriero.scheduler.policies import FirstComeFirstServed
from arriero.scheduler.scheduler import Scheduler, SchedulerLimits


def build_scheduler(setup: Setup) -> Scheduler:
    """A fresh scheduler, as the setup says.

    Raises:
        BadJournal: the parts do not go together.
    """
    kv, limits = setup.kv, setup.limits
    try:
        layout = CellLayout(
            num_sequences=kv.num_sequences,
            num_cells=kv.num_cells,
            sequence_limit=kv.sequence_limit,
            unified=kv.unified,
        )
        return Scheduler(
            kv=CellManager(layout, _ids(setup.ids, kv.num_sequences)),
            planner=_planner(setup.planner),
            policy=FirstComeFirstServed(),
            limits=SchedulerLimits(
                num_rows=limits.num_rows,
                budget=PrefillBudget(limits.prefill_rows_per_seq, limits.prefill_rows_per_step),
                headroom_per_sequence=limits.headroom_per_sequence,
            ),
        )
    except ConfigError as error:
        raise BadJournal(f"no scheduler can be built from setup: {error}", field="setup") from None


def _ids(setup: IdsSetup, num_sequences: int) -> SequenceIds:
    match setup:
        case LowestFirstSetup():
            return LowestFirst(num_sequences)
        case PooledSetup(num_preloaded=num_preloaded, reuse_completed=reuse_completed):
            if num_preloaded > num_sequences:
                raise ConfigError(f"{num_preloaded} preloaded requests on {num_sequences} sequences")
            return PooledIds(num_sequences, num_preloaded=num_preloaded, reuse_completed=reuse_completed)
        case _:
            assert_never(setup)


def _planner(setup: PlannerSetup) -> Planner:
    match setup:
        case DecodeFirstSetup():
            return DecodeFirst()
        case PhasesApartSetup(max_chunk=max_chunk):
            return PhasesApart(max_chunk=max_chunk)
        case _:
            assert_never(setup)
