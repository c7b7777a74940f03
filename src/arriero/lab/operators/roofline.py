"""roofline_of: the work of a profile's calls against the ceilings of a machine."""

from collections.abc import Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from arriero.backend.gguf import GgufHeader
from arriero.core.config import KvType
from arriero.core.errors import ConfigError
from arriero.lab.operators.work import CallShape, operations_by_arithmetic, work_of
from arriero.record.cpu_lab.machine_result import Ceiling, CeilingKind, MachineResult
from arriero.record.cpu_lab.operators import Arm, PhaseProfile, ProfileSettings
from arriero.record.cpu_lab.roofline import Arithmetic, CeilingUsed, PhaseRoofline, Roofline

_PEAKS: Final = MappingProxyType({Arithmetic.INT8: CeilingKind.INT8, Arithmetic.FP32: CeilingKind.FP32})


class Ceilings(NamedTuple):
    """The ceilings of one number of threads."""

    bandwidth: Ceiling
    peaks: dict[Arithmetic, Ceiling]


def ceilings_for(machine: MachineResult, threads: int) -> Ceilings:
    """The best ceilings of that number of threads.

    Raises:
        ConfigError: they were not measured.
    """
    return Ceilings(
        _ceiling(machine, CeilingKind.READ, threads),
        {arithmetic: _ceiling(machine, kind, threads) for arithmetic, kind in _PEAKS.items()},
    )


def roofline_of(
    header: GgufHeader, settings: ProfileSettings, phases: Sequence[PhaseProfile], machine: MachineResult
) -> Roofline:
    """The work of each phase, its bound, and how much of it was reached.

    Args:
        header: of the model's file.
        settings: of the profile.
        phases: with the times of calls without callbacks.
        machine: with ceilings at the profile's number of threads.

    Raises:
        ConfigError: ceilings are missing, or the file does not say enough.
    """
    ceilings = ceilings_for(machine, settings.threads)
    return Roofline(
        method=machine.method,
        array_bytes=machine.array_bytes,
        ceilings=tuple(_used(each) for each in (ceilings.bandwidth, *ceilings.peaks.values())),
        phases=tuple(phase_roofline(header, settings, phase, ceilings) for phase in phases),
    )


def phase_roofline(
    header: GgufHeader, settings: ProfileSettings, phase: PhaseProfile, ceilings: Ceilings
) -> PhaseRoofline:
    """One phase; a decode call is taken in the middle of its repetition."""
    context = phase.context + (settings.generate // 2 if phase.phase == "decode" else 0)
    call = CallShape(rows=phase.rows, context=context, outputs=1, kv_type=KvType(settings.kv_type))
    parts = work_of(header, call)
    bare = phase.arm(Arm.BARE)
    assert bare is not None, "a profile has its bare calls"
    num_bytes = sum(part.bytes for part in parts if part.from_memory)
    operations = operations_by_arithmetic(parts)
    return PhaseRoofline(
        phase=phase.phase,
        rows=phase.rows,
        context=context,
        parts=parts,
        measured_ns=bare.median_ns,
        memory_ns=1e9 * num_bytes / ceilings.bandwidth.median,
        arithmetic_ns=sum(1e9 * operations[each] / ceilings.peaks[each].median for each in Arithmetic),
    )


def _ceiling(machine: MachineResult, kind: CeilingKind, threads: int) -> Ceiling:
    found = machine.best_ceiling(kind, threads) or machine.best_ceiling(kind, None)
    if found is None or found.threads not in {None, threads}:
        reason = machine.reasons.get(kind.value, f"not at {threads} threads")
        raise ConfigError(
            f"--roofline: no ceiling {kind.value} was measured ({reason}); "
            f"run `arriero lab machine --threads {threads}`"
        )
    return found


def _used(ceiling: Ceiling) -> CeilingUsed:
    return CeilingUsed(
        kind=ceiling.kind.value,
        variant=ceiling.variant,
        threads=ceiling.threads,
        rate=ceiling.median,
        spread=ceiling.spread,
    )
