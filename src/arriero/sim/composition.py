"""From a setup, as it stands in a journal, to a scheduler; runs of the simulator are built by the same functions."""

import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final, TypeAlias, assert_never

from msgspec import structs

from arriero.core.errors import BadJournal, ConfigError, DataError
from arriero.core.request import Request
from arriero.kv.block_figures import CacheRules
from arriero.kv.blocks import BlockManager
from arriero.kv.cells import CellLayout, CellManager
from arriero.kv.places import PlaceManager
from arriero.kv.reuse import ReuseRules
from arriero.kv.sequence_ids import LowestFirst, PooledIds, SequenceIds
from arriero.prefix.content import ContentIndex
from arriero.record.cost_parts import cost_from
from arriero.record.journal_setup import (
    AnythingFits,
    BlocksSetup,
    ByArrivalSetup,
    BySlotSetup,
    CallsApartSetup,
    CellsSetup,
    DecodeFirstSetup,
    FitsSetup,
    FollowingSetup,
    HolesSetup,
    InOrderSetup,
    LeadersFirstSetup,
    LimitsSetup,
    LowestFirstSetup,
    PhasesApartSetup,
    PlacesSetup,
    PlannerSetup,
    PooledSetup,
    PoolFits,
    RequestIdsSetup,
    ReuseFirstSetup,
    ReuseSetup,
    SequenceFits,
    Setup,
    StartsSetup,
    StartWord,
    SwapSetup,
    WholePromptsSetup,
)
from arriero.scheduler.admission import AllSlotsFree, AtMost, Continuous, FitCheck, OneAtATime, StartRule, check_fits
from arriero.scheduler.decode_given import DecodeGiven
from arriero.scheduler.draft import PrefillBudget
from arriero.scheduler.holes import Closed, Holes
from arriero.scheduler.planners import (
    ByArrival,
    BySlot,
    CallsApart,
    DecodeFirst,
    LeadersFirst,
    PhasesApart,
    Planner,
)
from arriero.scheduler.preemption import SwapRule
from arriero.scheduler.progress import Progress
from arriero.scheduler.rules import SchedulerLimits, SchedulerRules
from arriero.scheduler.scheduler import Scheduler
from arriero.scheduler.starts import Following, InOrder, ReuseFirst, Starts
from arriero.scheduler.step_target import StepTarget
from arriero.scheduler.whole_prompts import ArrivalOrder, DecodesThenPrompts, PromptBounds
from arriero.sim.fits import PoolCheck, anything_fits
from arriero.sim.policies import build_policy

Memory: TypeAlias = CellManager | BlockManager | PlaceManager

_STARTS: Final[Mapping[StartWord, Callable[[], StartRule]]] = MappingProxyType({
    "continuous": Continuous, "all_slots_free": AllSlotsFree, "one_at_a_time": OneAtATime,
})  # fmt: skip
_PLAIN_PLANNERS: Final[Mapping[type[PlannerSetup], Callable[[], Planner]]] = MappingProxyType({
    LeadersFirstSetup: LeadersFirst,
    ByArrivalSetup: ByArrival,
    BySlotSetup: BySlot,
    CallsApartSetup: CallsApart,
})
"""Those without numbers of their own."""

NewProgress: TypeAlias = Callable[[Request, tuple[int | float, ...]], Progress]


def recorded_scheduler(setup: Setup, memory: Memory, progress: NewProgress) -> Scheduler:
    """A fresh scheduler, as the setup in a journal says.

    Args:
        setup: of the journal.
        memory: of `recorded_memory`.
        progress: makes the progress of requests whose tokens are said; where they are only counted, it is not asked.

    Raises:
        BadJournal: the parts do not go together.
    """
    with _as_bad_journal():
        return build_scheduler(setup, memory, progress)


def recorded_memory(setup: Setup) -> Memory:
    """A fresh memory, as the setup in a journal says.

    Raises:
        BadJournal: the parts do not go together.
    """
    with _as_bad_journal():
        return build_memory(setup)


@contextmanager
def _as_bad_journal() -> Generator[None]:
    try:
        yield
    except (ConfigError, DataError) as error:
        raise BadJournal(f"no scheduler can be built from setup: {error}", field="setup") from None


def build_scheduler(setup: Setup, memory: Memory | None = None, progress: NewProgress = Progress) -> Scheduler:
    """A fresh scheduler over a memory of this setup, which is made unless it is given.

    Raises:
        ConfigError: the parts do not go together.
    """
    return Scheduler(
        kv=build_memory(setup) if memory is None else memory,
        planner=_planner(setup.planner),
        policy=build_policy(setup.policy),
        limits=_limits(setup.limits),
        rules=_rules(setup, progress),
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
            ids = _ids(setup, kv.num_sequences)
            return CellManager(layout, ids, reuse=_reuse(kv.reuse), swap_tokens=kv.swap_tokens)
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


def _limits(limits: LimitsSetup) -> SchedulerLimits:
    cost = None if limits.cost is None else cost_from(limits.cost)
    within: StepTarget | None = None
    if limits.target is not None:
        if cost is None:
            raise ConfigError("limits have a target and no cost; give both")
        within = StepTarget(limit=limits.target.limit, cost=cost, least_rows=limits.target.least_rows)
    return SchedulerLimits(
        num_rows=limits.num_rows,
        budget=PrefillBudget(limits.prefill_rows_per_seq, limits.prefill_rows_per_step, within),
        headroom_per_sequence=limits.headroom_per_sequence,
        num_sequences=sys.maxsize if limits.num_sequences is None else limits.num_sequences,
        cost=cost,
    )


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
        case DecodeFirstSetup(starts=starts):
            return DecodeFirst(_starts(starts))
        case PhasesApartSetup(max_chunk=max_chunk, starts=starts):
            return PhasesApart(max_chunk=max_chunk, starts=_starts(starts))
        case WholePromptsSetup(order=order, fewest_rows=fewest_rows, oversized=oversized):
            bounds = PromptBounds(fewest_rows=fewest_rows, oversized=oversized)
            return ArrivalOrder(bounds) if order == "arrival_order" else DecodesThenPrompts(bounds)
        case _:
            return _PLAIN_PLANNERS[type(setup)]()


def _starts(setup: StartsSetup) -> Starts:
    match setup:
        case InOrderSetup():
            return InOrder()
        case FollowingSetup(min_rows=min_rows, max_followers=max_followers):
            return Following(min_rows=min_rows, max_followers=max_followers)
        case ReuseFirstSetup(max_overtakes=max_overtakes):
            return ReuseFirst(max_overtakes)
        case _:
            assert_never(setup)


def _rules(setup: Setup, progress: NewProgress) -> SchedulerRules:
    rules = setup.rules
    return SchedulerRules(
        fits=_fits(rules.fits),
        start=_STARTS[rules.start]() if rules.most_running is None else AtMost(rules.most_running),
        progress=DecodeGiven if rules.progress == "decode_given" else progress,
        names_deferred=rules.names_deferred,
        reuse=_reuse(setup.kv.reuse) if isinstance(setup.kv, CellsSetup) else None,
        holes=_holes(rules.holes),
        swap=_swap(rules.swap),
        displaces=rules.displaces,
    )


def _reuse(setup: ReuseSetup | None) -> ReuseRules | None:
    return None if setup is None else ReuseRules(**structs.asdict(setup))


def _holes(setup: HolesSetup | None) -> Holes | None:
    return None if setup is None else Closed(**structs.asdict(setup))


def _swap(setup: SwapSetup | None) -> SwapRule | None:
    return None if setup is None else SwapRule(**structs.asdict(setup))


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
