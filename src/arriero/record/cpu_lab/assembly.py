"""The code of one function as it is told: how many instructions of which kind, and its loops.

Counted in the file and not while it runs: a loop's share of the time is the business of samples.
"""

from enum import StrEnum

from arriero.record.bench_parts import BenchPart
from arriero.record.strict import Count, Name, Positive, Sha256


class Kind(StrEnum):
    """What an instruction is for; each has one kind."""

    INTEGER_DOT = "integer dot product"
    FMA = "fused multiply-add"
    CONVERSION = "conversion"
    VECTOR = "other vector arithmetic"
    LOAD = "load"
    STORE = "store"
    BRANCH = "branch"
    CALL = "call"
    SCALAR = "scalar"
    PADDING = "padding"


class Width(StrEnum):
    """The widest register that an instruction names."""

    BITS_512 = "512"
    BITS_256 = "256"
    BITS_128 = "128"


class InstructionMix(BenchPart, frozen=True, kw_only=True):
    """How many instructions of which kind.

    Attributes:
        total: instructions.
        kinds: kind -> count, most first; kinds without any are left out.
        widths: of vector registers -> count; arithmetic on one number is in none.
        memory_reads: instructions that read memory, arithmetic with an operand there included.
        memory_writes: same, writes.
        scalar_conversions: conversions of one number at a time.
    """

    total: Count
    kinds: dict[Kind, Count]
    widths: dict[Width, Count]
    memory_reads: Count
    memory_writes: Count
    scalar_conversions: Count


class Loop(BenchPart, frozen=True, kw_only=True):
    """A stretch that ends with a jump back to its beginning.

    Attributes:
        start: address of its first instruction.
        end: address of the jump.
        is_innermost: no other loop lies inside.
        mix: of its instructions.
    """

    start: Count
    end: Count
    is_innermost: bool
    mix: InstructionMix


class AssemblyFacts(BenchPart, frozen=True, kw_only=True):
    """The code of one function.

    Attributes:
        library: base name of its file.
        library_sha256: of that file.
        symbol: its name, or `function at 0x...`.
        start: address in the file.
        size_bytes: of its code.
        is_whole: False if only the first part was read.
        mix: of all that was read.
        loops: in the order of the code.
        jumps_to: where a function that is nothing but a jump goes; null for all others.
        listing: the instructions, one a line; empty if they were not asked for.
    """

    library: Name
    library_sha256: Sha256
    symbol: Name
    start: Count
    size_bytes: Positive
    is_whole: bool
    mix: InstructionMix
    loops: tuple[Loop, ...]
    jumps_to: str | None
    listing: tuple[str, ...] = ()

    @property
    def inner_loops(self) -> tuple[Loop, ...]:
        """The innermost ones, longest first: kernels are unrolled, so that is where the work is likely to be."""
        inner = [loop for loop in self.loops if loop.is_innermost]
        return tuple(sorted(inner, key=lambda loop: (-loop.mix.total, loop.start)))
