"""Table of the machine code of symbols in two builds."""

from collections.abc import Mapping

from arriero.record.cpu_lab.code_difference import CodeDifference
from arriero.report.document import Column, Table
from arriero.report.written import Unit, written


def code_table(differences: tuple[CodeDifference, ...], caption: str) -> Table:
    """One row a symbol: sizes, counts and what became more or less."""
    columns = (
        Column("symbol", is_number=False), Column("bytes"), Column("instructions"), Column("changed lines"),
        Column("fewer", is_number=False, is_small=True), Column("more", is_number=False, is_small=True),
    )  # fmt: skip
    rows = tuple(
        (
            f"`{each.symbol}`",
            _both(each, "size_bytes"),
            _both(each, "instructions"),
            written(each.changed_lines, Unit.COUNT),
            _counts(each.removed),
            _counts(each.added),
        )
        for each in differences
    )
    return Table(columns, rows, caption)


def _both(difference: CodeDifference, name: str) -> str:
    """From baseline to the other build."""
    values = (getattr(side, name) if side is not None else None for side in (difference.before, difference.after))
    return " → ".join(written(value, Unit.COUNT) for value in values)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items(), key=lambda each: (-each[1], each[0])))
