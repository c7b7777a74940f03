"""What a matrix of measurements writes: one record for each invocation, and a summary of the run.

Names of fields are those of the published harness where it has them, so that its readers read these too; what is ours
besides stands behind them.
"""

from enum import StrEnum
from typing import Final, Literal, TypeAlias

import msgspec

from arriero.core.choices import FlashAttention
from arriero.record.bench_parts import BenchPart, Evidence
from arriero.record.cpu_lab.conditions import ConditionSample
from arriero.record.cpu_lab.environment import LabEnvironment
from arriero.record.cpu_lab.run_log import Status
from arriero.record.cpu_lab.worker import KvCacheType
from arriero.record.strict import Count, Name, Positive, Sha256

Phase: TypeAlias = Literal["warmup", "measured"]
WARM_UP: Final = "warmup"
MEASURED: Final = "measured"


class ExecutorKind(StrEnum):
    """Who does the measuring."""

    IN_PROCESS = "in-process"  # the binding, in a worker process for each repetition
    LLAMA_BENCH = "llama-bench"
    SMOKE = "smoke"  # nobody: a captured output is parsed instead


class RunStatus(StrEnum):
    """How far a run has come."""

    RUNNING = "running"
    INTERRUPTED = "interrupted"
    FAILED = "failed"  # its time was over, or it could not go on
    COMPLETED = "completed"


class MemorySource(StrEnum):
    """Where a peak of memory comes from."""

    NONE = "none"
    WAIT4 = "wait4"  # what the kernel kept for the child
    GNU_TIME = "gnu-time"
    WORKER = "worker-vmhwm"  # what the worker read of itself when the timed part was over


class MatrixCase(BenchPart, frozen=True, kw_only=True):
    """One setting, but for the model.

    Attributes:
        threads: that compute.
        prompt_tokens: timed together.
        generated_tokens: timed one by one.
        batch_size: tokens of one decode call.
        context_size: tokens that the case stands for; what prompt and answer leave of it is filled before them.
        ubatch_size: tokens computed together.
        kv_key_type: of the keys.
        kv_value_type: of the values.
    """

    threads: Positive
    prompt_tokens: Positive
    generated_tokens: Positive
    batch_size: Positive
    context_size: Positive
    ubatch_size: Positive = 512
    kv_key_type: KvCacheType = KvCacheType.F16
    kv_value_type: KvCacheType = KvCacheType.F16

    @property
    def depth(self) -> int:
        """Tokens in KV before the timed ones: llama-bench knows no context, so a context is realised as depth."""
        return self.context_size - self.prompt_tokens - self.generated_tokens

    @property
    def case_id(self) -> str:
        """One word that tells it from all others."""
        return (
            f"p{self.prompt_tokens}-n{self.generated_tokens}-t{self.threads}-b{self.batch_size}"
            f"-ub{self.ubatch_size}-c{self.context_size}-kv-{self.kv_key_type}-{self.kv_value_type}"
        )


class ParsedResult(BenchPart, frozen=True, kw_only=True):
    """What a program said of one (model, backend, threads, size).

    Attributes:
        model_name: in its words.
        model_size: same.
        backend: same.
        thread_count: that it used.
        prompt_tokens: null without such a row.
        generated_tokens: same.
        depth: tokens before them.
        prompt_tokens_per_second: same.
        generation_tokens_per_second: same.
        test_identifier: the program's names of its tests.
    """

    model_name: str
    model_size: str
    backend: str
    thread_count: Positive
    prompt_tokens: Positive | None = None
    generated_tokens: Positive | None = None
    depth: Count = 0
    prompt_tokens_per_second: float | None = None
    generation_tokens_per_second: float | None = None
    test_identifier: str = ""


class MatrixRecord(BenchPart, frozen=True, kw_only=True):
    """One invocation that has ended, however it did.

    Attributes:
        run_id: of the run.
        case_id: see `MatrixCase.case_id`.
        invocation_id: `MODEL:CASE:PHASE:NUMBER`.
        phase: warm-up or measured.
        repetition: its number in the phase, from 1.
        warmup: whether it is one.
        started_at: wall clock in UTC.
        completed_at: same.
        status: how it ended.
        case: the setting.
        command: the program's words, files by base name.
        executed_command: what was started, wrapped and with its interpreter; files relative to the working folder, or
            by base name.
        stdout: what it wrote, also if it was ended.
        stderr: same.
        return_code: null if it could not be started.
        elapsed_seconds: of the process, loading the model included.
        timed_out: it was ended because its time was over.
        parsed_results: empty unless it succeeded.
        parse_error: why what it wrote is not understood.
        model_logical_id: as in the configuration.
        model_filename: base name.
        quantization: as in the configuration, else what the file declares.
        model_sha256: of the file.
        model_file_size: bytes.
        peak_rss_kib: null where it cannot be told.
        reported_kv_cache_bytes: as llama.cpp printed it; never inferred from memory.
        memory_measurement_source: of the peak.
        mmap_enabled: whether the file was mapped.
        environment: machine, build and revision.
        evidence: what the figures are.
        executor: who measured.
        flash_attention: as it was asked for.
        library: base name -> SHA-256 of the program and its libraries.
        before: the machine just before.
        after: just after.
        launch_error: why it could not be started.
        reasons: name of a field that is null -> why.
    """

    run_id: Name
    case_id: Name
    invocation_id: Name
    phase: Phase
    repetition: Positive
    warmup: bool
    started_at: Name
    completed_at: Name
    status: Status
    case: MatrixCase
    command: tuple[str, ...]
    executed_command: tuple[str, ...]
    stdout: str
    stderr: str
    return_code: int | None
    elapsed_seconds: float
    timed_out: bool
    parsed_results: tuple[ParsedResult, ...]
    parse_error: str | None
    model_logical_id: Name
    model_filename: Name
    quantization: str
    model_sha256: Sha256
    model_file_size: Positive
    peak_rss_kib: Count | None
    reported_kv_cache_bytes: Count | None
    memory_measurement_source: MemorySource
    mmap_enabled: bool
    environment: LabEnvironment
    evidence: Evidence
    executor: ExecutorKind
    flash_attention: FlashAttention
    library: dict[str, str]
    before: ConditionSample | None
    after: ConditionSample | None
    launch_error: str | None
    reasons: dict[str, str]


class MatrixSummary(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far a run has come; counted over the latest record of each planned invocation.

    Attributes:
        run_id: of the run.
        config_fingerprint: of its manifest.
        planned_invocations: warm-ups included.
        completed_invocations: that have a record.
        successful_invocations: of these.
        failed_invocations: same; those whose output is not understood included.
        timed_out_invocations: same.
        last_completed_case: null before the first.
        elapsed_seconds: over all sessions.
        run_status: how far.
        max_total_seconds: of one session; null without a limit.
    """

    run_id: Name
    config_fingerprint: Sha256
    planned_invocations: Count
    completed_invocations: Count
    successful_invocations: Count
    failed_invocations: Count
    timed_out_invocations: Count
    last_completed_case: str | None
    elapsed_seconds: float
    run_status: RunStatus
    max_total_seconds: float | None
