import json
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.core.errors import DataError
from arriero.record.lab_file import decode_row
from arriero.record.lab_place import Place
from arriero.record.lab_requests import check_request, request_row
from arriero.record.lab_rows import IterationRow, LabRow, RequestRow, encode_row, exact

PLACE = Place("run.jsonl", 7)
COUNT = st.integers(0, 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
RATIO = st.floats(0, 1e300, allow_nan=False).map(exact)


@st.composite
def request_rows(draw: st.DrawFn) -> RequestRow:
    times = draw(st.lists(COUNT, max_size=5))
    tokens = draw(st.none() | st.lists(st.integers(-(2**31), 2**31 - 1), max_size=5))
    return RequestRow(
        admitted_time_us=draw(st.none() | COUNT),
        arrival_time_us=draw(COUNT),
        deadline_us=draw(st.none() | COUNT),
        decode_token_times_us=times,
        end_to_end_latency_us=None,
        final_state=draw(st.sampled_from(["Waiting", "Decoding", "Finished"])),
        finish_time_us=None,
        first_token_time_us=None,
        generated_tokens=len(times),
        inter_token_latencies_us=[],
        internal_id=draw(st.integers(1, 10)),
        max_new_tokens=draw(COUNT),
        metadata=draw(st.dictionaries(TEXT, JSON, max_size=3)),
        prefix_group=draw(st.none() | TEXT),
        prompt_tokens=tokens,
        prompt_tokens_matched=0,
        prompt_tokens_original=0,
        prompt_tokens_scheduled=0,
        queue_delay_us=None,
        request_id=draw(TEXT),
        tpot_us=draw(st.none() | RATIO),
        ttft_us=None,
        workload_class="chat",
    )


def iteration(**changes: object) -> IterationRow:
    row = IterationRow(
        cached_blocks=0,
        decode_ids=[1],
        deferred=[],
        end_time_us=10,
        evicted_ids=[],
        internal_fragmentation_tokens=0,
        iteration_number=1,
        kv_allocated=1,
        kv_free=3,
        kv_utilization=0.25,
        matched_tokens=0,
        policy="DecodeFirst",
        prefill_ids=[],
        prefix_hits=0,
        prefix_misses=0,
        represented_kv_tokens=16,
        scheduled_decode_tokens=1,
        scheduled_prefill_tokens=0,
        scheduled_sequences=1,
        shared_referenced_blocks=0,
        stall=False,
        start_time_us=0,
        total_scheduled_tokens=1,
    )
    return msgspec.structs.replace(row, **changes)


def by_the_standard_library(row: LabRow) -> bytes:
    return json.dumps(msgspec.to_builtins(row), sort_keys=True, separators=(",", ":")).encode()


@given(request_rows())
def test_request_rows_are_what_the_standard_library_writes(row: RequestRow) -> None:
    assert encode_row(row) == by_the_standard_library(row)


@given(RATIO)
def test_iteration_rows_are_what_the_standard_library_writes(ratio: float) -> None:
    row = iteration(kv_utilization=ratio)
    assert encode_row(row) == by_the_standard_library(row)


@given(request_rows())
def test_rows_read_back(row: RequestRow) -> None:
    again = decode_row(encode_row(row), PLACE)
    assert encode_row(again) == encode_row(row)


@pytest.mark.parametrize(
    ("value", "text"),
    [(93.0, "93"), (0.0, "0"), (1.0, "1"), (0.5, "0.5"), (1e17, "1e+17"), (99999999999999984.0, "99999999999999984"),
     (1e-7, "1e-07"), (2 / 3, "0.6666666666666666")],
)  # fmt: skip
def test_whole_ratios_below_ten_to_the_seventeenth_are_integers(value: float, text: str) -> None:
    assert json.dumps(exact(value)) == text
    assert f'"kv_utilization":{text},'.encode() in encode_row(iteration(kv_utilization=exact(value)))


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=0))
def test_the_number_rule_keeps_the_value(value: float) -> None:
    assert exact(value) == value
    assert isinstance(exact(value), int) == (value < 1e17 and math.floor(value) == value)


@pytest.mark.parametrize(
    ("damage", "field"),
    [
        ((b'"stall":false', b'"stall":0'), "stall"),
        ((b'"kv_free":3', b'"kv_free":true'), "kv_free"),
        ((b'"kv_free":3', b'"kv_free":-3'), "kv_free"),
        ((b'"kv_free":3', b'"kv_free":3.0'), "kv_free"),
        ((b'"kv_free":3,', b""), "kv_free"),
        ((b'"kv_free":3', b'"kv_free":3,"kv_fre":3'), "kv_fre"),
        ((b'"decode_ids":[1]', b'"decode_ids":[0]'), "decode_ids[0]"),
        ((b'"iteration"', b'"iterations"'), "record_type"),
        ((b'"kv_utilization":0.25', b'"kv_utilization":0.250'), "row"),
        ((b'"kv_free":3', b'"kv_free": 3'), "row"),
        ((b'"kv_free":3', b'"kv_free":4,"kv_free":3'), None),
        ((b'{"cached', b'["cached'), None),
    ],
)
def test_a_damaged_row_is_refused_with_line_and_field(damage: tuple[bytes, bytes], field: str | None) -> None:
    text = encode_row(iteration())
    assert damage[0] in text
    with pytest.raises(DataError) as caught:
        decode_row(text.replace(*damage), PLACE)
    assert caught.value.line == 7
    assert str(caught.value).startswith("line 7: ")
    if field is not None:
        assert caught.value.field == field


def finished(**changes: object) -> RequestRow:
    row = request_row(
        internal_id=1,
        request_id="a",
        workload_class="chat",
        arrival_time_us=10,
        prompt_tokens=None,
        prompt_tokens_original=32,
        max_new_tokens=3,
        prefix_group=None,
        deadline_us=None,
        metadata=None,
        final_state="Finished",
        admitted_time_us=12,
        finish_time_us=40,
        decode_token_times_us=[20, 30, 40],
        prompt_tokens_matched=16,
    )
    return msgspec.structs.replace(row, **changes)


def test_derived_fields_follow_from_the_moments() -> None:
    row = finished()
    check_request(row, PLACE)
    assert (row.queue_delay_us, row.ttft_us, row.end_to_end_latency_us, row.tpot_us) == (2, 10, 30, 10)
    assert (row.prompt_tokens_scheduled, row.generated_tokens, row.inter_token_latencies_us) == (16, 3, [10, 10])


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"queue_delay_us": 3}, "queue_delay_us"),
        ({"ttft_us": None}, "ttft_us"),
        ({"end_to_end_latency_us": 31}, "end_to_end_latency_us"),
        ({"tpot_us": 10.5}, "tpot_us"),
        ({"inter_token_latencies_us": [10, 11]}, "inter_token_latencies_us"),
        ({"generated_tokens": 2}, "generated_tokens"),
        ({"first_token_time_us": 21}, "first_token_time_us"),
        ({"final_state": "Waiting"}, "admitted_time_us"),
        ({"final_state": "Decoding"}, "finish_time_us"),
        ({"max_new_tokens": 4}, "generated_tokens"),
        ({"prompt_tokens_scheduled": 15}, "prompt_tokens_scheduled"),
        ({"prompt_tokens_matched": 33}, "prompt_tokens_matched"),
        ({"prompt_tokens": [1]}, "prompt_tokens"),
        ({"admitted_time_us": 9, "queue_delay_us": -1}, "admitted_time_us"),
        ({"admitted_time_us": 25, "queue_delay_us": 15}, "first_token_time_us"),
    ],
)
def test_a_request_that_contradicts_itself_is_refused(changes: dict[str, object], field: str) -> None:
    with pytest.raises(DataError, match="line 7: ") as caught:
        check_request(finished(**changes), PLACE)
    assert caught.value.field == field


def test_a_request_without_output_finishes_without_a_token() -> None:
    row = request_row(
        internal_id=1, request_id="a", workload_class="chat", arrival_time_us=0, prompt_tokens=[],
        prompt_tokens_original=0, max_new_tokens=0, prefix_group=None, deadline_us=0, metadata={},
        final_state="Finished", admitted_time_us=0, finish_time_us=5, decode_token_times_us=[], prompt_tokens_matched=0,
    )  # fmt: skip
    check_request(row, PLACE)
    assert (row.ttft_us, row.tpot_us, row.end_to_end_latency_us) == (None, None, 5)


def test_a_whole_ratio_with_a_fraction_is_not_how_it_is_written() -> None:
    assert encode_row(iteration(kv_utilization=1.0)) == encode_row(iteration(kv_utilization=1))
    text = encode_row(iteration(kv_utilization=1)).replace(b'"kv_utilization":1,', b'"kv_utilization":1.0,')
    with pytest.raises(DataError, match="line 7: row: "):
        decode_row(text, PLACE)
