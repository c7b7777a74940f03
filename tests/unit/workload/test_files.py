"""Workload files: what the reader refuses and how it says so; what the writer writes."""

import hashlib
import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from arriero.core.errors import BadWorkload, ConfigError
from arriero.workload.files import read_workload, write_workload
from arriero.workload.records import COUNT_MAX, WorkloadRecord, numbered
from arriero.workload.tokens import PackedTokens
from tests.unit.workload.samples import SCHEMA, record

GOOD: dict[str, Any] = {
    "schema_version": SCHEMA,
    "request_id": "a",
    "arrival_time_us": 5,
    "prompt_token_count": 2,
    "max_new_tokens": 1,
    "workload_class": "chat",
}


def _line(**changes: object) -> bytes:
    return json.dumps({**GOOD, **changes}).encode()


def _error(tmp_path: Path, *lines: bytes) -> BadWorkload:
    path = tmp_path / "w.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(BadWorkload) as caught:
        read_workload(path)
    assert caught.value.file == str(path)
    return caught.value


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("schema_version", "serving-workload-v2", 'must be "serving-workload-v1"'),
        ("request_id", "", "non-empty string without tabs and line breaks"),
        ("request_id", 7, "non-empty string"),
        ("request_id", "a\tb", "without tabs"),
        *(("request_id", f"a{cut}", "line breaks") for cut in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"),
        ("arrival_time_us", True, "true and false are none"),
        ("arrival_time_us", -1, "from 0 to"),
        ("arrival_time_us", 1.0, "not 1.0"),
        ("arrival_time_us", None, "not null"),
        ("arrival_time_us", COUNT_MAX + 1, "2^63 - 1"),
        ("prompt_token_count", "2", 'not "2"'),
        ("max_new_tokens", False, "not false"),
        ("workload_class", "poetry", "one of chat, shared_system_prompt"),
        ("prompt_tokens", None, "int32 in a list, or left out, not null"),
        ("prefix_group", "", "non-empty string or left out"),
        ("prefix_group", None, "left out"),
        ("deadline_us", -3, "left out, not -3"),
        ("metadata", [], "an object or left out"),
    ],
    ids=count(),
)
def test_a_bad_value_is_named_with_line_field_and_rule(tmp_path: Path, field: str, value: object, says: str) -> None:
    error = _error(tmp_path, _line(), _line(**{"request_id": "b", field: value}))
    assert str(error).startswith(f"JSONL line 2: {field}: ")
    assert says in str(error)
    assert (error.line, error.field) == (2, field)
    assert "\n" not in str(error)


@pytest.mark.parametrize("token", [2**31, -(2**31) - 1, True, 1.0, "1", None])
def test_a_token_that_is_no_int32_is_named_by_its_index(tmp_path: Path, token: object) -> None:
    error = _error(tmp_path, _line(prompt_tokens=[1, token]))
    assert str(error).startswith("JSONL line 1: prompt_tokens[1]: must be int32")


@pytest.mark.parametrize("field", sorted(GOOD))
def test_a_missing_field_is_named(tmp_path: Path, field: str) -> None:
    error = _error(tmp_path, json.dumps({key: value for key, value in GOOD.items() if key != field}).encode())
    assert str(error).startswith(f"JSONL line 1: {field}: missing; must be ")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"", "blank; take the line out"),
        (b"  \t\r", "blank"),
        (b"{", "malformed JSON at column 2"),
        (b"[]", "is []; write one JSON object"),
        (b"null", "is null"),
        (b"\xef\xbb\xbf" + _line(), "malformed JSON"),
        (_line() + _line(), "malformed JSON at column"),
        (_line(request_id="b").replace(b'"b"', b'"\xff"'), "not UTF-8 at byte"),
        (_line(request_id="b").replace(b'"b"', b'"\\ud800"'), "request_id: half a surrogate pair"),
        (_line(metadata={"k": "b"}).replace(b'"b"', b'"\\udc00\\ud800"'), "metadata: half a surrogate pair"),
        (_line().replace(b'"a"', b'"a", "request_id": "b"'), "request_id: given twice"),
        (_line(metadata={"k": 1}).replace(b'"k": 1', b'"k": 1, "k": 2'), "k: given twice"),
        (_line(metadata={"k": float("nan")}), "NaN is no number in JSON"),
        (_line(metadata={"k": float("inf")}), "Infinity is no number in JSON"),
        (_line(arrival_time=3), "arrival_time: unknown field; did you mean arrival_time_us?"),
        (_line(zzz=3), "zzz: unknown field; put what is your own under metadata"),
        (_line(prompt_tokens=[1]), "prompt_token_count: is 2, but prompt_tokens has 1; make them equal"),
        (_line(prompt_tokens=[]), "prompt_token_count: is 2, but prompt_tokens has 0"),
        (_line(metadata={}).replace(b"{}", b'{"a":' * 5000 + b"1" + b"}" * 5000), "nested too deeply"),
        (_line(metadata={"k": 1}).replace(b'"k": 1', b'"k": ' + b"1" * 5000), "too many digits"),
        (_line(metadata={"k": 1}).replace(b'"k": 1', b'"k": 1e999'), "out of range"),
    ],
    ids=count(),
)
def test_a_line_that_is_no_record_says_why(tmp_path: Path, line: bytes, says: str) -> None:
    error = _error(tmp_path, _line(request_id="first"), line)
    assert str(error).startswith("JSONL line 2: ")
    assert says in str(error)


def test_an_id_that_was_used_before_is_an_error_at_its_second_use(tmp_path: Path) -> None:
    error = _error(tmp_path, _line(), _line(request_id="b"), _line())
    assert str(error) == "JSONL line 3: request_id: 'a' was used before; give each its own"


def test_lines_are_cut_at_newlines_only(tmp_path: Path) -> None:
    path = tmp_path / "w.jsonl"
    text = json.dumps({**GOOD, "metadata": {"k": "a\u2028b\u2029c\x85d"}}, ensure_ascii=False)
    path.write_bytes(text.encode() + b"\r\n" + _line(request_id="b"))  # no newline after the last one
    first, second = read_workload(path).records
    assert first.metadata == {"k": "a\u2028b\u2029c\x85d"}
    assert second.request_id == "b"


def test_an_empty_file_is_a_workload_and_an_empty_prompt_is_not_an_absent_one(tmp_path: Path) -> None:
    path = tmp_path / "w.jsonl"
    assert write_workload(path, []).num_records == 0
    assert read_workload(path).records == ()
    write_workload(path, [record("a", tokens=[]), record("b", prompt_token_count=0)], replace=True)
    first, second = read_workload(path).records
    assert first.prompt_tokens == PackedTokens()
    assert second.prompt_tokens is None


def test_a_file_that_is_not_there_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(BadWorkload, match="no such file") as caught:
        read_workload(tmp_path / "w.jsonl")
    assert caught.value.file == str(tmp_path / "w.jsonl")


def test_the_writer_spells_numbers_and_text_as_the_standard_library(tmp_path: Path) -> None:
    metadata = {"ü": 1e16, "a": [1e-7, 2**70, {"z": -0.0, "b": None}], "t": 'é\u2028\x7f\x00"\\/😀'}
    path = tmp_path / "w.jsonl"
    written = write_workload(path, [record("é", tokens=[1, 2], metadata=metadata, deadline_us=4, prefix_group="g")])
    values = {
        "schema_version": SCHEMA,
        "request_id": "é",
        "arrival_time_us": 0,
        "prompt_token_count": 2,
        "max_new_tokens": 2,
        "workload_class": "mixed",
        "prompt_tokens": [1, 2],
        "metadata": metadata,
        "deadline_us": 4,
        "prefix_group": "g",
    }
    expected = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
    assert path.read_bytes() == expected
    assert written.sha256 == hashlib.sha256(expected).hexdigest() == read_workload(path).sha256


@pytest.mark.parametrize(
    "bad",
    [
        record("b", arrival_time_us=-1),
        record("b", prompt_token_count=True),
        record("b\n"),
        record("\ud800"),
        record("b", tokens=[1, 2], prompt_token_count=3),
        record("b", metadata={"k": float("nan")}),
        record("b", metadata={"k": object()}),
        record("a"),
    ],
    ids=count(),
)
def test_the_writer_refuses_what_the_reader_would_and_leaves_no_file(tmp_path: Path, bad: WorkloadRecord) -> None:
    with pytest.raises(BadWorkload) as caught:
        write_workload(tmp_path / "w.jsonl", [record("a"), bad])
    assert str(caught.value).startswith("JSONL line 2: ")
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_replaced_only_on_request_and_stays_whole_until_then(tmp_path: Path) -> None:
    path = tmp_path / "w.jsonl"
    write_workload(path, [record("a")])
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="exists already"):
        write_workload(path, [record("b")])
    with pytest.raises(BadWorkload):
        write_workload(path, [record("b"), record("b")], replace=True)
    assert path.read_bytes() == before
    write_workload(path, [record("b")], replace=True)
    assert path.read_bytes() != before
    assert list(tmp_path.iterdir()) == [path]


def test_a_path_that_cannot_be_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no regular file"):
        write_workload(tmp_path, [])
    with pytest.raises(ConfigError, match="cannot be written"):
        write_workload(tmp_path / "none" / "w.jsonl", [])


def test_numbers_follow_arrival_then_the_code_points_of_the_id() -> None:
    records = [record("2", 5), record("10", 5), record("z", 4), record("\U0001f600", 5), record("\uffff", 5)]
    assert [each.request_id for each in numbered(records)] == ["z", "10", "2", "\uffff", "\U0001f600"]
