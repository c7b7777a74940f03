"""Records of counting and sampling from outside: one line of `run.jsonl` for each invocation, failures too.

A counter or a sample belongs to a whole process: start of the program, loading, prefill and decode together. So every
figure here is labelled PROFILED and *whole invocation*, and no two of them are joined unless their cases are the same.
"""

from enum import StrEnum
from typing import Annotated, Literal

from msgspec import Meta

from arriero.record.bench_parts import BenchPart, Evidence
from arriero.record.cpu_lab.conditions import ConditionSample
from arriero.record.cpu_lab.environment import LabEnvironment
from arriero.record.cpu_lab.perf_attribution import Attribution
from arriero.record.cpu_lab.perf_counters import Counter
from arriero.record.cpu_lab.run_log import Status
from arriero.record.strict import Count, Name, Positive, Sha256

SCHEMA: Literal["arriero-lab-perf-v1"] = "arriero-lab-perf-v1"
WHOLE: Literal["whole invocation"] = "whole invocation"
Seconds = Annotated[float, Meta(ge=0.0)]


class PerfMode(StrEnum):
    """What is asked of the tool."""

    STAT = "stat"
    RECORD = "record"
    CALLGRIND = "callgrind"


class Fault(StrEnum):
    """Whose failure a failure is."""

    TARGET = "target_failure"
    TOOL = "perf_failure"


class Phase(StrEnum):
    """Whether an invocation counts."""

    WARMUP = "warmup"
    MEASURED = "measured"


class TargetModel(BenchPart, frozen=True, kw_only=True):
    """The model that a worker loads.

    Attributes:
        name: base name of its file.
        bytes: of its file.
        sha256: of its file.
    """

    name: Name
    bytes: Positive
    sha256: Sha256


class PerfCase(BenchPart, frozen=True, kw_only=True):
    """What is profiled; two cases of one `workload` differ in nothing but the model.

    Attributes:
        target: the model's base name, or the program's.
        model: null for a program of the caller's own.
        workload: every setting of the worker but the model, or the program's words: all that must be equal before two
            invocations are compared.
        num_tokens: prompt and generated together, over all repetitions inside; null for a program of the caller's own.
    """

    target: Name
    model: TargetModel | None
    workload: Name
    num_tokens: Count | None

    @property
    def case_id(self) -> str:
        """Unique in a run."""
        return f"{self.target}:{self.workload}"


class PerfRecord(BenchPart, frozen=True, kw_only=True):
    """One invocation.

    Attributes:
        run_id: of the run.
        invocation_id: unique in the run; the latest record of one wins.
        mode: what was asked of the tool.
        phase: a warm-up runs without the tool.
        repetition: from 1, in its phase.
        case: what ran.
        status: how it ended.
        fault: whose failure it was; null for a success.
        reason: what went wrong, in one line; null for a success.
        started_at: wall clock in UTC, ISO 8601, for reading only.
        completed_at: same.
        command: with base names instead of absolute paths.
        return_code: null if it did not end by itself.
        elapsed_s: of the whole command by our clock.
        peak_rss_kib: of the whole command; null where it is not told.
        stdout: what it printed.
        stderr: same.
        counters: of `stat`.
        attribution: of `record` and `callgrind`.
        before: the machine.
        after: same.
        environment: machine, compilers and revision; null where nobody asked.
        evidence: PROFILED.
        scope: of every figure in it.
        schema_version: of this record.
    """

    run_id: Name
    invocation_id: Name
    mode: PerfMode
    phase: Phase
    repetition: Positive
    case: PerfCase
    status: Status
    fault: Fault | None
    reason: str | None
    started_at: Name
    completed_at: Name
    command: tuple[str, ...]
    return_code: int | None
    elapsed_s: Seconds
    peak_rss_kib: Count | None
    stdout: str
    stderr: str
    counters: tuple[Counter, ...] = ()
    attribution: Attribution | None = None
    before: ConditionSample | None = None
    after: ConditionSample | None = None
    environment: LabEnvironment | None = None
    evidence: Evidence = Evidence.PROFILED
    scope: Name = WHOLE
    schema_version: Literal["arriero-lab-perf-v1"] = SCHEMA

    @property
    def counts(self) -> bool:
        """Whether its figures may be used: measured, and a success."""
        return self.phase is Phase.MEASURED and self.status is Status.SUCCESS


class RunStatus(StrEnum):
    """How far a run is."""

    RUNNING = "running"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    COMPLETED = "completed"


class PerfSummary(BenchPart, frozen=True, kw_only=True):
    """`run-summary.json`: how far a run is.

    Attributes:
        run_id: of the run.
        run_status: how far it is.
        planned: invocations.
        completed: those with a record, failures included.
        successful: of these.
        failed: of these: target, tool or what it printed.
        timed_out: of these.
        last_completed: id of the latest invocation; null before the first.
        elapsed_s: since this process began.
    """

    run_id: Name
    run_status: RunStatus
    planned: Count
    completed: Count
    successful: Count
    failed: Count
    timed_out: Count
    last_completed: str | None
    elapsed_s: Seconds
