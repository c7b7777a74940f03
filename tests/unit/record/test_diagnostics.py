"""Rows: published names, fixed order, strict reading."""

import dataclasses
import json
import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.core.request import CancelReason, FinishReason
from arriero.http.request_log import RequestRow
from arriero.record.diagnostics import (
    DiagnosticsRow,
    EngineStartRow,
    EngineSummaryRow,
    GapRow,
    IterRow,
    RequestRows,
    ServerRequestRow,
    decode_row,
    encode_row,
    gap_line,
)
from arriero.record.lines import LineList
from arriero.record.published import CANCEL_COUNTS, STATUSES, STREAM_COUNTS, STREAM_ENDS, TOTALS, published_status

PUBLISHED = {
    IterRow: """iter t_us_from_engine_start batch_n_tokens prefill_rows_in_iter decode_rows_in_iter active_seq_count
        admitted_in_iter completed_in_iter cancelled_in_iter tokens_emitted_in_iter
        waiting_queue_depth_after_admission llama_decode_wall_us iter_wall_us idle_wait_us decoded
        queued_cancelled_in_iter failed_in_iter resident_count evicted_in_iter""",
    EngineSummaryRow: """decode_calls update_iterations wall_ms admitted_count promises_fulfilled cancelled_count
        streams_closed_completed streams_closed_cancelled streams_closed_error engine_t_start_us_absolute
        preload_prefill_llama_decode_included cancel_request_calls cancel_request_duplicates cancel_stale_epoch
        cancel_active_observed cancel_unknown_request_id queued_cancelled engine_idle_waits engine_shutdown_observed
        streams_opened stream_tokens_emitted_total slots_quarantined session_reuse_admitted_count
        session_reuse_prefill_skipped_tokens lcp_reuse_admitted_count lcp_reuse_matched_tokens lcp_reuse_trimmed_tokens
        lcp_trim_refused resident_slots_created_count resident_slots_evicted_count last_evicted_resident_lru
        reuse_overtakes""",
    ServerRequestRow: """request_id stream submit_us first_token_us completion_us stream_channel_get_count
        sse_write_count sse_write_bytes disconnect_observed cancel_issued final_status n_decoded t_entry_us
        t_parse_done_us t_tokenize_done_us t_admitted_us t_complete_us t_result_available_us t_response_ready_us
        t_exit_us outcome prompt_tokens reused_tokens http_status error_code""",
}
REJECTED = RequestRow(
    request_id=None,
    answer_id="cmpl-1",
    path="/v1/completions",
    stream=False,
    outcome="rejected",
    http_status=503,
    error_code="server_is_overloaded",
    t_entry_us=12.75,
)


def strategy_of(kind: type[DiagnosticsRow]) -> st.SearchStrategy[DiagnosticsRow]:
    by_type = {
        int: st.integers(-1, 2**53),
        float: st.floats(0, 1e9),
        bool: st.booleans(),
        str: st.text(),
        str | None: st.none() | st.text(),
        dict[str, int]: st.dictionaries(st.text(), st.integers(0, 2**53), max_size=3),
        tuple[str, ...]: st.lists(st.text(), max_size=3).map(tuple),
    }
    fields = msgspec.structs.fields(kind)
    return st.builds(kind, **{field.name: by_type[field.type] for field in fields})


ROWS: st.SearchStrategy[DiagnosticsRow] = st.one_of(
    strategy_of(EngineStartRow),
    strategy_of(IterRow),
    strategy_of(EngineSummaryRow),
    strategy_of(ServerRequestRow),
    strategy_of(GapRow),
)


@pytest.mark.parametrize("kind", PUBLISHED)
def test_published_fields_are_there(kind: type[msgspec.Struct]) -> None:
    missing = set(PUBLISHED[kind].split()) - set(kind.__struct_fields__)
    assert not missing


@given(ROWS)
def test_a_row_comes_back_as_it_was_and_the_same_row_gives_the_same_bytes(row: DiagnosticsRow) -> None:
    line = encode_row(row)
    assert b"\n" not in line
    assert decode_row(line) == row
    assert encode_row(decode_row(line)) == line


@given(ROWS)
def test_keys_come_in_the_order_of_the_class_with_the_kind_first(row: DiagnosticsRow) -> None:
    keys = list(json.loads(encode_row(row)))
    assert keys == ["kind", *type(row).__struct_fields__]


@pytest.mark.parametrize(
    "line",
    ['{"kind":"gap"}', '{"kind":"gap","dropped":"1"}', '{"kind":"gap","dropped":1,"more":2}', '{"kind":"x"}', "{"],
)
def test_reading_is_strict(line: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_row(line)


def test_a_gap_has_a_row() -> None:
    assert gap_line(7) == b'{"kind":"gap","dropped":7}'


def test_a_row_of_the_http_side_gets_minus_one_for_numbers_and_null_for_words() -> None:
    sink = LineList()
    RequestRows(sink).on_request(REJECTED)
    row = decode_row(sink.lines[0])
    assert isinstance(row, ServerRequestRow)
    assert (row.request_id, row.http_status, row.outcome) == (-1, 503, "rejected")
    assert (row.final_status, row.error_code) == (None, "server_is_overloaded")
    assert (row.t_entry_us, row.t_exit_us, row.submit_us, row.prompt_tokens) == (12, -1, -1, -1)


def test_every_field_of_the_http_side_is_written() -> None:
    assert {field.name for field in dataclasses.fields(RequestRow)} == set(ServerRequestRow.__struct_fields__)


def test_every_end_has_a_published_status() -> None:
    assert set(STATUSES) == set(FinishReason)
    assert set(STREAM_ENDS) == set(STATUSES.values())
    words = {reason: published_status(FinishReason.CANCELLED, reason) for reason in CancelReason}
    assert words.pop(CancelReason.STOP) == "completed"
    assert set(words.values()) == {"cancelled"}


@pytest.mark.parametrize("names", [TOTALS, CANCEL_COUNTS, STREAM_COUNTS])
def test_tables_lead_to_fields_of_the_summary(names: dict[str, str]) -> None:
    assert set(names.values()) <= set(EngineSummaryRow.__struct_fields__)


@pytest.mark.parametrize("kind", [EngineStartRow, IterRow, EngineSummaryRow, ServerRequestRow, GapRow])
def test_every_field_has_its_line_in_the_document(root: Path, kind: type[msgspec.Struct]) -> None:
    tag = kind.__struct_config__.tag
    page = (root / "docs" / "diagnostics.md").read_text()
    section = page.partition(f"## kind `{tag}`")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == list(kind.__struct_fields__)
