"""Cells of the lab's tables: figures, percentages, settings, and captions that end with the label of the evidence."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from arriero.metrics.spread import Spread
from arriero.record.cpu_lab.run_key import RunKey
from arriero.report.cpu_lab.setting_words import Shown, Wording
from arriero.report.document import Column, Table
from arriero.report.written import UNDEFINED


def number(value: float | None, form: str = ",.2f") -> str:
    """A figure, or a dash where it is undefined."""
    return UNDEFINED if value is None else format(value, form)


def percent(value: float | None, form: str = ".2f") -> str:
    """A ratio as percent."""
    return UNDEFINED if value is None else f"{100 * value:{form}} %"


def with_end(value: float | None, end: float | None) -> str:
    """A figure with the upper end of its interval, where it has one."""
    shown = number(value, ".4f")
    return shown if value is None or end is None or end == value else f"{shown} (to {end:.4f})"


def change(ratio: float | None) -> str:
    """A ratio as a change in percent, with its sign."""
    return UNDEFINED if ratio is None else f"{100 * (ratio - 1):+.1f} %"


def mean_of(found: Spread | None) -> float | None:
    """Of the repetitions, where there are any."""
    return None if found is None else found.mean


def range_of(found: Spread) -> str:
    """Least and greatest repetition; a dash where there is one alone."""
    return UNDEFINED if found.n == 1 else f"{number(found.minimum)} to {number(found.maximum)}"


def cv_of(found: Spread | None) -> str:
    """Of several repetitions; a dash where there is one alone, which says nothing of how they vary."""
    return percent(None if found is None or found.n == 1 else found.cv)


def setting_heads(columns: Iterable[Shown]) -> tuple[Column, ...]:
    """One column for each field that differs within the report."""
    return tuple(Column(each.label, is_number=each.is_number) for each in columns)


def setting_cells(columns: Iterable[Shown], key: RunKey) -> tuple[str, ...]:
    """The values of one setting."""
    return tuple(each.text(key) for each in columns)


def labelled_caption(words: str, wording: Wording, keys: Iterable[RunKey]) -> str:
    """Words, and what kind of figures the settings have."""
    return f"{words} ({wording.evidence(keys)})"


def with_reasons(table: Table, reasons: Sequence[str | None]) -> Table:
    """The same with a last column that says of each row why it has no ratio; as it is where every row has one."""
    if not any(reasons):
        return table
    why = Column("why no ratio", is_number=False, is_small=True)
    rows = tuple((*row, reason or "") for row, reason in zip(table.rows, reasons, strict=True))
    return replace(table, columns=(*table.columns, why), rows=rows)
