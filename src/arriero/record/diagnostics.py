"""Rows of the diagnostics file, one JSON line each; `docs/diagnostics.md` says what every field means.

Field names are those of the published control plane. The order of fields is that of the classes below, `kind` first,
so the same values always give the same bytes. Times and durations are whole microseconds.
"""

from functools import partial
from typing import Final, TypeAlias

import msgspec

from arriero.record.lines import LineSink
from arriero.record.published import DOES_NOT_APPLY

SCHEMA: Final = 1
"""Grows when a field changes its meaning or goes away; new fields may come without it."""


class _Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """One line."""


class EngineStartRow(_Row, frozen=True, kw_only=True, tag="engine_start"):
    """The engine's loop begins."""

    schema: int
    engine_t_start_us_absolute: int


class IterRow(_Row, frozen=True, kw_only=True, tag="iter"):
    """One pass of the engine's loop."""

    iter: int
    t_us_from_engine_start: int
    decoded: bool
    outcome: str | None
    batch_n_tokens: int
    prefill_rows_in_iter: int
    decode_rows_in_iter: int
    active_seq_count: int
    admitted_in_iter: int
    completed_in_iter: int
    cancelled_in_iter: int
    queued_cancelled_in_iter: int
    failed_in_iter: int
    failed_reserved_in_iter: int
    preempted_in_iter: int
    tokens_emitted_in_iter: int
    waiting_queue_depth_after_admission: int
    resident_count: int
    evicted_in_iter: int
    prefill_requests_advanced: int
    prefill_caps_hit: tuple[str, ...]
    decode_calls_in_iter: int
    llama_decode_wall_us: int
    iter_wall_us: int
    idle_wait_us: int
    predicted_us: int = DOES_NOT_APPLY
    decode_threads: int = DOES_NOT_APPLY
    prefill_threads: int = DOES_NOT_APPLY


class EngineSummaryRow(_Row, frozen=True, kw_only=True, tag="engine_summary"):
    """The engine's loop has ended."""

    schema: int
    decode_calls: int
    update_iterations: int
    wall_ms: float
    submitted_count: int
    admitted_count: int
    promises_fulfilled: int
    completed_count: int
    cancelled_count: int
    queued_cancelled: int
    failed_count: int
    failed_reserved_count: int
    tokens_emitted: int
    prefill_rows: int
    repeated_rows: int
    preemptions: int
    decode_failures: int
    prefix_hits: int
    reused_tokens: int
    sequence_moves: int
    interrupted_calls: int = 0
    overdue_calls: int = 0
    thread_shifts: int = 0
    cost_recalibrations: int = 0
    lookups_by_verdict: dict[str, int]
    reused_tokens_by_source: dict[str, int]
    evictions_by_cause: dict[str, int]
    session_reuse_admitted_count: int
    session_reuse_prefill_skipped_tokens: int
    lcp_reuse_admitted_count: int
    lcp_reuse_matched_tokens: int
    lcp_reuse_trimmed_tokens: int
    lcp_trim_refused: int
    resident_slots_created_count: int
    resident_slots_evicted_count: int
    last_evicted_resident_lru: int
    reuse_overtakes: int
    streams_opened: int
    streams_closed_completed: int
    streams_closed_cancelled: int
    streams_closed_error: int
    stream_tokens_emitted_total: int
    cancel_request_calls: int
    cancel_request_duplicates: int
    cancel_stale_epoch: int
    cancel_active_observed: int
    cancel_unknown_request_id: int
    slots_quarantined: int
    engine_idle_waits: int
    engine_shutdown_observed: int
    residual_kv_empty: bool
    crashed: str | None
    engine_t_start_us_absolute: int
    preload_prefill_llama_decode_included: int


class ServerRequestRow(_Row, frozen=True, kw_only=True, tag="server_request"):
    """One sequence that was asked for over HTTP, rejected ones included."""

    request_id: int
    answer_id: str
    path: str
    stream: bool
    outcome: str
    http_status: int
    error_code: str | None
    final_status: str | None
    n_decoded: int
    prompt_tokens: int
    completion_tokens: int
    reused_tokens: int
    matched_tokens: int
    prefix_source: str | None
    reuse: str | None
    submit_us: int
    first_token_us: int
    completion_us: int
    stream_channel_get_count: int
    sse_write_count: int
    sse_write_bytes: int
    disconnect_observed: bool
    cancel_issued: bool
    t_entry_us: int
    t_parse_done_us: int
    t_tokenize_done_us: int
    t_admitted_us: int
    t_complete_us: int
    t_result_available_us: int
    t_response_ready_us: int
    t_exit_us: int


class GapRow(_Row, frozen=True, kw_only=True, tag="gap"):
    """Entries are missing here: the disk was too slow."""

    dropped: int


DiagnosticsRow: TypeAlias = EngineStartRow | IterRow | EngineSummaryRow | ServerRequestRow | GapRow


def encode_row(row: DiagnosticsRow) -> bytes:
    """One line, without its end."""
    return msgspec.json.encode(row)


def decode_row(line: bytes | str) -> DiagnosticsRow:
    """Read a line back, strictly.

    Raises:
        msgspec.ValidationError: an unknown kind or field, a missing one, or one of another type.
    """
    return msgspec.json.decode(line, type=DiagnosticsRow)


def gap_line(dropped: int) -> bytes:
    """The line of a `LineWriter` of diagnostics that says how many entries are missing."""
    return encode_row(GapRow(dropped=dropped))


class RequestRows:
    """Writes the rows that the HTTP side makes, whatever class they are of."""

    def __init__(self, sink: LineSink) -> None:
        """The sink may be shared with the engine's rows."""
        self._sink = sink

    def on_request(self, row: object) -> None:
        """Take a row: an object with the fields of `ServerRequestRow`, where None is what does not apply."""
        self._sink.put(partial(_request_lines, row))


def _request_lines(row: object) -> tuple[bytes]:
    values = {name: _published(name, getattr(row, name)) for name in ServerRequestRow.__struct_fields__}
    return (encode_row(msgspec.convert(values, ServerRequestRow)),)


_WORDS: Final = frozenset({"error_code", "final_status", "prefix_source", "reuse"})


def _published(name: str, value: object) -> object:
    """Numbers that do not apply are -1, words null; times are cut to whole microseconds."""
    if value is None:
        return None if name in _WORDS else DOES_NOT_APPLY
    return int(value) if isinstance(value, float) else value
