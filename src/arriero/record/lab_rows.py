"""Rows of the published serving lab's simulator, schema `serving-simulator-v2`, and their bytes.

Field names and their order in the file are published (batching-simulators specification, B10). The classes list them
alphabetically, since that is how they are written.

    run row (lab_run.py), then: iteration rows, request rows by internal id, one summary row
"""

import json
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from arriero.record.strict import Count, Name, Positive

SCHEMA: Final = "serving-simulator-v2"
EVIDENCE: Final = "SIMULATED"

Ratio = Annotated[int, Meta(ge=0)] | Annotated[float, Meta(ge=0)]
"""A double under the number rule, see `exact`."""

State: TypeAlias = Literal["Waiting", "Decoding", "Finished"]
Reason: TypeAlias = Literal["token budget", "sequence budget", "KV capacity"]
Status: TypeAlias = Literal["completed", "stalled"]
Mode: TypeAlias = Literal["single_active_fcfs", "continuous_batching"]
BatchPolicy: TypeAlias = Literal["DecodeFirst", "FcfsMixed"]


class _Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line."""


class Deferral(_Row, frozen=True, kw_only=True):
    """A candidate that was visited and not scheduled; `request_id` is the internal one."""

    reason: Reason
    request_id: Positive


class IterationRow(_Row, frozen=True, kw_only=True):
    """One pass of the continuous loop; the gauges are taken after the releases of that pass."""

    cached_blocks: Count
    decode_ids: list[Positive]
    deferred: list[Deferral]
    end_time_us: Count
    evicted_ids: list[Count]
    evidence_type: Literal["SIMULATED"] = EVIDENCE
    internal_fragmentation_tokens: Count
    iteration_number: Positive
    kv_allocated: Count
    kv_free: Count
    kv_utilization: Ratio
    matched_tokens: Count
    policy: BatchPolicy
    prefill_ids: list[Positive]
    prefix_hits: Count
    prefix_misses: Count
    record_type: Literal["iteration"] = "iteration"
    represented_kv_tokens: Count
    scheduled_decode_tokens: Count
    scheduled_prefill_tokens: Count
    scheduled_sequences: Count
    schema_version: Literal["serving-simulator-v2"] = SCHEMA
    shared_referenced_blocks: Count
    stall: bool
    start_time_us: Count
    total_scheduled_tokens: Count


class RequestRow(_Row, frozen=True, kw_only=True):
    """What became of one request."""

    admitted_time_us: Count | None
    arrival_time_us: Count
    deadline_us: Count | None
    decode_token_times_us: list[Count]
    end_to_end_latency_us: Count | None
    evidence_type: Literal["SIMULATED"] = EVIDENCE
    final_state: State
    finish_time_us: Count | None
    first_token_time_us: Count | None
    generated_tokens: Count
    inter_token_latencies_us: list[Count]
    internal_id: Positive
    max_new_tokens: Count
    metadata: dict[str, Any]
    prefix_group: Name | None
    prompt_tokens: list[Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]] | None
    prompt_tokens_matched: Count
    prompt_tokens_original: Count
    prompt_tokens_scheduled: Count
    queue_delay_us: Count | None
    reason: None = None
    record_type: Literal["request"] = "request"
    request_id: Name
    schema_version: Literal["serving-simulator-v2"] = SCHEMA
    tpot_us: Ratio | None
    ttft_us: Count | None
    workload_class: Name


class SummaryRow(_Row, frozen=True, kw_only=True):
    """Totals of the run; what the mode does not have is null."""

    average_batch_size: Ratio | None
    cache_eligible_prompt_tokens: Count
    cached_blocks: Count | None
    cancelled: Count
    collision_verifications: Count
    completed: Count
    current_allocated_blocks: Count | None
    current_free_blocks: Count | None
    deferred_requests: Count
    eviction_count: Count
    evidence_type: Literal["SIMULATED"] = EVIDENCE
    execution_mode: Mode
    generated_tokens: Count
    idle_iterations: Count | None
    internal_fragmentation_tokens: Count | None
    kv_allocation_failures: Count
    kv_capacity_deferrals: Count
    kv_current_utilization: Ratio | None
    kv_peak_utilization: Ratio | None
    makespan_us: Count
    matched_prefix_blocks: Count
    matched_prefix_tokens: Count
    max_batch_size: Count
    max_scheduled_tokens: Count | None
    nonempty_batches: Count | None
    peak_allocated_blocks: Count | None
    prefix_lookup_hits: Count
    prefix_lookup_misses: Count
    prefix_lookups: Count
    prefix_token_hit_rate: Ratio | None
    record_type: Literal["summary"] = "summary"
    rejected: Count
    represented_kv_tokens: Count | None
    run_status: Status
    saved_simulated_prefill_tokens: Count
    scheduled_decode_tokens: Count
    scheduled_prefill_tokens: Count
    scheduling_iterations: Count | None
    scheduling_policy: BatchPolicy | None
    schema_version: Literal["serving-simulator-v2"] = SCHEMA
    shared_referenced_blocks: Count | None
    stalled: Count
    submitted: Count
    submitted_prompt_tokens: Count
    total_scheduled_sequences: Count | None


LabRow: TypeAlias = IterationRow | RequestRow | SummaryRow


def exact(value: float) -> int | float:
    """A ratio as it is written: whole ones below 1e17 without a fraction."""
    return int(value) if value < 1e17 and value.is_integer() else value


# ── bytes ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_ENCODER: Final = msgspec.json.Encoder()
# Between these bounds msgspec spells a double as Python does; whole ones above are integers under the number rule.
_SHORT_MIN: Final = 1e-4
_SHORT_MAX: Final = 1e16


def encode_row(row: LabRow) -> bytes:
    """One line without its end: what `json.dumps(row, sort_keys=True, separators=(",", ":"))` gives.

    Ratios follow the number rule, whatever they were given as.

    Cost: one pass in C; rows with metadata, odd characters or extreme ratios take the long way.
    """
    if not (_is_plain(row) and (text := _ENCODER.encode(row)).isascii() and b"\x7f" not in text):
        values: dict[str, Any] = msgspec.to_builtins(row)
        for name in _RATIOS:
            if isinstance(value := values.get(name), float):
                values[name] = exact(value)
        return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    return text


_RATIOS: Final = (
    "kv_utilization", "tpot_us", "average_batch_size", "kv_current_utilization", "kv_peak_utilization",
    "prefix_token_hit_rate",
)  # fmt: skip


def _is_plain(row: LabRow) -> bool:
    match row:
        case IterationRow():
            return _is_short(row.kv_utilization)
        case RequestRow():
            return not row.metadata and _is_short(row.tpot_us)
        case SummaryRow():
            return all(_is_short(getattr(row, name)) for name in _RATIOS[2:])


def _is_short(value: float | None) -> bool:
    return not isinstance(value, float) or (_SHORT_MIN <= value < _SHORT_MAX and not value.is_integer())
