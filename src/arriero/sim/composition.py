"""From a setup, as it stands in a journal, to a scheduler; runs of the simulator are built by the same functions."""

import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias, assert_never

from arriero.core.errors import BadJournal, ConfigError
from arriero.kv.block_figures import CacheRules
from arriero.kv.blocks import BlockManager
from arriero.kv.cells import CellLayout, CellManager
from arriero.kv.places import PlaceManager
from arriero.kv.sequence_ids import LowestFirst, PooledIds, SequenceIds
from arriero.prefix.content import ContentIndex
from arriero.record.journal_setup import (
    AnythingFits,
    BlocksSetup,
    ByArrivalSetup,
    BySlotSetup,
    CallsApartSetup,
    CellsSetup,
    DecodeFirstSetup,
    FirstComeSetup,
    FitsSetup,
    LeadersFirstSetup,
    LowestFirstSetup,
    NobodyYieldsSetup,
    PhasesApartSetup,
    PlacesSetup,
    PlannerSetup,
    PolicySetup,
    PooledSetup,
    PoolFits,
    RequestIdsSetup,
    RulesSetup,
    SequenceFits,
    Setup,
    StartWord,
    WholePromptsSetup,
)
from arriero.scheduler.admission import AllSlotsFree, Continuous, FitCheck, OneAtATime, StartRule, check_fits
from arriero.scheduler.decode_given import DecodeGiven
from arriero.scheduler.draft import PrefillBudget
from arriero.scheduler.planners import (
    ByArrival,
    BySlot,
    CallsApart,
    DecodeFirst,
    LeadersFirst,
    PhasesApart,
    Planner,
)
from arriero.scheduler.policies import FirstComeFirstServed, NobodyYields, Policy
from arriero.scheduler.progress import Progress
from arriero.scheduler.scheduler import Scheduler, SchedulerLimits, SchedulerRules
from arriero.scheduler.whole_prompts import ArrivalOrder, DecodesThenPrompts, PromptBounds
from arriero.sim.fits import PoolCheck, anything_fits

Memory: TypeAlias = CellManager | BlockManager | PlaceManager

_STARTS: Final[Mapping[StartWord, Callable[[], StartRule]]] = MappingProxyType({
    "continuous": Continuous, "all_slots_free": AllSlotsFree, "one_at_a_time": OneAtATime,
})  # fmt: skip
_PLAIN_PLANNERS: Final[Mapping[type[PlannerSetup], Callable[[], Planner]]] = MappingProxyType({
    DecodeFirstSetup: DecodeFirst,
    LeadersFirstSetup: LeadersFirst,
    ByArrivalSetup: ByArrival,
    BySlotSetup: BySlot,
    CallsApartSetup: CallsApart,
})
"""Those without numbers of their own."""
_PROGRESS: Final = MappingProxyType({"engine": Progress, "decode_given": DecodeGiven})


def recorded_scheduler(setup: Setup) -> Scheduler:
    """A fresh scheduler, as the setup in a journal says.

    Raises:
        BadJournal: the parts do not go together.
    """
    try:
        return build_scheduler(setup)
    except ConfigError as error:
        raise BadJournal(f"no scheduler can be built from setup: {error}", field="setup") from None


def build_scheduler(setup: Setup, memory: Memory | None = None) -> Scheduler:
    """A fresh scheduler over a memory of this setup, which is made unless it is given.

    Raises:
        ConfigError: the parts do not go together.
    """
    limits = setup.limits
    return Scheduler(
        kv=build_memory(setup) if memory is None else memory,
        planner=_planner(setup.planner),
        policy=_policy(setup.policy),
        limits=SchedulerLimits(
            num_rows=limits.num_rows,
            budget=PrefillBudget(limits.prefill_rows_per_seq, limits.prefill_rows_per_step),
            headroom_per_sequence=limits.headroom_per_sequence,
            num_sequences=sys.maxsize if limits.num_sequences is None else limits.num_sequences,
        ),
        rules=_rules(setup.rules),
    )


def build_memory(setup: Setup) -> Memory:
    """A fresh memory.

    Raises:
        ConfigError: the parts do not go together.
    """
    has_request_ids = isinstance(setup.ids, RequestIdsSetup)
    if has_request_ids != isinstance(setup.kv, BlocksSetup):
        raise ConfigError("sequences have the ids of their requests in blocks, and nowhere else")
    match setup.kv:
        case CellsSetup() as kv:
            layout = CellLayout(
                num_sequences=kv.num_sequences,
                num_cells=kv.num_cells,
                sequence_limit=kv.sequence_limit,
                unified=kv.unified,
            )
            return CellManager(layout, _ids(setup, kv.num_sequences))
        case BlocksSetup() as kv:
            return _blocks(kv)
        case PlacesSetup(num_sequences=num_sequences):
            if not isinstance(setup.ids, LowestFirstSetup):
                raise ConfigError("places are handed out lowest first")
            return PlaceManager(num_sequences)
        case _:
            assert_never(setup.kv)


def num_sequence_ids(setup: Setup) -> int:
    """Sequence ids are below this."""
    return sys.maxsize if isinstance(setup.kv, BlocksSetup) else setup.kv.num_sequences


def _blocks(kv: BlocksSetup) -> BlockManager:
    return BlockManager(
        kv.num_blocks,
        kv.block_size,
        index=ContentIndex(kv.block_size) if kv.is_cached else None,
        rules=CacheRules(
            release_refreshes=kv.release_refreshes,
            deepest_first=kv.deepest_first,
            has_heirs=kv.has_heirs,
            shares_at_once=kv.shares_at_once,
        ),
        num_sequences=sys.maxsize if kv.num_sequences is None else kv.num_sequences,
    )


def _ids(setup: Setup, num_sequences: int) -> SequenceIds:
    match setup.ids:
        case LowestFirstSetup() | RequestIdsSetup():
            return LowestFirst(num_sequences)
        case PooledSetup(num_preloaded=num_preloaded, reuse_completed=reuse_completed):
            if num_preloaded > num_sequences:
                raise ConfigError(f"{num_preloaded} preloaded requests on {num_sequences} sequences")
            return PooledIds(num_sequences, num_preloaded=num_preloaded, reuse_completed=reuse_completed)
        case _:
            assert_never(setup.ids)


def _planner(setup: PlannerSetup) -> Planner:
    match setup:
        case PhasesApartSetup(max_chunk=max_chunk):
            return PhasesApart(max_chunk=max_chunk)
        case WholePromptsSetup(order=order, fewest_rows=fewest_rows, oversized=oversized):
            bounds = PromptBounds(fewest_rows=fewest_rows, oversized=oversized)
            return ArrivalOrder(bounds) if order == "arrival_order" else DecodesThenPrompts(bounds)
        case _:
            return _PLAIN_PLANNERS[type(setup)]()


def _policy(setup: PolicySetup) -> Policy:
    match setup:
        case FirstComeSetup():
            return FirstComeFirstServed()
        case NobodyYieldsSetup():
            return NobodyYields()
        case _:
            assert_never(setup)


def _rules(setup: RulesSetup) -> SchedulerRules:
    return SchedulerRules(
        fits=_fits(setup.fits),
        start=_STARTS[setup.start](),
        progress=_PROGRESS[setup.progress],
        names_deferred=setup.names_deferred,
    )


def _fits(setup: FitsSetup) -> FitCheck:
    match setup:
        case SequenceFits():
            return check_fits
        case AnythingFits():
            return anything_fits
        case PoolFits(num_blocks=num_blocks, block_size=block_size, longest_prompt=longest_prompt):
            return PoolCheck(num_blocks=num_blocks, block_size=block_size, longest_prompt=longest_prompt)
        case _:
            assert_never(setup)
