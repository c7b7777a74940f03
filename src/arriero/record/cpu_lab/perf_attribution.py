"""An attribution as it is kept: which function had which share of the samples or instructions of one invocation."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from arriero.metrics.hot_symbols import Share
from arriero.metrics.symbol_families import Family
from arriero.record.bench_parts import BenchPart
from arriero.record.strict import Count, Name, Sha256

Portion = Annotated[float, Meta(ge=0.0, le=1.0)]


class CallGraph(StrEnum):
    """How the callers of a sample were found."""

    DWARF = "dwarf"
    FRAME_POINTERS = "fp"
    NONE = "none"


class Measure(StrEnum):
    """What the shares are shares of."""

    CYCLES = "cycles"
    CPU_CLOCK = "cpu-clock"
    INSTRUCTIONS = "instructions"


class SymbolRow(BenchPart, frozen=True, kw_only=True):
    """One function of one object.

    Attributes:
        symbol: its name, or `function at 0x...` for one without a name.
        shared_object: base name of the file it lies in.
        share: of everything, its callees not included.
        count: samples or instructions, if they are told.
        family: by its name; of a function without one, by that of its caller.
        is_resolved: whether the file has a name for it.
        called_by: of a function without a name, the one that called it in most of its samples; null if unknown.
    """

    symbol: Name
    shared_object: Name
    share: Portion
    count: Count | None
    family: Family
    is_resolved: bool
    called_by: str | None = None

    @property
    def as_share(self) -> Share:
        """What the formulas take."""
        return Share(self.symbol, self.shared_object, self.share)


class StacksFile(BenchPart, frozen=True, kw_only=True):
    """Folded stacks beside the record.

    Attributes:
        name: base name, in the folder of the run.
        sha256: of its bytes.
        num_stacks: different ones.
        weight: samples or instructions in all.
    """

    name: Name
    sha256: Sha256
    num_stacks: Count
    weight: Count


class Attribution(BenchPart, frozen=True, kw_only=True):
    """All functions above a limit.

    Attributes:
        measure: of what the shares are.
        scope: the part of the program that was watched, `whole invocation` or the function inside which it was.
        note: why it is this measure, where another one is better.
        call_graph: how callers were found.
        total: samples or instructions.
        limit: functions below this share are left out.
        left_out: share of all that were left out.
        lost: samples that perf says it lost; null if it is not told.
        rows: the hottest first.
        stacks: for a flame graph; null if none were kept.
    """

    measure: Measure
    scope: Name
    note: str
    call_graph: CallGraph
    total: Count
    limit: Portion
    left_out: Portion
    lost: Count | None
    rows: tuple[SymbolRow, ...]
    stacks: StacksFile | None
