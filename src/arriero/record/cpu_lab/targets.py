"""Candidates for a change, ranked by what they could gain, each with the gate at which it stops."""

from enum import StrEnum

from arriero.metrics.symbol_families import Family
from arriero.record.bench_parts import BenchPart, Evidence
from arriero.record.cpu_lab.assembly import AssemblyFacts
from arriero.record.cpu_lab.perf import PerfCase
from arriero.record.cpu_lab.perf_attribution import Measure, Portion
from arriero.record.cpu_lab.pretty_json import pretty_json
from arriero.record.strict import Name, Positive, Sha256


class Gate(StrEnum):
    """What a candidate has to pass, in this order; it stops at the first one that it fails."""

    SHARE = "share"  # its bound is worth the work
    KIND = "kind"  # it computes something that can be extracted
    ASSEMBLY = "assembly"  # the compiler does not already do what there is to do
    EQUAL_BITS = "equal bits"  # the extracted kernel gives the same bits
    MICROBENCHMARK = "microbenchmark"  # and is faster by itself
    PAIRED_AB = "paired A/B"  # and the whole program is


class Candidate(BenchPart, frozen=True, kw_only=True):
    """One hot function.

    Attributes:
        rank: by share, from 1.
        symbol: its name.
        shared_object: the file it lies in.
        family: by its name, or by those of the functions that call it where it has none.
        share: of everything.
        bound: speed-up of the whole if it took no time; null for a share of everything.
        called_by: named functions that call or jump to one without a name.
        already: what its code does already, in words.
        openings: what its inner loops do that a rewrite could change, in words.
        assembly: its code; null where it cannot be read.
        rejected_by: the gate that it fails; null if it passes all that can be checked without work.
        reason: why it stops or what is next.
    """

    rank: Positive
    symbol: Name
    shared_object: Name
    family: Family
    share: Portion
    bound: float | None
    called_by: tuple[str, ...]
    already: tuple[str, ...]
    openings: tuple[str, ...]
    assembly: AssemblyFacts | None
    rejected_by: Gate | None
    reason: Name


class Targets(BenchPart, frozen=True, kw_only=True):
    """All candidates of one case.

    Attributes:
        case: what was profiled.
        measure: of what the shares are.
        scope: the part of the program that was watched.
        least_bound: candidates below it stop at the first gate.
        machine_bits: the widest vectors of this CPU.
        library: base name -> SHA-256 of the llama.cpp whose code was read.
        candidates: the hottest first.
        evidence: of the shares; what is said of the code is counted in the file.
    """

    case: PerfCase
    measure: Measure
    scope: Name
    least_bound: float
    machine_bits: int
    library: dict[str, Sha256]
    candidates: tuple[Candidate, ...]
    evidence: Evidence = Evidence.PROFILED

    def encode(self) -> bytes:
        """As JSON with line ends."""
        return pretty_json(self)
