from pathlib import Path

import pytest

from arriero.core.errors import DataError
from arriero.record.cpu_lab.edit import Action, read_edit

HEAD = """schema_version = "arriero-lab-edit-v1"
name = "e"
says = "something"
package = "p"
version = "1"
"""
CHANGE = """
[[changes]]
file = "a/b.c"
action = "replace"
text = "x"
anchor = { pattern = "y" }
"""


def read(folder: Path, text: str) -> object:
    path = folder / "edit.toml"
    path.write_text(text)
    return read_edit(path)


def test_an_edit_is_read(tmp_path: Path) -> None:
    path = tmp_path / "edit.toml"
    path.write_text(HEAD + CHANGE)
    edit = read_edit(path)
    (change,) = edit.changes
    assert (change.file, change.action, change.text) == ("a/b.c", Action.REPLACE, "x")
    assert (change.anchor.occurrences, change.anchor.lines) == (1, 1)


@pytest.mark.parametrize(
    ("text", "field", "complaint"),
    [
        (HEAD.replace("-v1", "-v9") + CHANGE, "schema_version", "is not arriero-lab-edit-v1"),
        (HEAD, "changes", "missing"),
        (HEAD + "changes = []\n", "changes", "none; give at least one"),
        (HEAD + CHANGE.replace("a/b.c", "../b.c"), "changes[0].file", "leaves the sources"),
        (HEAD + CHANGE.replace("a/b.c", "/b.c"), "changes[0].file", "leaves the sources"),
        (HEAD + CHANGE.replace('pattern = "y"', ""), "changes[0].anchor", "give pattern or sha256"),
        (HEAD + CHANGE.replace('"y"', '"("'), "changes[0].anchor.pattern", "no regular expression"),
        (HEAD + CHANGE.replace('"y"', '"y", occurrences = 0'), "changes[0].anchor.occurrences", ">= 1"),
        (HEAD + CHANGE.replace('"y"', '"y", sha256 = "12"'), "changes[0].anchor.sha256", "matching regex"),
        (HEAD + CHANGE.replace("replace", "insert-after").replace('"x"', '" "'), "changes[0].text", "empty"),
        (HEAD + CHANGE.replace("replace", "delete"), "changes[0].action", "delete"),
        (HEAD + CHANGE + 'other = "z"\n', "changes[0].other", "unknown field"),
    ],
)
def test_a_damaged_edit_is_one_line_that_names_the_field(tmp_path: Path, text: str, field: str, complaint: str) -> None:
    with pytest.raises(DataError) as caught:
        read(tmp_path, text)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.field == field


def test_the_edits_that_ship_can_be_read() -> None:
    folder = Path(__file__).parents[4] / "definitions" / "lab" / "edits"
    edits = [read_edit(path) for path in sorted(folder.glob("*.toml"))]
    assert [edit.name for edit in edits] == ["packed-scale"]
