"""targets_of: hot functions become candidates, and each stops at the first gate that it does not pass.

The gates that cost nothing are asked here: is the bound worth the work, is it a kernel that can be taken out, and does
the code leave anything to do. The others are work: equal bits, a micro-benchmark, a paired A/B of the whole program.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from arriero.core.errors import ArrieroError
from arriero.lab.perf.assembly import Place, find_function, read_assembly
from arriero.lab.perf.callers import callers
from arriero.lab.perf.tools import Tool
from arriero.metrics.symbol_families import Family, family_of
from arriero.record.cpu_lab.assembly import AssemblyFacts, InstructionMix, Kind, Width
from arriero.record.cpu_lab.perf_comparison import CaseHot, HotFunction
from arriero.record.cpu_lab.targets import Candidate, Gate, Targets

COMPUTES: Final = frozenset({
    Family.QUANTISED_DOT, Family.UNPACKING, Family.MATRIX, Family.ATTENTION, Family.ROPE, Family.SOFTMAX,
    Family.KV_COPY, Family.ELEMENTWISE,
})  # fmt: skip
"""Families whose functions compute something by themselves."""

_LIBRARY: Final = ("libggml", "libllama")
_NEXT: Final = "take it out and prove equal bits (`arriero lab kernels`); all that costs no work is passed"


class Code(NamedTuple):
    """What is known of a function's code."""

    assembly: AssemblyFacts | None
    called_by: tuple[str, ...]
    problem: str | None  # why it cannot be read


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """What candidates are judged by.

    Attributes:
        folder: of the llama.cpp libraries.
        objdump: reads code.
        least_bound: a candidate that could gain less is not worth the work.
        machine_bits: the widest vectors of this CPU: 512, 256 or 128.
    """

    folder: Path
    objdump: Tool
    least_bound: float
    machine_bits: int

    def targets_of(self, case: CaseHot, library: dict[str, str], *, limit: int = 10) -> Targets:
        """The first functions of a case, judged."""
        return Targets(
            case=case.case,
            measure=case.attribution.measure,
            scope=case.attribution.scope,
            least_bound=self.least_bound,
            machine_bits=self.machine_bits,
            library=library,
            candidates=tuple(self._candidate(each) for each in case.functions[:limit]),
        )

    def _candidate(self, hot: HotFunction) -> Candidate:
        code = self._code(hot)
        family = _family(hot, code.called_by)
        already, openings = described(code.assembly, self.machine_bits)
        gate, reason = self._judged(hot, family, code, openings)
        return Candidate(
            rank=hot.rank,
            symbol=hot.symbol,
            shared_object=hot.shared_object,
            family=family,
            share=hot.share,
            bound=hot.bound,
            called_by=code.called_by,
            already=already,
            openings=openings,
            assembly=code.assembly,
            rejected_by=gate,
            reason=reason,
        )

    def _code(self, hot: HotFunction) -> Code:
        if not hot.shared_object.startswith(_LIBRARY):
            return Code(None, (), "it is no code of llama.cpp")
        try:
            place = find_function(self.folder, hot.symbol, self.objdump, within=hot.shared_object)
            facts = read_assembly(place, self.objdump)
            called_by = () if hot.is_resolved else self._callers(hot, place)
        except ArrieroError as error:
            return Code(None, (), str(error))
        return Code(facts, called_by, None)

    def _callers(self, hot: HotFunction, place: Place) -> tuple[str, ...]:
        """Those of the samples, or those that can be found in the code."""
        return (hot.called_by,) if hot.called_by else callers(self.objdump, place.file, place.extent)

    def _judged(self, hot: HotFunction, family: Family, code: Code, openings: Sequence[str]) -> tuple[Gate | None, str]:
        if hot.bound is not None and hot.bound < self.least_bound:
            return Gate.SHARE, f"at most {hot.bound:.3f} times as fast, less than {self.least_bound:g}"
        if code.problem is not None:
            return Gate.KIND, code.problem
        if family not in COMPUTES:
            return Gate.KIND, f"{family}: no kernel that could be taken out and compared by itself"
        if code.assembly is not None and _only_calls(code.assembly):
            return Gate.KIND, "its inner loops call other functions and compute nothing themselves: look at those"
        if not openings:
            return Gate.ASSEMBLY, "its inner loops leave nothing that a rewrite by hand would plainly change"
        return None, _NEXT


def _only_calls(facts: AssemblyFacts) -> bool:
    """Whether it is a driver: loops that call, and no vector arithmetic anywhere in them."""
    loops = [loop.mix for loop in facts.inner_loops]
    return _count(loops, Kind.CALL) > 0 and not any(mix.widths for mix in loops)


def described(facts: AssemblyFacts | None, machine_bits: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What the inner loops do already, and what they leave to do; both in words.

    The vector loops count where there are some: what is left of a kernel is for the rest of a row.
    """
    if facts is None:
        return (), ()
    loops = [loop.mix for loop in facts.inner_loops]
    vector = [mix for mix in loops if mix.widths] or loops
    mixes = vector or [facts.mix]
    return tuple(_already(mixes)), tuple(_openings(mixes, machine_bits, has_loop=bool(loops)))


def _already(mixes: Sequence[InstructionMix]) -> list[str]:
    words = [f"{count} x {kind}" for kind in (Kind.INTEGER_DOT, Kind.FMA) if (count := _count(mixes, kind))]
    widths = [width for width in Width if any(width in mix.widths for mix in mixes)]
    if widths:
        words.append(f"vectors of {' and '.join(widths)} bits")
    largest = max(mix.total for mix in mixes)
    return [*words, f"{len(mixes)} inner loop{'' if len(mixes) == 1 else 's'}, the longest {largest} instructions"]


def _openings(mixes: Sequence[InstructionMix], machine_bits: int, *, has_loop: bool) -> list[str]:
    words: list[str] = []
    single = sum(mix.scalar_conversions for mix in mixes)
    calls = _count(mixes, Kind.CALL)
    widest = max((int(width) for mix in mixes for width in mix.widths), default=0)
    if single:
        words.append(f"converts {single} number{'' if single == 1 else 's'} one at a time")
    if calls and has_loop:
        words.append(f"calls {calls} function{'' if calls == 1 else 's'} in an inner loop")
    if has_loop and 0 < widest < machine_bits:
        words.append(f"vectors of {widest} bits where the CPU has {machine_bits}")
    if widest == 0 and has_loop:
        words.append("no vector instructions in its inner loops")
    return words


def _count(mixes: Sequence[InstructionMix], kind: Kind) -> int:
    return sum(mix.kinds.get(kind, 0) for mix in mixes)


def _family(hot: HotFunction, called_by: Sequence[str]) -> Family:
    """That of the name; of a function without one, that of the first caller that has a family."""
    if hot.is_resolved or hot.family is not Family.UNKNOWN:
        return hot.family
    found = (family_of(name) for name in called_by)
    return next((family for family in found if family is not Family.UNKNOWN), Family.UNKNOWN)
