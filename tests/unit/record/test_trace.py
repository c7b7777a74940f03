"""The form of a trace line."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.record.trace import TRACE_EVENTS, trace_line

PUBLISHED = """engine_start engine_stop request_admitted seq_prefilled decode_row seq_complete kv_cleared
    promise_fulfilled cancel_requested cancel_observed cancel_kv_cleared cancel_future_fulfilled request_queued
    request_admitted_live seq_reused admitted_prefilled admitted_decode_row admitted_complete
    request_submitted_external arrival_drained token_stream_opened token_stream_token token_stream_closed
    cancel_drained cancel_drained_token cancel_request_duplicate cancel_request_duplicate_token
    cancel_active_observed cancel_active_observed_token cancel_stale_epoch cancel_unknown_request_id
    cancel_unknown_request_id_token queued_cancelled queued_shutdown_aborted engine_task_placement"""


def test_published_events_are_in_the_table() -> None:
    assert set(PUBLISHED.split()) <= set(TRACE_EVENTS)


def test_a_line_names_its_event_and_its_keys_in_order() -> None:
    assert trace_line("decode_row", 3, 0, 17) == b"event=decode_row iter=3 seq=0 pos=17"
    flag = True
    assert trace_line("kv_cleared", 0, 12, flag) == b"event=kv_cleared seq=0 pos_max_at_clear=12 cross_talk_ok=true"


@pytest.mark.parametrize("values", [(), (1, 2)])
def test_a_value_too_few_or_too_many_is_our_own_mistake(values: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="zip"):
        trace_line("engine_task_placement", *values)


@given(st.text())
def test_any_text_stays_on_one_line_and_in_one_value(text: str) -> None:
    line = trace_line("engine_crashed", text).decode()
    assert len(line.splitlines()) == 1
    value = line.removeprefix("event=engine_crashed error=")
    assert value == text or (value.startswith('"') and value.endswith('"'))


def test_every_event_has_its_line_in_the_document(root: Path) -> None:
    page = (root / "docs" / "diagnostics.md").read_text()
    section = page.partition("## Trace events")[2].partition("Published names that never appear")[0]
    rows = re.findall(r"^\| `(\w+)` \| `([\w ]+)` \|", section, re.MULTILINE)
    assert {name: tuple(keys.split()) for name, keys in rows} == dict(TRACE_EVENTS)
