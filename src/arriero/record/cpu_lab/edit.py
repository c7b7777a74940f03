"""Edit: a change of somebody else's sources, told by where it goes and by what we put there.

No line of the sources stands in an edit. A place is found by an anchor: a short pattern that so many lines match, or
the SHA-256 of normalised lines, or both. Lines are normalised by making every stretch of white space one blank.
"""

import re
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Final, Literal

from arriero.core.errors import DataError
from arriero.record.bench_parts import BenchPart
from arriero.record.strict import Name, Positive, Sha256, convert, read_table

SCHEMA: Final = "arriero-lab-edit-v1"


class Action(StrEnum):
    """What is done at an anchor."""

    BEFORE = "insert-before"
    AFTER = "insert-after"
    REPLACE = "replace"


class Anchor(BenchPart, frozen=True, kw_only=True):
    """A place in a file.

    Attributes:
        pattern: regular expression that is searched in normalised lines; null if the hash alone says the place.
        sha256: of the normalised lines, joined by line feeds; null if the pattern alone says it.
        lines: that belong to the place, from the one that matches on.
        occurrences: places that there must be; the change is made at each.
    """

    pattern: Name | None = None
    sha256: Sha256 | None = None
    lines: Positive = 1
    occurrences: Positive = 1


class Change(BenchPart, frozen=True, kw_only=True):
    """One change of one file.

    Attributes:
        file: below the root of the sources, with slashes.
        anchor: where.
        action: what.
        text: of our own; whole lines. Empty only where lines are taken out.
    """

    file: Name
    anchor: Anchor
    action: Action
    text: str


class Edit(BenchPart, frozen=True, kw_only=True):
    """A named edit.

    Attributes:
        schema_version: of the file.
        name: as in tables and folders.
        says: what it changes and why that keeps the results.
        package, version: of the binding whose sources it was written for; others are tried, and their anchors decide.
        changes: at least one.
    """

    schema_version: Literal["arriero-lab-edit-v1"] = SCHEMA
    name: Name
    says: Name
    package: Name
    version: Name
    changes: tuple[Change, ...]


def read_edit(path: Path) -> Edit:
    """An edit from a TOML (or JSON) file.

    Raises:
        DataError: it cannot be read, or a field cannot work.
    """
    file = str(path)
    values = read_table(path)
    found = values.get("schema_version")
    if found != SCHEMA:
        raise DataError(f"schema_version: {found!a} is not {SCHEMA}; name an edit", file=file, field="schema_version")
    edit = convert(values, Edit, file=file)
    if not edit.changes:
        raise DataError("changes: none; give at least one", file=file, field="changes")
    for index, change in enumerate(edit.changes):
        _check(change, file, f"changes[{index}]")
    return edit


def _check(change: Change, file: str, place: str) -> None:
    path = PurePosixPath(change.file)
    if path.is_absolute() or ".." in path.parts or "\\" in change.file:
        what = f"{place}.file: {change.file} leaves the sources; name a file below their root"
        raise DataError(what, file=file, field=f"{place}.file")
    if not change.text.strip() and change.action is not Action.REPLACE:
        raise DataError(f"{place}.text: empty; say what is inserted", file=file, field=f"{place}.text")
    _check_anchor(change.anchor, file, f"{place}.anchor")


def _check_anchor(anchor: Anchor, file: str, place: str) -> None:
    if anchor.pattern is None and anchor.sha256 is None:
        raise DataError(f"{place}: no place; give pattern or sha256", file=file, field=place)
    try:
        re.compile(anchor.pattern or "")
    except re.error as error:
        what = f"{place}.pattern: no regular expression ({error}); mend it"
        raise DataError(what, file=file, field=f"{place}.pattern") from None
