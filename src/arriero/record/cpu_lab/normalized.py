"""The rows of a matrix as a table: one for each measured repetition that succeeded, 27 columns."""

import csv
import io
from typing import Final, Literal

import msgspec

from arriero.record.bench_parts import BenchPart, Evidence
from arriero.record.cpu_lab.matrix import MatrixRecord, MemorySource
from arriero.record.cpu_lab.pretty_json import pretty_json
from arriero.record.cpu_lab.run_log import Status
from arriero.record.cpu_lab.worker import KvCacheType
from arriero.record.strict import Count, Name, Positive, Sha256

CSV_FILE: Final = "normalized.csv"
JSON_FILE: Final = "normalized.json"
INCOMPLETE: Final = "# incomplete: true"


class NormalizedRow(BenchPart, frozen=True, kw_only=True):
    """One repetition; the fields are the columns, in their order. Null is an empty cell."""

    timestamp_utc: Name
    model_logical_id: Name
    model_filename: Name
    quantization: str
    model_sha256: Sha256
    model_file_size: Positive
    invocation_id: Name
    model_name: str
    model_size: str
    backend: str
    thread_count: Positive
    prompt_tokens: Positive | None
    generated_tokens: Positive | None
    prompt_tokens_per_second: float | None
    generation_tokens_per_second: float | None
    test_identifier: str
    batch_size: Positive
    ubatch_size: Positive
    context_size: Positive
    kv_key_type: KvCacheType
    kv_value_type: KvCacheType
    repetition: Positive
    elapsed_seconds: float
    peak_rss_kib: Count | None
    reported_kv_cache_bytes: Count | None
    memory_measurement_source: MemorySource
    mmap_enabled: bool


COLUMNS: Final = tuple(field.name for field in msgspec.structs.fields(NormalizedRow))


class ExcludedInvocation(BenchPart, frozen=True, kw_only=True):
    """A measured invocation that is no row, and why."""

    invocation_id: Name
    status: Status
    reason: str


class NormalizedFile(BenchPart, frozen=True, kw_only=True):
    """The table as JSON, with what a CSV has no place for.

    Attributes:
        schema: of this file.
        evidence: what the figures are.
        run_id: of the run.
        fingerprint: of its manifest.
        incomplete: measured invocations have no record.
        missing: these.
        excluded: those that did not succeed.
        rows: the others.
        reasons: invocation id -> name of a cell that is empty -> why.
    """

    schema: Literal["arriero-lab-normalized-v1"] = "arriero-lab-normalized-v1"
    evidence: Evidence
    run_id: Name
    fingerprint: Sha256
    incomplete: bool
    missing: tuple[str, ...]
    excluded: tuple[ExcludedInvocation, ...]
    rows: tuple[NormalizedRow, ...]
    reasons: dict[str, dict[str, str]]


def row_of(record: MatrixRecord) -> NormalizedRow:
    """The row of a record that succeeded."""
    result = record.parsed_results[0]
    return NormalizedRow(
        timestamp_utc=record.completed_at,
        model_logical_id=record.model_logical_id,
        model_filename=record.model_filename,
        quantization=record.quantization,
        model_sha256=record.model_sha256,
        model_file_size=record.model_file_size,
        invocation_id=record.invocation_id,
        model_name=result.model_name,
        model_size=result.model_size,
        backend=result.backend,
        thread_count=result.thread_count,
        prompt_tokens=result.prompt_tokens,
        generated_tokens=result.generated_tokens,
        prompt_tokens_per_second=result.prompt_tokens_per_second,
        generation_tokens_per_second=result.generation_tokens_per_second,
        test_identifier=result.test_identifier,
        batch_size=record.case.batch_size,
        ubatch_size=record.case.ubatch_size,
        context_size=record.case.context_size,
        kv_key_type=record.case.kv_key_type,
        kv_value_type=record.case.kv_value_type,
        repetition=record.repetition,
        elapsed_seconds=record.elapsed_seconds,
        peak_rss_kib=record.peak_rss_kib,
        reported_kv_cache_bytes=record.reported_kv_cache_bytes,
        memory_measurement_source=record.memory_measurement_source,
        mmap_enabled=record.mmap_enabled,
    )


def csv_text(file: NormalizedFile) -> str:
    """The table as CSV; a partial one says so in its first line."""
    out = io.StringIO(newline="")
    if file.incomplete:
        out.write(f"{INCOMPLETE}\n")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in file.rows:
        writer.writerow(_cell(getattr(row, name)) for name in COLUMNS)
    return out.getvalue()


def json_bytes(file: NormalizedFile) -> bytes:
    """The table as JSON."""
    return pretty_json(file)


def _cell(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float():
            return repr(value)
        case _:
            return str(value)
