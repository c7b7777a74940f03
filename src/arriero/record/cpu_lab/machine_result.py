"""MachineResult: facts, warnings and measured ceilings of one machine; the file that `arriero lab machine` writes.

    {"schema": "arriero-lab-machine-v1", "evidence": "MICROBENCHMARK", "environment": {...}, "ceilings": [...], ...}

A ceiling bounds what a kernel can reach and is never the speed of a program: hence the label.
"""

from enum import StrEnum
from pathlib import Path
from statistics import median
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from arriero.record.bench_parts import Evidence
from arriero.record.cpu_lab.conditions import ConditionSample
from arriero.record.cpu_lab.environment import LabEnvironment
from arriero.record.cpu_lab.machine_details import MachineDetails
from arriero.record.cpu_lab.pretty_json import pretty_json
from arriero.record.strict import Count, Name, Positive, convert, read_table

SCHEMA: Final = "arriero-lab-machine-v1"

Rate = Annotated[float, Meta(gt=0)]


class CeilingKind(StrEnum):
    """What was driven to its limit."""

    READ = "memory-read"
    COPY = "memory-copy"
    TRIAD = "memory-triad"
    INT8 = "int8-dot"
    FP32 = "fp32-fma"

    @property
    def unit(self) -> str:
        """Of its rates; a multiply-add is two operations."""
        return "operations/s" if self in {CeilingKind.INT8, CeilingKind.FP32} else "bytes/s"

    @property
    def giga(self) -> str:
        """The word for 10^9 of the unit."""
        return {"operations/s": "Gop/s", "bytes/s": "GB/s"}[self.unit]


class Ceiling(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One limit at one number of threads.

    Attributes:
        kind: see there.
        variant: instruction set or way, such as `avx512_vnni` or `numpy`.
        threads: that worked together; null if a library chose them.
        rates: of each repetition, in the kind's unit, in the order in which they were measured.
    """

    kind: CeilingKind
    variant: Name
    threads: Positive | None
    rates: Annotated[tuple[Rate, ...], Meta(min_length=1)]

    @property
    def median(self) -> float:
        """Of the repetitions."""
        return median(self.rates)

    @property
    def best(self) -> float:
        """The greatest: the nearest to what the hardware can."""
        return max(self.rates)

    @property
    def spread(self) -> float:
        """(greatest - least) / median."""
        return (max(self.rates) - min(self.rates)) / self.median


class MachineWarning(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that makes figures of this machine worse than they need be, or harder to believe.

    Attributes:
        name: one word for it.
        says: what was found.
        remedy: what to do.
    """

    name: Name
    says: Name
    remedy: Name


class MachineResult(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file.

    Attributes:
        schema: of this file.
        evidence: of the ceilings.
        made_at: wall clock in UTC, ISO 8601.
        environment: carries the fingerprint.
        details: of the machine.
        warnings: in the order of the rules.
        ceilings: by kind, variant, threads; empty if none were measured.
        method: how they were measured; null without any.
        array_bytes: of each of the three arrays of the memory ceilings.
        quick: measured briefly, to see that it works.
        busy: the line that says what kept the machine busy before; null if nothing did.
        before: the machine before the ceilings.
        after: the machine after them.
        reasons: name of what is missing -> why.
    """

    schema: Literal["arriero-lab-machine-v1"] = SCHEMA
    evidence: Evidence = Evidence.MICROBENCHMARK
    made_at: Name
    environment: LabEnvironment
    details: MachineDetails
    warnings: tuple[MachineWarning, ...]
    ceilings: tuple[Ceiling, ...]
    method: str | None
    array_bytes: Count | None
    quick: bool
    busy: str | None
    before: ConditionSample
    after: ConditionSample
    reasons: dict[str, str]

    def best_ceiling(self, kind: CeilingKind, threads: int | None = None) -> Ceiling | None:
        """The ceiling with the greatest median, of one number of threads or of any; None if there is none."""
        fitting = [each for each in self.ceilings if each.kind is kind and threads in {None, each.threads}]
        return max(fitting, key=lambda each: each.median, default=None)


def read_machine(path: Path) -> MachineResult:
    """Read such a file.

    Raises:
        DataError: it cannot be read, or is of another form.
    """
    return convert(read_table(path), MachineResult, file=str(path))


def encode_machine(result: MachineResult) -> bytes:
    """As JSON that a person can read."""
    return pretty_json(result)
