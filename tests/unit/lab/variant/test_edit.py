import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.core.errors import DataError
from arriero.lab.variant.edit import lines_sha256, places, plan_edit, restore, write_edited
from arriero.record.cpu_lab.edit import Action, Anchor, Change, Edit
from tests.unit.lab.variant.tiny_project import TINY, write_project


def edit_of(*changes: Change) -> Edit:
    return Edit(name="e", says="something", package="tiny", version="1", changes=changes)


def change(anchor: Anchor, action: Action = Action.AFTER, text: str = "/* new */\n", file: str = "tiny.c") -> Change:
    return Change(file=file, anchor=anchor, action=action, text=text)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_project(tmp_path / "source")


def applied(root: Path, *changes: Change) -> str:
    (edited,) = plan_edit(edit_of(*changes), root, file="e.toml")
    return edited.after.decode()


def test_text_goes_before_after_and_in_place_of_an_anchor(root: Path) -> None:
    anchor = Anchor(pattern=r"^sum = sum")
    assert "    int sum   = value;\n/* new */\n    sum = sum" in applied(root, change(anchor, Action.BEFORE))
    assert "    sum = sum + value;\n/* new */\n    return helper" in applied(root, change(anchor))
    replaced = applied(root, change(anchor, Action.REPLACE))
    assert "int sum   = value;\n/* new */\n    return helper" in replaced
    assert "sum + value" not in replaced


def test_planning_writes_nothing_and_writing_keeps_what_was(root: Path, tmp_path: Path) -> None:
    edited = plan_edit(edit_of(change(Anchor(pattern="untouched"))), root, file="e.toml")
    assert (root / "tiny.c").read_text() == TINY
    write_edited(edited, keep=tmp_path / "kept", root=root)
    assert (root / "tiny.c").read_text() == edited[0].after.decode() != TINY
    assert (tmp_path / "kept" / "tiny.c").read_text() == TINY
    assert restore(tmp_path / "kept", root) == (Path("tiny.c"),)
    assert (root / "tiny.c").read_text() == TINY
    assert restore(tmp_path / "kept", root) == ()


def test_a_place_is_found_by_the_hash_of_its_lines_whatever_their_blanks(root: Path) -> None:
    sha256 = hashlib.sha256(b"int sum = value;\nsum = sum + value;").hexdigest()
    text = applied(root, change(Anchor(sha256=sha256, lines=2), Action.REPLACE, "    int sum = 4 * value;\n"))
    assert "{\n    int sum = 4 * value;\n    return helper" in text
    both = Anchor(pattern="int sum", sha256=sha256, lines=2)
    assert "/* new */" in applied(root, change(both))


def test_a_pattern_whose_lines_have_another_hash_is_refused(root: Path) -> None:
    anchor = Anchor(pattern="int sum", sha256="0" * 64, lines=2)
    with pytest.raises(DataError, match=r"changes\[0\]\.anchor: 0 places in tiny\.c, 1 wanted"):
        applied(root, change(anchor))


@pytest.mark.parametrize(
    ("anchor", "complaint"),
    [
        (Anchor(pattern="nowhere"), r"0 places in tiny\.c, 1 wanted; is it another version of the sources\?"),
        (Anchor(pattern="value"), r"6 places \(lines 3, 5, 6, 7, 11\) in tiny\.c, 1 wanted; make the anchor narrower"),
        (Anchor(pattern="return", occurrences=3), r"2 places \(lines 8, 12\) in tiny\.c, 3 wanted"),
    ],
)
def test_an_anchor_that_is_missing_or_not_unique_is_refused(root: Path, anchor: Anchor, complaint: str) -> None:
    with pytest.raises(DataError, match=complaint) as caught:
        applied(root, change(anchor))
    assert caught.value.field == "changes[0].anchor"
    assert (root / "tiny.c").read_text() == TINY


def test_a_change_can_be_asked_for_at_several_places(root: Path) -> None:
    assert applied(root, change(Anchor(pattern="^return", occurrences=2))).count("/* new */") == 2


def test_changes_of_the_same_lines_are_refused(root: Path) -> None:
    first = change(Anchor(pattern="int sum", lines=2), Action.REPLACE)
    second = change(Anchor(pattern=r"^sum = sum"), Action.REPLACE)
    with pytest.raises(DataError, match=r"changes\[1\]: changes lines that changes\[0\] changes too \(line 7\)"):
        applied(root, first, second)
    inside = change(Anchor(pattern=r"^sum = sum"), Action.BEFORE)
    with pytest.raises(DataError, match="changes too"):
        applied(root, first, inside)


def test_texts_at_one_place_keep_their_order(root: Path) -> None:
    anchor = Anchor(pattern=r"^sum = sum")
    text = applied(root, change(anchor, text="/* a */"), change(anchor, text="/* b */"))
    assert "/* a */\n/* b */\n" in text


def test_an_edit_that_changes_nothing_is_refused(root: Path) -> None:
    same = change(Anchor(pattern=r"^sum = sum"), Action.REPLACE, "    sum = sum + value;")
    with pytest.raises(DataError, match=r"changes\[0\]: changes nothing in tiny\.c"):
        applied(root, same)


def test_a_missing_file_is_told(root: Path) -> None:
    with pytest.raises(DataError, match=r"changes\[0\]\.file: other\.c is not among the sources"):
        applied(root, change(Anchor(pattern="x"), file="other.c"))


def test_one_wrong_change_keeps_every_file(root: Path) -> None:
    good = change(Anchor(pattern="extra"), file="extra.c")
    bad = change(Anchor(pattern="nowhere"))
    with pytest.raises(DataError):
        plan_edit(edit_of(good, bad), root, file="e.toml")


def test_line_ends_and_strange_bytes_stay(root: Path) -> None:
    (root / "tiny.c").write_bytes(b"one\r\n\xff\xfe two\r\nlast")
    (edited,) = plan_edit(edit_of(change(Anchor(pattern="last"), text="new\n")), root, file="e.toml")
    assert edited.after == b"one\r\n\xff\xfe two\r\nlast\r\nnew\r\n"
    assert (edited.facts.lines_added, edited.facts.lines_removed, edited.facts.places) == (1, 0, 1)


LINES = st.lists(st.text("ab {}", max_size=6), min_size=1, max_size=12)


@given(LINES, st.data())
def test_a_place_s_own_hash_finds_it(lines: list[str], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(lines) - 1))
    count = data.draw(st.integers(1, len(lines) - start))
    sha256 = lines_sha256(lines[start : start + count])
    assert start in list(places(Anchor(sha256=sha256, lines=count), lines))
    spaced = [f"\t {line.replace(' ', '   ')} " for line in lines]
    assert start in list(places(Anchor(sha256=sha256, lines=count), spaced))
