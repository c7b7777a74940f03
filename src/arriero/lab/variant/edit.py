"""An edit applied to a tree of sources: all of its changes, or none.

Every anchor is looked up in the files as they are, so changes do not see one another and their order does not matter,
but for texts inserted at one place, which keep the order of the edit.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from arriero.core.errors import DataError
from arriero.record.cpu_lab.edit import Action, Anchor, Change, Edit
from arriero.record.cpu_lab.variant import EditedFile


class Edited(NamedTuple):
    """A file with its changes, not written yet."""

    path: Path
    before: bytes
    after: bytes
    facts: EditedFile


class _Span(NamedTuple):
    """Lines `start` to `end` (exclusive) give way to a text; empty for an insertion."""

    start: int
    end: int
    text: str
    place: str  # of the change, for complaints


def plan_edit(edit: Edit, root: Path, *, file: str) -> tuple[Edited, ...]:
    """What the edit makes of the files below `root`; nothing is written.

    Args:
        edit: read from `file`.
        root: of the sources.
        file: for complaints.

    Raises:
        DataError: a file is missing, an anchor is not found or found too often, changes overlap, or nothing changes.
    """
    by_file: dict[str, list[tuple[str, Change]]] = {}
    for index, change in enumerate(edit.changes):
        by_file.setdefault(change.file, []).append((f"changes[{index}]", change))
    return tuple(_edited(root, name, changes, file) for name, changes in by_file.items())


def write_edited(files: Sequence[Edited], *, keep: Path, root: Path) -> None:
    """Write the changed files; the ones that they replace are kept below `keep`, at the same relative paths."""
    for each in files:
        kept = keep / each.path.relative_to(root)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(each.before)
    for each in files:
        each.path.write_bytes(each.after)


def restore(keep: Path, root: Path) -> tuple[Path, ...]:
    """Put kept files back; returns their relative paths. Files that are as they were are not touched."""
    restored: list[Path] = []
    for kept in sorted(path for path in keep.rglob("*") if path.is_file()):
        relative = kept.relative_to(keep)
        data = kept.read_bytes()
        if (root / relative).read_bytes() != data:
            (root / relative).write_bytes(data)
            restored.append(relative)
        kept.unlink()
    return tuple(restored)


def normalised(line: str) -> str:
    """A line by which anchors are found: its words, one blank between them."""
    return " ".join(line.split())


def lines_sha256(lines: Sequence[str]) -> str:
    """What an anchor's `sha256` is: of normalised lines, joined by line feeds."""
    return hashlib.sha256("\n".join(map(normalised, lines)).encode(errors="surrogateescape")).hexdigest()


def places(anchor: Anchor, lines: Sequence[str]) -> Iterator[int]:
    """The first line of each place that an anchor means, counted from 0, ascending."""
    pattern = None if anchor.pattern is None else re.compile(anchor.pattern)
    for at in range(len(lines) - anchor.lines + 1):
        if pattern is not None and pattern.search(normalised(lines[at])) is None:
            continue
        if anchor.sha256 is None or lines_sha256(lines[at : at + anchor.lines]) == anchor.sha256:
            yield at


def _edited(root: Path, name: str, changes: Sequence[tuple[str, Change]], file: str) -> Edited:
    path = root / name
    try:
        before = path.read_bytes()
    except OSError:
        place = changes[0][0]
        what = f"{place}.file: {name} is not among the sources; are they those that the edit was written for?"
        raise DataError(what, file=file, field=f"{place}.file") from None
    text = before.decode("utf-8", errors="surrogateescape")
    lines = text.splitlines(keepends=True)
    ending = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    spans = [span for place, change in changes for span in _spans(place, change, lines, file)]
    after = _rewritten(lines, _in_order(spans, file), ending).encode("utf-8", errors="surrogateescape")
    if after == before:
        what = f"{changes[0][0]}: changes nothing in {name}; say another text"
        raise DataError(what, file=file, field=changes[0][0])
    facts = EditedFile(
        file=name,
        before_sha256=hashlib.sha256(before).hexdigest(),
        after_sha256=hashlib.sha256(after).hexdigest(),
        places=len(spans),
        lines_removed=sum(span.end - span.start for span in spans),
        lines_added=sum(len(span.text.splitlines()) for span in spans),
    )
    return Edited(path, before, after, facts)


def _spans(place: str, change: Change, lines: Sequence[str], file: str) -> Iterator[_Span]:
    found = list(places(change.anchor, lines))
    wanted = change.anchor.occurrences
    if len(found) != wanted:
        where = f"{len(found)} places" + (f" (lines {', '.join(str(at + 1) for at in found[:5])})" if found else "")
        remedy = "is it another version of the sources?" if len(found) < wanted else "make the anchor narrower"
        what = f"{place}.anchor: {where} in {change.file}, {wanted} wanted; {remedy}"
        raise DataError(what, file=file, field=f"{place}.anchor")
    for at in found:
        end = at + change.anchor.lines
        match change.action:
            case Action.BEFORE:
                yield _Span(at, at, change.text, place)
            case Action.AFTER:
                yield _Span(end, end, change.text, place)
            case Action.REPLACE:
                yield _Span(at, end, change.text, place)


def _in_order(spans: Sequence[_Span], file: str) -> Sequence[_Span]:
    """Ascending; texts inserted at one place stay in the order of the edit."""
    ordered = sorted(spans, key=lambda span: (span.start, span.end))
    for one, other in pairwise(ordered):
        if other.start < one.end:
            what = f"{other.place}: changes lines that {one.place} changes too (line {other.start + 1}); make them one"
            raise DataError(what, file=file, field=other.place)
    return ordered


def _rewritten(lines: Sequence[str], spans: Sequence[_Span], ending: str) -> str:
    parts: list[str] = []
    at = 0
    for span in spans:
        parts.extend(lines[at : span.start])
        if span.text and parts and not parts[-1].endswith(("\n", "\r")):
            parts.append(ending)  # the last line of a file that ends without one
        parts.extend(f"{line}{ending}" for line in span.text.splitlines())
        at = span.end
    parts.extend(lines[at:])
    return "".join(parts)
