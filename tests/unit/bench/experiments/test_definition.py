"""Definitions are read strictly, both variants of them."""

from pathlib import Path

import msgspec
import pytest

from arriero.bench.experiments.definition import merged, read_definition
from arriero.core.errors import DataError


class Small(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    size: int
    inner: dict[str, int] = {}
    sizes: list[int] = []


TEXT = """
size = 3
sizes = [1, 2, 3]
inner = {a = 1, b = 2}

[quick]
sizes = [9]
inner = {b = 5}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(TEXT)
    return path


def test_the_quick_variant_is_put_over_the_full_one(file: Path) -> None:
    assert read_definition(file, Small) == Small(size=3, inner={"a": 1, "b": 2}, sizes=[1, 2, 3])
    assert read_definition(file, Small, quick=True) == Small(size=3, inner={"a": 1, "b": 5}, sizes=[9])


def test_the_command_line_is_put_over_both(file: Path) -> None:
    over = {"inner": {"b": 7}}
    assert read_definition(file, Small, over=over).inner == {"a": 1, "b": 7}
    assert read_definition(file, Small, quick=True, over=over).inner == {"a": 1, "b": 7}


@pytest.mark.parametrize("quick", [False, True])
def test_a_mistake_in_either_variant_is_refused_whichever_is_asked_for(file: Path, *, quick: bool) -> None:
    file.write_text(TEXT + 'colour = "red"\n')
    with pytest.raises(DataError, match="colour"):
        read_definition(file, Small, quick=quick)


@pytest.mark.parametrize(
    ("text", "word"), [("sizes = []", "size"), ("size = 3\nquick = 4", "quick: is no table"), ("size = ", "TOML")]
)
def test_what_breaks_the_format_is_refused(file: Path, text: str, word: str) -> None:
    file.write_text(text)
    with pytest.raises(DataError, match=word):
        read_definition(file, Small)


def test_a_missing_quick_variant_is_told(file: Path) -> None:
    file.write_text("size = 1")
    assert read_definition(file, Small).size == 1
    with pytest.raises(DataError, match="quick: missing"):
        read_definition(file, Small, quick=True)


def test_merging_replaces_what_is_no_table_on_both_sides() -> None:
    assert merged({"a": {"b": 1}, "c": [1]}, {"a": 2, "c": {"d": 3}}) == {"a": 2, "c": {"d": 3}}
