"""What a journal says about the scheduler: everything that it takes to build the same one again.

Each class names the class of the scheduler's part; a new kind of part is a new class in the union of its place. What
only simulations have is left out of a line where it is as in the live engine.
"""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from arriero.record.cost_parts import CostSetup

Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """An object with a kind."""


# ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class ReuseSetup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`kv.reuse.ReuseRules`."""

    per_session: bool
    partial: bool
    min_partial: Positive
    regenerate: bool
    keeps_answers: bool
    min_suffix: Positive
    max_retained: Count | None
    max_age: int | float | None
    host_tokens: Count
    min_restored: Positive
    follows: bool


class CellsSetup(Part, frozen=True, kw_only=True, tag="cells", omit_defaults=True):
    """`kv.cells.CellManager`.

    Attributes:
        reuse: None where no prefix is reused.
        swap_tokens: room outside for what preempted requests have computed.
    """

    num_cells: Count
    num_sequences: Positive
    sequence_limit: Count
    unified: bool
    reuse: ReuseSetup | None = None
    swap_tokens: Count = 0


class BlocksSetup(Part, frozen=True, kw_only=True, tag="blocks", omit_defaults=True):
    """`kv.blocks.BlockManager`, with `prefix.content.ContentIndex` or without an index.

    Attributes:
        num_sequences: that are held at once; None for no bound.
        release_refreshes, deepest_first, has_heirs, shares_at_once: `kv.block_figures.CacheRules`.
    """

    num_blocks: Positive
    block_size: Positive
    is_cached: bool
    release_refreshes: bool
    deepest_first: bool
    has_heirs: bool
    shares_at_once: bool
    num_sequences: Positive | None = None


class PlacesSetup(Part, frozen=True, kw_only=True, tag="places"):
    """`kv.places.PlaceManager`."""

    num_sequences: Positive


class LowestFirstSetup(Part, frozen=True, kw_only=True, tag="lowest_first"):
    """`kv.sequence_ids.LowestFirst`."""


class PooledSetup(Part, frozen=True, kw_only=True, tag="pooled"):
    """`kv.sequence_ids.PooledIds`."""

    num_preloaded: Count
    reuse_completed: bool


class RequestIdsSetup(Part, frozen=True, kw_only=True, tag="request_ids"):
    """A sequence has the id of its request, as in `kv.blocks.BlockManager`."""


# ── starts ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class InOrderSetup(Part, frozen=True, kw_only=True, tag="in_order"):
    """`scheduler.starts.InOrder`."""


class FollowingSetup(Part, frozen=True, kw_only=True, tag="following"):
    """`scheduler.starts.Following`."""

    min_rows: Positive
    max_followers: Positive


class ReuseFirstSetup(Part, frozen=True, kw_only=True, tag="reuse_first"):
    """`scheduler.starts.ReuseFirst`."""

    max_overtakes: Count


StartsSetup: TypeAlias = InOrderSetup | FollowingSetup | ReuseFirstSetup


# ── planners ────────────────────────────────────────────────────────────────────────────────────────────────────────


class DecodeFirstSetup(Part, frozen=True, kw_only=True, tag="decode_first", omit_defaults=True):
    """`scheduler.planners.DecodeFirst`."""

    starts: StartsSetup = InOrderSetup()


class LeadersFirstSetup(Part, frozen=True, kw_only=True, tag="leaders_first"):
    """`scheduler.planners.LeadersFirst`."""


class ByArrivalSetup(Part, frozen=True, kw_only=True, tag="by_arrival"):
    """`scheduler.planners.ByArrival`."""


class BySlotSetup(Part, frozen=True, kw_only=True, tag="by_slot"):
    """`scheduler.planners.BySlot`."""


class CallsApartSetup(Part, frozen=True, kw_only=True, tag="calls_apart"):
    """`scheduler.planners.CallsApart`."""


class PhasesApartSetup(Part, frozen=True, kw_only=True, tag="phases_apart", omit_defaults=True):
    """`scheduler.planners.PhasesApart`."""

    max_chunk: Count
    starts: StartsSetup = InOrderSetup()


class WholePromptsSetup(Part, frozen=True, kw_only=True, tag="whole_prompts"):
    """A planner of `scheduler.whole_prompts`, and its `PromptBounds`."""

    order: Literal["decodes_then_prompts", "arrival_order"]
    fewest_rows: Count
    oversized: bool


# ── policies, rules, limits ─────────────────────────────────────────────────────────────────────────────────────────


class FirstComeSetup(Part, frozen=True, kw_only=True, tag="first_come_first_served"):
    """`scheduler.policies.FirstComeFirstServed`."""


class NobodyYieldsSetup(Part, frozen=True, kw_only=True, tag="nobody_yields"):
    """`scheduler.policies.NobodyYields`."""


class PrioritySetup(Part, frozen=True, kw_only=True, tag="priority"):
    """`scheduler.ranked.Priority`."""

    ageing: int | float


class ShortestPrefillSetup(Part, frozen=True, kw_only=True, tag="shortest_prefill"):
    """`scheduler.ranked.ShortestPrefill`."""

    token_time: int | float


class EarliestDeadlineSetup(Part, frozen=True, kw_only=True, tag="earliest_deadline"):
    """`scheduler.ranked.EarliestDeadline`."""

    patience: int | float


class FairShareSetup(Part, frozen=True, kw_only=True, tag="fair_share"):
    """`scheduler.fair_share.FairShare`."""

    decode_weight: Positive


class LongestMatchSetup(Part, frozen=True, kw_only=True, tag="longest_match"):
    """`scheduler.longest_match.LongestMatch`."""

    window: Positive
    max_overtakes: Count


class OwnPolicySetup(Part, frozen=True, kw_only=True, tag="own"):
    """A class of somebody's own, which a replay loads again.

    Attributes:
        name: `module:Class`.
    """

    name: str


class SequenceFits(Part, frozen=True, kw_only=True, tag="sequence"):
    """`scheduler.admission.check_fits`: what one sequence can hold."""


class AnythingFits(Part, frozen=True, kw_only=True, tag="anything"):
    """`sim.fits.anything_fits`: nobody is refused."""


class PoolFits(Part, frozen=True, kw_only=True, tag="pool"):
    """`sim.fits.PoolCheck`: what one sequence, all blocks and one step can hold.

    Attributes:
        num_blocks, block_size: of the pool; None without one.
        longest_prompt: where prompts are not cut; None where they are.
    """

    num_blocks: Positive | None
    block_size: Positive | None
    longest_prompt: Positive | None


FitsSetup: TypeAlias = SequenceFits | AnythingFits | PoolFits
StartWord: TypeAlias = Literal["continuous", "all_slots_free", "one_at_a_time"]


class HolesSetup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`scheduler.holes.Closed`."""

    break_cost: int | float
    move_cost: int | float
    token_cost: int | float
    horizon: Positive


class SwapSetup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`scheduler.preemption.SwapRule`."""

    row_time: int | float
    answer_row_time: int | float
    token_time: int | float
    swap_time: int | float


class RulesSetup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """`scheduler.rules.SchedulerRules`; the defaults are those of a live engine without prefix reuse.

    Attributes:
        start: a class of `scheduler.admission`.
        most_running: of `scheduler.admission.AtMost`, which is the start rule then; None: the one that `start` names.
        holes: None where nobody moves.
        swap: None where the KV of a request that yields is computed again.
        displaces: whether a request may take the slot of one that ranks behind it.
        progress: `scheduler.progress.Progress` or `scheduler.decode_given.DecodeGiven`.
    """

    start: StartWord = "continuous"
    most_running: Positive | None = None
    holes: HolesSetup | None = None
    swap: SwapSetup | None = None
    displaces: bool = False
    progress: Literal["engine", "decode_given"] = "engine"
    fits: FitsSetup = SequenceFits()
    names_deferred: bool = False


class TargetSetup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`scheduler.step_target.StepTarget` without its costs, which are those of the limits; microseconds."""

    limit: int | float
    least_rows: Positive


class LimitsSetup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """`scheduler.rules.SchedulerLimits`; a cap of null is none.

    Attributes:
        num_sequences: of one step; None for no bound.
        cost: `costmodel.calibrated.CalibratedCost`; None where nobody knows what a step takes.
        target: needs `cost`; None where prompt rows are not bounded by time.
    """

    num_rows: Count
    prefill_rows_per_seq: Count | None
    prefill_rows_per_step: Count | None
    headroom_per_sequence: Count
    num_sequences: Positive | None = None
    cost: CostSetup | None = None
    target: TargetSetup | None = None


MemorySetup: TypeAlias = CellsSetup | BlocksSetup | PlacesSetup
IdsSetup: TypeAlias = LowestFirstSetup | PooledSetup | RequestIdsSetup
PlannerSetup: TypeAlias = (
    DecodeFirstSetup
    | LeadersFirstSetup
    | ByArrivalSetup
    | BySlotSetup
    | CallsApartSetup
    | PhasesApartSetup
    | WholePromptsSetup
)
PolicySetup: TypeAlias = (
    FirstComeSetup
    | NobodyYieldsSetup
    | PrioritySetup
    | ShortestPrefillSetup
    | EarliestDeadlineSetup
    | FairShareSetup
    | LongestMatchSetup
    | OwnPolicySetup
)


class Setup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Everything that a scheduler is built from."""

    kv: MemorySetup
    ids: IdsSetup
    planner: PlannerSetup
    policy: PolicySetup
    limits: LimitsSetup
    rules: RulesSetup = RulesSetup()


def policy_setup(values: Mapping[str, int | float | str]) -> PolicySetup:
    """The part that is said by its kind and its numbers."""
    made: PolicySetup = msgspec.convert(values, PolicySetup)
    return made
