"""One kind of result file: what is written is read again, and a result that contradicts itself is neither."""

from pathlib import Path
from typing import Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.core.errors import ConfigError, DataError
from arriero.record.cpu_lab.pretty_json import pretty_json
from arriero.record.cpu_lab.result_file import ResultFile


class Bounds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    schema_version: Literal["bounds-v1"] = "bounds-v1"
    low: int
    high: int


def check(result: Bounds, file: str) -> None:
    if result.low > result.high:
        raise DataError("low: above high; mend it", file=file, field="low")


FILE = ResultFile(kind=Bounds, schema="bounds-v1", check=check)
WRONG = Bounds(low=2, high=1)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**62))
def test_what_is_encoded_is_decoded_and_encoded_again_as_the_same_bytes(low: int, width: int) -> None:
    result = Bounds(low=low, high=low + min(width, 2**63 - 1 - low))
    data = FILE.encode(result)
    assert FILE.decode(data, file="b.json") == result
    assert FILE.encode(FILE.decode(data, file="b.json")) == data


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "bounds.json"
    FILE.write(path, Bounds(low=1, high=2))
    assert FILE.read(path) == Bounds(low=1, high=2)
    assert path.read_bytes() == FILE.encode(Bounds(low=1, high=2))
    assert [each.name for each in tmp_path.iterdir()] == ["bounds.json"]


def test_a_result_that_contradicts_itself_is_refused_both_ways_and_the_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "bounds.json"
    FILE.write(path, Bounds(low=1, high=2))
    with pytest.raises(DataError, match="low: above high") as written:
        FILE.write(path, WRONG)
    assert (written.value.file, written.value.field) == (str(path), "low")
    assert FILE.read(path) == Bounds(low=1, high=2)
    path.write_bytes(path.read_bytes().replace(b'"low":1', b'"low":9'))
    with pytest.raises(DataError, match="low: above high") as read:
        FILE.read(path)
    assert read.value.file == str(path)


def test_another_schema_a_cut_file_and_no_file_are_refused(tmp_path: Path) -> None:
    data = FILE.encode(Bounds(low=1, high=2))
    with pytest.raises(DataError, match="is not bounds-v1"):
        FILE.decode(data.replace(b"bounds-v1", b"bounds-v2"), file="b.json")
    with pytest.raises(DataError, match="cut off"):
        FILE.decode(data[:-4], file="b.json")
    with pytest.raises(DataError, match="no such file"):
        FILE.read(tmp_path / "none.json")
    with pytest.raises(ConfigError, match="cannot be written"):
        FILE.write(tmp_path / "none" / "bounds.json", Bounds(low=1, high=2))


def test_json_for_people_has_a_line_a_field_in_the_order_of_the_declaration() -> None:
    text = pretty_json(Bounds(low=1, high=2))
    assert text == b'{\n  "schema_version": "bounds-v1",\n  "low": 1,\n  "high": 2\n}\n'
