"""Roofline: bytes and operations of a decode call against what this machine's memory and arithmetic can do.

    intensity = operations / bytes
    bound     = max(bytes / bandwidth, sum of operations / their peak)

Source: Williams, Waterman, Patterson, "Roofline: an insightful visual performance model", CACM 52(4), 2009.
"""

from enum import StrEnum
from typing import Annotated, Literal

from msgspec import Meta

from arriero.record.bench_parts import BenchPart, Evidence
from arriero.record.strict import Count, Name, Positive

Amount = Annotated[float, Meta(ge=0)]
Rate = Annotated[float, Meta(gt=0)]


class Arithmetic(StrEnum):
    """Which peak bounds an operation."""

    INT8 = "int8"  # weights in blocks of small integers, times activations in blocks of int8
    FP32 = "fp32"  # everything else


class Binding(StrEnum):
    """Which ceiling bounds a call."""

    MEMORY = "memory bandwidth"
    ARITHMETIC = "arithmetic"


class WorkPart(BenchPart, frozen=True, kw_only=True):
    """What one kind of work reads, writes and computes in one call.

    Attributes:
        name: such as `weights q4_1`, `KV read`, `activations`.
        bytes: read and written.
        operations: a multiply-add is two.
        arithmetic: whose peak bounds them.
        from_memory: whether the bound counts its bytes. Activations are not: what one node makes and the next one takes
            stays in a cache where it fits, and a bound must not count what a good program can avoid.
    """

    name: Name
    bytes: Amount
    operations: Amount
    arithmetic: Arithmetic
    from_memory: bool


class CeilingUsed(BenchPart, frozen=True, kw_only=True):
    """One measured ceiling.

    Attributes:
        kind: as the machine's result names it.
        variant: instruction set or way.
        threads: that worked together; null if a library chose them.
        rate: median, in bytes/s or operations/s.
        spread: (greatest - least) / median of its repetitions.
    """

    kind: Name
    variant: Name
    threads: Positive | None
    rate: Rate
    spread: Amount


class PhaseRoofline(BenchPart, frozen=True, kw_only=True):
    """Prefill or decode: one call.

    Attributes:
        phase: which.
        rows: of the call.
        context: positions in KV before it.
        parts: of the work.
        measured_ns: median of the calls in a context without callbacks.
        memory_ns: bytes / bandwidth.
        arithmetic_ns: operations of each arithmetic / its peak, added up.
    """

    phase: Literal["prefill", "decode"]
    rows: Positive
    context: Count
    parts: tuple[WorkPart, ...]
    measured_ns: Rate
    memory_ns: Amount
    arithmetic_ns: Amount

    @property
    def bytes(self) -> float:
        """Of the whole call, as the bound counts them."""
        return sum(part.bytes for part in self.parts if part.from_memory)

    @property
    def operations(self) -> float:
        """Of the whole call."""
        return sum(part.operations for part in self.parts)

    @property
    def intensity(self) -> float | None:
        """Operations per byte; None without bytes."""
        return self.operations / self.bytes if self.bytes else None

    @property
    def bound_ns(self) -> float:
        """No call can be shorter, if all bytes come from memory."""
        return max(self.memory_ns, self.arithmetic_ns)

    @property
    def binding(self) -> Binding:
        """The ceiling that is reached first."""
        return Binding.MEMORY if self.memory_ns >= self.arithmetic_ns else Binding.ARITHMETIC

    @property
    def achieved(self) -> float:
        """Bound / measured; above 1 where bytes come from caches that the bandwidth does not count."""
        return self.bound_ns / self.measured_ns


class Roofline(BenchPart, frozen=True, kw_only=True):
    """Both phases against one set of ceilings.

    Attributes:
        evidence: of the times; bytes and operations are counted from the model's tensors.
        ceilings_evidence: of the ceilings.
        method: how the ceilings were measured.
        array_bytes: of each array of the memory ceilings: what lies in caches is not what they measure.
        ceilings: bandwidth, then peaks.
        phases: prefill, then decode.
    """

    evidence: Evidence = Evidence.MEASURED
    ceilings_evidence: Evidence = Evidence.MICROBENCHMARK
    method: str | None
    array_bytes: Count | None
    ceilings: tuple[CeilingUsed, ...]
    phases: tuple[PhaseRoofline, ...]
