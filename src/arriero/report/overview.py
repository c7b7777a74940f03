"""Overview: the main figures of every result in one table; few stand side by side, many one below the other."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from arriero.report.document import Column, Table
from arriero.report.written import Unit, ratio

SIDE_BY_SIDE: Final = 5
"""Results that fit beside the names of their figures."""


class Row(NamedTuple):
    """One figure of every result."""

    label: str
    cells: Sequence[str]
    definition: str


def with_ratios(
    cells: Sequence[str], values: Sequence[float | None], bases: Sequence[float | None], unit: Unit
) -> list[str]:
    """Rates and latencies with how many times their base they are, in brackets; a base of None leaves it away."""
    if unit not in {Unit.RATE, Unit.TIME}:
        return list(cells)
    times = map(ratio, values, bases)
    return [f"{cell} ({each})" if each else cell for cell, each in zip(cells, times, strict=True)]


def overview(heads: Sequence[str], rows: Sequence[Row], caption: str) -> Table:
    """Definitions stand beside the figures where there is room; `heads` name the results."""
    if len(heads) > SIDE_BY_SIDE:
        columns = (Column("", is_number=False), *(Column(row.label) for row in rows))
        turned = zip(heads, *(row.cells for row in rows), strict=True)
        return Table(columns, tuple(turned), caption)
    definition = Column("definition", is_number=False, is_small=True)
    columns = (Column("", is_number=False), *(Column(head) for head in heads), definition)
    return Table(columns, tuple((row.label, *row.cells, row.definition) for row in rows), caption)
