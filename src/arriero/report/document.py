"""Document: what a report says, before it becomes a page or Markdown.

document  →  sections  →  parts: texts, alerts, facts, tables, pictures
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias


class Level(StrEnum):
    """How much an alert matters."""

    GOOD = "good"
    NOTE = "note"
    WARNING = "warning"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph; words between backquotes are code."""

    text: str


@dataclass(frozen=True, slots=True)
class Alert:
    """Something that must be read first."""

    level: Level
    text: str


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and values, such as where a result comes from; a page shows them when they are asked for."""

    heading: str
    rows: tuple[tuple[str, str], ...]


class Column(NamedTuple):
    """One column of a table."""

    label: str
    is_number: bool = True
    is_small: bool = False  # a definition beside numbers


@dataclass(frozen=True, slots=True)
class Table:
    """Cells as they are shown; a cell may be empty.

    Attributes:
        notes: a line in small letters below the first cell of each row, such as a definition; empty for none at all.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure that was drawn.

    Attributes:
        key: unique in the document; also the name of its file.
        title: what it shows.
        caption: how to read it, and how much of the data it draws.
        fragment: SVG for a page.
    """

    key: str
    title: str
    caption: str
    fragment: str


@dataclass(frozen=True, slots=True)
class Fold:
    """Parts that a page shows when they are asked for."""

    heading: str
    parts: tuple["Text | Table", ...]
    is_open: bool = False


Part: TypeAlias = Text | Alert | Facts | Table | Picture | Fold


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Parts under a heading.

    Attributes:
        key: unique in the document; the target of links.
    """

    key: str
    heading: str
    parts: tuple[Part, ...]


class Badge(NamedTuple):
    """A word beside the title."""

    level: Level
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A whole report."""

    title: str
    badges: tuple[Badge, ...]
    lead: tuple[Part, ...]
    sections: tuple[Section, ...]
    made_by: str


def present(parts: Sequence[Part | None]) -> tuple[Part, ...]:
    """Those that are there."""
    return tuple(part for part in parts if part is not None)
