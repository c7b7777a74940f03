"""KernelsResult: the file of the kernel workbench, schema `arriero-lab-kernels-v1`.

Every time that was measured is in it, and every figure is made from these when the file is read again. What is read is
checked: a figure that does not follow from its times is refused.
"""

from typing import Final, Literal

from arriero.metrics.kernel_times import Ratio, TimeFigures
from arriero.record.bench_parts import BenchPart, Evidence, RunFacts
from arriero.record.cpu_lab.code_difference import CodeDifference
from arriero.record.cpu_lab.conditions import ConditionSample
from arriero.record.cpu_lab.environment import LabEnvironment
from arriero.record.strict import Count, Name, Positive, Sha256

SCHEMA: Final = "arriero-lab-kernels-v1"


class GateRow(BenchPart, frozen=True, kw_only=True):
    """One gate that a candidate came to.

    Attributes:
        name: of the gate.
        passed: whether the candidate went on.
        says: what was compared, with figures; the reason if it failed.
    """

    name: Name
    passed: bool
    says: Name


class TimedKernel(BenchPart, frozen=True, kw_only=True):
    """One kernel at one size.

    Attributes:
        label: as in tables.
        role: `baseline`, `candidate` or `ggml`, which is timed beside them and takes no part in the ratio.
        nanoseconds: of all calls of a repetition, in the order of running.
        figures: of one call.
        equal_bits: whether its result has the bits of the baseline's.
        largest_difference: from the baseline's result, relative to the sum of the absolute terms.
    """

    label: Name
    role: Literal["baseline", "candidate", "ggml"]
    nanoseconds: tuple[Positive, ...]
    figures: TimeFigures
    equal_bits: bool
    largest_difference: float


class TimedSize(BenchPart, frozen=True, kw_only=True):
    """All kernels at one size, in turns.

    Attributes:
        size: blocks that one result runs over.
        calls: in a repetition.
        warm_ups: calls of each kernel before the first repetition.
        kernels: baseline and candidate first.
        ratio: median time of the baseline / of the candidate: above 1 the candidate is faster.
    """

    size: Positive
    calls: Positive
    warm_ups: Count
    kernels: tuple[TimedKernel, ...]
    ratio: Ratio


class CandidateResult(BenchPart, frozen=True, kw_only=True):
    """One candidate built by one compiler.

    Attributes:
        experiment: which kernel, as in tables.
        says: what the candidate does otherwise than the baseline.
        compiler: what it says of itself; null where it is not there.
        flags: that it was given.
        library_sha256: of what was built; null where nothing was.
        skipped: why nothing was built or run; null if it was.
        gates: in their order, up to the first that failed.
        in_library: whether the kernels of the llama.cpp in use have the reference's bits on the same cases: what an
            edited library has to pass. No part of the verdict; empty where there is nothing to compare.
        code: of baseline and candidate; null with the reason in `reasons`.
        sizes: that were timed; empty if a gate before the time failed.
        reasons: name of a field that is null or empty -> why.
    """

    experiment: Name
    says: Name
    compiler: str | None
    compiler_name: Name
    flags: tuple[str, ...]
    library_sha256: Sha256 | None
    skipped: str | None
    gates: tuple[GateRow, ...]
    in_library: tuple[GateRow, ...]
    code: CodeDifference | None
    sizes: tuple[TimedSize, ...]
    reasons: dict[str, str]

    @property
    def failed(self) -> GateRow | None:
        """The gate at which it stopped."""
        return next((gate for gate in self.gates if not gate.passed), None)

    @property
    def verdict(self) -> str:
        """One word."""
        if self.skipped is not None:
            return "skipped"
        return "passed" if self.failed is None else "rejected"


class KernelsResult(BenchPart, frozen=True, kw_only=True):
    """A whole run of the workbench.

    Attributes:
        schema_version: of the file.
        evidence: always a micro-benchmark: what it says of a kernel is not said of a program.
        is_quick: fewer cases and calls than the full run has.
        run: how it came about.
        environment: where.
        sources: base name -> SHA-256 of the C sources.
        seed: of the random cases and of the resamples.
        resamples: for each interval.
        before, after: the machine on either side of the run.
        busy: what others did on the machine at the start, if it was refused otherwise; null if it was quiet.
        candidates: in the order of running.
    """

    schema_version: Literal["arriero-lab-kernels-v1"] = SCHEMA
    evidence: Evidence = Evidence.MICROBENCHMARK
    is_quick: bool
    run: RunFacts
    environment: LabEnvironment
    sources: dict[str, Sha256]
    seed: Count
    resamples: Positive
    before: ConditionSample
    after: ConditionSample
    busy: str | None
    candidates: tuple[CandidateResult, ...]
