"""Markdown of a document: everything but its pictures; the same document gives the same text."""

from collections.abc import Sequence
from types import MappingProxyType
from typing import Final, assert_never

from arriero.report.document import Alert, Column, Document, Facts, Fold, Level, Part, Picture, Table, Text

_WORDS: Final = MappingProxyType({
    Level.GOOD: "OK", Level.NOTE: "Note", Level.WARNING: "Warning", Level.BAD: "Attention",
})  # fmt: skip


def as_markdown(document: Document) -> str:
    """The whole text, ending in one line feed."""
    blocks = [f"# {document.title}", " · ".join(badge.text for badge in document.badges)]
    blocks.extend(_part(part) for part in document.lead)
    for section in document.sections:
        blocks.append(f"## {section.heading}")
        blocks.extend(_part(part) for part in section.parts)
    blocks.append(document.made_by)
    return "\n\n".join(block for block in blocks if block) + "\n"


def _part(part: Part) -> str:
    match part:
        case Text(text=text):
            return text
        case Alert(level=level, text=text):
            return f"**{_WORDS[level]}.** {text}"
        case Facts(heading=heading, rows=rows):
            lines = [_row([f"**{heading}**", ""]), _row(["---", "---"])]
            lines.extend(_row([name, f"`{value}`" if value else ""]) for name, value in rows)
            return "\n".join(lines)
        case Table():
            return _table(part)
        case Picture():
            return ""
        case Fold(heading=heading, parts=parts):
            return "\n\n".join([f"### {heading}", *map(_part, parts)])
        case _:
            assert_never(part)


def _table(table: Table) -> str:
    lines = [_row([column.label for column in table.columns]), _row([_rule(column) for column in table.columns])]
    notes = table.notes or ("",) * len(table.rows)
    for cells, note in zip(table.rows, notes, strict=True):
        lines.append(_row([f"{cells[0]} ({note})" if note else cells[0], *cells[1:]]))
    caption = f"**{table.caption}**\n\n" if table.caption else ""
    return caption + "\n".join(lines)


def _rule(column: Column) -> str:
    return "---:" if column.is_number else "---"


def _row(cells: Sequence[str]) -> str:
    escaped = (" ".join(cell.split()).replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"
