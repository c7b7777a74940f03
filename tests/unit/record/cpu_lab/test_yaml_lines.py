"""Strict YAML: values, the lines they stand in, and everything that is refused."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.core.errors import DataError
from arriero.record.cpu_lab.yaml_lines import field_name, parse_yaml, read_yaml

TEXT = b"""\
# a comment
threads: [1, 2]
models:
  - id: a
    path: x.gguf
  - {id: b, path: 'y.gguf'}
mmap: true
note:
ratio: 1.5e3
below: -2
"""


def refused(text: bytes) -> tuple[int | None, str]:
    with pytest.raises(DataError) as caught:
        parse_yaml(text, file="c.yaml")
    return caught.value.line, str(caught.value)


def test_values_are_plain_and_every_path_has_its_line() -> None:
    found = parse_yaml(TEXT, file="c.yaml")
    assert found.value == {
        "threads": [1, 2],
        "models": [{"id": "a", "path": "x.gguf"}, {"id": "b", "path": "y.gguf"}],
        "mmap": True,
        "note": None,
        "ratio": 1500.0,
        "below": -2,
    }
    assert found.line_of(("threads",)) == 2
    assert found.line_of(("models", 0, "path")) == 5
    assert found.line_of(("models", 1, "path")) == 6
    assert found.line_of(("models", 1, "sha256")) == 6, "what is missing stands where it should"
    assert found.line_of(("elsewhere",)) == 2, "the table begins there"


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        (b"a: 1\nb: 2\na: 3\n", 3, "a: stands twice, first in line 1"),
        (b"a:\n  b: 1\n  b: 1\n", 3, "a.b: stands twice"),
        (b"a: 1\n b: 2\n", 2, "malformed YAML"),
        (b"a: [1, 2\n", 2, "malformed YAML"),
        (b"a: &x 1\nb: *x\n", 1, "anchors"),
        (b"a: *x\n", 1, "anchors"),
        (b"base: {b: 1}\na:\n  <<: {b: 1}\n", 3, "merge keys"),
        (b"a: 1\n---\nb: 2\n", 2, "second document"),
        (b"a: !!python/object:os.system x\n", 1, "tag"),
        (b"a: !mine x\n", 1, "tag"),
        (b"x: 1\na: !!str 5\n", 2, "tag"),
        (b"a: !!map {}\n", 1, "tag"),
        (b"x: 1\na: yes\n", 2, "truth value"),
        (b"a: off\n", 1, "truth value"),
        (b"a: 010\n", 1, "more than one way"),
        (b"a: 0x10\n", 1, "more than one way"),
        (b"a: 1:30\n", 1, "more than one way"),
        (b"a: .nan\n", 1, "more than one way"),
        (b"a: .inf\n", 1, "more than one way"),
        (b"a: 2026-01-01\n", 1, "more than one way"),
        (b"a: 1_000\n", 1, "more than one way"),
        (b"a: 1.0e999\n", 1, "too large"),
        (b"a: " + b"9" * 5000 + b"\n", 1, "too large"),
        (b'a: "\\0"\n', 1, "a zero byte"),
        (b'a: "\\ud800"\n', 1, "half a character"),
        (b"? [a, b]\n: 1\n", 1, "a key is a list"),
        (b"", 1, "holds nothing"),
        (b"# nothing but words\n", 1, "holds nothing"),
    ],
)
def test_what_is_refused_is_refused_with_its_line(text: bytes, line: int, what: str) -> None:
    found, message = refused(text)
    assert (found, what in message) == (line, True), message


def test_words_in_quotes_stay_words() -> None:
    assert parse_yaml(b"a: 'yes'\nb: \"010\"\nc: q8_0\nd: '1'\n", file="c").value == {
        "a": "yes",
        "b": "010",
        "c": "q8_0",
        "d": "1",
    }


def test_what_is_no_text_or_no_file_is_told(tmp_path: Path) -> None:
    assert "UTF-8" in refused(b"a: \xff\n")[1]
    with pytest.raises(DataError, match="no such file"):
        read_yaml(tmp_path / "none.yaml")
    assert "nesting" in refused(b"[" * 5000 + b"]" * 5000)[1]


def test_a_path_is_told_as_a_person_writes_it() -> None:
    assert field_name(("models", 0, "path")) == "models[0].path"
    assert field_name(()) == ""


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"], exclude_characters="\0"))
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abcxyz", min_size=1), inner, max_size=4),
)


@given(VALUES.filter(lambda value: value is not None))
def test_what_json_writes_is_read_back(value: object) -> None:
    """JSON with escapes is YAML; so every value has a spelling that is read as itself."""
    assert parse_yaml(json.dumps(value).encode(), file="c").value == value


@given(st.text("ab:-[]{},&*!#'\"\n 1<?|>%@`", max_size=30))
def test_anything_else_is_a_value_or_one_line_of_complaint(text: str) -> None:
    complaint = ""
    try:
        parse_yaml(text.encode(), file="c.yaml")
    except DataError as error:
        complaint = str(error)
    assert "\n" not in complaint
