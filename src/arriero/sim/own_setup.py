"""From a configuration of arriero's own mode to what its scheduler is built from.

what the published lab does                     what is composed here
a long prompt ends the run                      prompts are cut, or that one is rejected
what can never fit waits until the run stalls   rejected on arrival
a decode without room waits                     the most recently admitted one yields and is computed anew
chain heads are evicted first                   leaves first, and nothing unreachable is kept
one cost model for each mode                    one for all, or one that was measured
"""

from collections.abc import Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import Final, assert_never

from msgspec import UnsetType

from arriero.core.config import SessionReuse
from arriero.costmodel.calibrated import CalibratedCost
from arriero.costmodel.models import RoundedMicroseconds
from arriero.kv.block_figures import LEAF_FIRST
from arriero.kv.reuse import ReuseRules, least_match
from arriero.record.journal_setup import (
    BlocksSetup,
    ByArrivalSetup,
    CellsSetup,
    DecodeFirstSetup,
    FollowingSetup,
    HolesSetup,
    IdsSetup,
    InOrderSetup,
    LeadersFirstSetup,
    LimitsSetup,
    LowestFirstSetup,
    MemorySetup,
    PlacesSetup,
    PlannerSetup,
    PoolFits,
    RequestIdsSetup,
    ReuseFirstSetup,
    ReuseSetup,
    RulesSetup,
    Setup,
    StartsSetup,
    StartWord,
    TargetSetup,
    WholePromptsSetup,
    policy_setup,
)
from arriero.record.simulation_config import Blocks, Cells, Reuse, SimulationConfig, Slots
from arriero.scheduler.holes import Closed
from arriero.scheduler.starts import MAX_FOLLOWERS, MAX_OVERTAKES, MIN_ROWS
from arriero.scheduler.step_target import LEAST_ROWS
from arriero.sim.user_policy import policy_spec

_START_RULES: Final[Mapping[str, StartWord]] = MappingProxyType({
    "continuous": "continuous", "all-slots-free": "all_slots_free", "one-at-a-time": "one_at_a_time",
})  # fmt: skip


def own_setup(config: SimulationConfig) -> Setup:
    """What the scheduler is built from."""
    limits, blocks = config.limits, config.kv if isinstance(config.kv, Blocks) else None
    return Setup(
        kv=_memory(config),
        ids=_ids(config),
        planner=_planner(config),
        policy=policy_setup(policy_spec(config.policy, config.ageing).described()),
        limits=_limits(config),
        rules=RulesSetup(
            start=_START_RULES[config.start_rule],
            most_running=limits.sequences if isinstance(config.kv, Cells) and config.kv.retained else None,
            holes=_holes(config),
            fits=PoolFits(
                num_blocks=None if blocks is None else blocks.total_blocks,
                block_size=None if blocks is None else blocks.block_size,
                longest_prompt=None if limits.chunked_prefill else limits.rows,
            ),
            names_deferred=config.trace == "full",
        ),
    )


def new_cost(config: SimulationConfig) -> RoundedMicroseconds | CalibratedCost:
    """The cost model.

    Raises:
        ConfigError: the configuration names a profile that was never read.
    """
    return config.cost.model()


def _limits(config: SimulationConfig) -> LimitsSetup:
    limits, calibrated = config.limits, config.cost.calibrated
    target: TargetSetup | None = None
    if not isinstance(limits.itl_target_ms, UnsetType):
        target = TargetSetup(limit=round(limits.itl_target_ms * 1000), least_rows=LEAST_ROWS)
    return LimitsSetup(
        num_rows=limits.rows,
        prefill_rows_per_seq=limits.prefill_rows_per_seq,
        prefill_rows_per_step=limits.prefill_rows_per_step,
        headroom_per_sequence=config.kv.headroom_per_sequence if isinstance(config.kv, Cells) else 0,
        cost=None if isinstance(calibrated, UnsetType) else calibrated,
        target=target,
    )


def _memory(config: SimulationConfig) -> MemorySetup:
    num_sequences = config.limits.sequences
    match config.kv:
        case Cells() as cells:
            return CellsSetup(
                num_sequences=num_sequences + cells.retained,
                num_cells=cells.num_cells,
                sequence_limit=cells.limit_of(num_sequences),
                unified=cells.layout == "unified",
                reuse=None if cells.reuse is None else ReuseSetup(**asdict(reuse_rules(cells, cells.reuse))),
            )
        case Blocks() as blocks:
            return BlocksSetup(
                num_blocks=blocks.total_blocks,
                block_size=blocks.block_size,
                is_cached=blocks.prefix_cache,
                release_refreshes=LEAF_FIRST.release_refreshes,
                deepest_first=LEAF_FIRST.deepest_first,
                has_heirs=LEAF_FIRST.has_heirs,
                shares_at_once=blocks.share_within_step,
                num_sequences=num_sequences,
            )
        case Slots():
            return PlacesSetup(num_sequences=num_sequences)
        case _:
            assert_never(config.kv)


def _ids(config: SimulationConfig) -> IdsSetup:
    return RequestIdsSetup() if isinstance(config.kv, Blocks) else LowestFirstSetup()


def _planner(config: SimulationConfig) -> PlannerSetup:
    is_decode_first = config.planner == "decode-first"
    shares = isinstance(config.kv, Blocks) and config.kv.share_within_step
    if config.limits.chunked_prefill and is_decode_first:
        return LeadersFirstSetup() if shares else DecodeFirstSetup(starts=_starts(config))
    if config.limits.chunked_prefill:
        return ByArrivalSetup()
    return WholePromptsSetup(
        order="decodes_then_prompts" if is_decode_first else "arrival_order", fewest_rows=0, oversized=False
    )


def reuse_rules(cells: Cells, reuse: Reuse) -> ReuseRules:
    """The rules that a server has with the same words."""
    session = SessionReuse(reuse.session_reuse)
    return ReuseRules(
        per_session=session is not SessionReuse.OFF,
        partial=session is not SessionReuse.EXACT,
        min_partial=least_match(session, reuse.lcp_min_tokens, unified=cells.layout == "unified"),
        regenerate=reuse.reuse_regenerate,
        keeps_answers=reuse.keeps_answers,
        min_suffix=1 if reuse.keeps_answers else 2,
        max_age=reuse.retained_ttl_us,
        host_tokens=reuse.host_tokens,
        follows=reuse.follows and session is SessionReuse.OFF,
    )


def _starts(config: SimulationConfig) -> StartsSetup:
    """Who waits for whom, as in a server with the same words."""
    reuse = config.kv.reuse if isinstance(config.kv, Cells) else None
    if reuse is None:
        return InOrderSetup()
    if reuse.session_reuse != "off":
        return ReuseFirstSetup(max_overtakes=MAX_OVERTAKES)
    return FollowingSetup(min_rows=MIN_ROWS, max_followers=MAX_FOLLOWERS) if reuse.follows else InOrderSetup()


def _holes(config: SimulationConfig) -> HolesSetup | None:
    """Holes between ids are closed where each has a stream of its own, and prefixes are reused."""
    if not isinstance(config.kv, Cells) or config.kv.layout == "unified" or config.kv.reuse is None:
        return None
    rule = Closed()
    return HolesSetup(
        break_cost=rule.break_cost, move_cost=rule.move_cost, token_cost=rule.token_cost, horizon=rule.horizon
    )
