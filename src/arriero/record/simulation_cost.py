"""StepCost: what a step takes in a simulation, written down or as a calibration found it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from arriero.core.errors import ConfigError, DataError
from arriero.core.option_kinds import Threads
from arriero.costmodel.calibrated import CalibratedCost
from arriero.costmodel.models import RoundedMicroseconds
from arriero.costmodel.passes import PassRules
from arriero.record.cost_parts import CostSetup, Microseconds, cost_from, cost_setup
from arriero.record.cost_profile import cost_of, read_cost_profile
from arriero.record.strict import Name, Positive

_TwoNumbers: TypeAlias = Annotated[list[Positive], Meta(min_length=2, max_length=2)]


class StepCost(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Microseconds of one step: a base and so much for each of its parts, rounded once; or what a calibration found.

    What is unset is left out of results.

    Attributes:
        base_us: of every step; unset where a profile says it all.
        prefill_row_us, decode_row_us, sequence_us, context_token_us: for each of them, beside the base.
        profile: a file that `arriero calibrate` wrote, relative to the configuration's folder; instead of the base.
        threads: that compute passes of one row, and all others; unset: those of the profile.
        micro_batch: rows of one pass; unset: as it was calibrated.
        calibrated: what the profile says, for this memory. Filled in when a configuration is read from its file, so
            that a result holds everything it follows from.
    """

    base_us: Microseconds | UnsetType = UNSET
    prefill_row_us: Microseconds = 0.0
    decode_row_us: Microseconds = 0.0
    sequence_us: Microseconds = 0.0
    context_token_us: Microseconds = 0.0
    profile: Name | UnsetType = UNSET
    threads: _TwoNumbers | UnsetType = UNSET
    micro_batch: Positive | UnsetType = UNSET
    calibrated: CostSetup | UnsetType = UNSET

    @property
    def is_calibrated(self) -> bool:
        """Whether coefficients were measured, and not written down."""
        return self.profile is not UNSET or self.calibrated is not UNSET

    def model(self) -> RoundedMicroseconds | CalibratedCost:
        """The cost model.

        Raises:
            ConfigError: a profile is named that was never read.
            DataError: a term is unknown.
        """
        if self.calibrated is not UNSET:
            return cost_from(self.calibrated)
        if self.base_us is UNSET:
            raise ConfigError("cost.profile was not read; read the configuration from its file")
        return RoundedMicroseconds(
            base=self.base_us,
            prefill_row=self.prefill_row_us,
            decode_row=self.decode_row_us,
            sequence=self.sequence_us,
            context_token=self.context_token_us,
        )

    def unlike(self) -> Iterator[tuple[str, bool, str]]:
        """Fields that must go together: a name, whether they do, and what is wrong otherwise."""
        is_one = (self.base_us is UNSET) == self.is_calibrated
        yield "cost", is_one, "names no costs or two kinds; give either base_us or profile"
        parts = (self.prefill_row_us, self.decode_row_us, self.sequence_us, self.context_token_us)
        yield "cost", not (self.is_calibrated and any(parts)), "has parts that go with base_us; take them out"
        is_plain = self.threads is UNSET and self.micro_batch is UNSET
        yield "cost", self.is_calibrated or is_plain, "has threads or micro_batch, which go with profile; take them out"

    def read(self, file: Path, *, unified: bool, stream_cells: int) -> "StepCost":
        """The same with what its profile says, if it names one that was not read yet.

        Args:
            file: of the configuration; the profile is named relative to its folder.
            unified: whether all sequences share one pool of cells.
            stream_cells: cells of the pool, or of one sequence.

        Raises:
            DataError: the profile cannot be used, or was made for another memory.
        """
        if self.profile is UNSET or self.calibrated is not UNSET:
            return self
        profile = read_cost_profile(file.parent / self.profile)
        if profile.rules.unified != unified:
            layout = "one pool of cells" if profile.rules.unified else "separate streams"
            what = f"kv.layout: {self.profile} was calibrated for {layout}; set that, or calibrate again"
            raise DataError(what, file=str(file), field="kv.layout")
        rules = PassRules(
            micro_batch=profile.rules.micro_batch if self.micro_batch is UNSET else self.micro_batch,
            unified=unified,
            stream_cells=stream_cells,
            tile_rows=profile.rules.tile_rows,
            cell_pad=profile.rules.cell_pad,
            tiled_heads=profile.rules.tiled_heads,
        )
        threads = None if self.threads is UNSET else Threads(*self.threads)
        try:
            return replace(self, calibrated=cost_setup(cost_of(profile, threads=threads, rules=rules)))
        except ConfigError as error:
            raise DataError(f"cost.threads: {error}", file=str(file), field="cost.threads") from None
