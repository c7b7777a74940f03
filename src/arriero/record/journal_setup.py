"""What a journal says about the scheduler: everything that it takes to build the same one again.

Each class names the class of the scheduler's part; a new kind of part is a new class in the union of its place.
"""

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

Count = Annotated[int, Meta(ge=0)]


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """An object with a kind."""


class CellsSetup(Part, frozen=True, kw_only=True, tag="cells"):
    """`kv.cells.CellManager`."""

    num_cells: Count
    num_sequences: Annotated[int, Meta(ge=1)]
    sequence_limit: Count
    unified: bool


class LowestFirstSetup(Part, frozen=True, kw_only=True, tag="lowest_first"):
    """`kv.sequence_ids.LowestFirst`."""


class PooledSetup(Part, frozen=True, kw_only=True, tag="pooled"):
    """`kv.sequence_ids.PooledIds`."""

    num_preloaded: Count
    reuse_completed: bool


class DecodeFirstSetup(Part, frozen=True, kw_only=True, tag="decode_first"):
    """`scheduler.planners.DecodeFirst`."""


class PhasesApartSetup(Part, frozen=True, kw_only=True, tag="phases_apart"):
    """`scheduler.planners.PhasesApart`."""

    max_chunk: Count


class FirstComeSetup(Part, frozen=True, kw_only=True, tag="first_come_first_served"):
    """`scheduler.policies.FirstComeFirstServed`."""


class LimitsSetup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`scheduler.scheduler.SchedulerLimits`; a cap of null is none."""

    num_rows: Count
    prefill_rows_per_seq: Count | None
    prefill_rows_per_step: Count | None
    headroom_per_sequence: Count


IdsSetup: TypeAlias = LowestFirstSetup | PooledSetup
PlannerSetup: TypeAlias = DecodeFirstSetup | PhasesApartSetup


class Setup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that a scheduler is built from."""

    kv: CellsSetup
    ids: IdsSetup
    planner: PlannerSetup
    policy: FirstComeSetup
    limits: LimitsSetup
