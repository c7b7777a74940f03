"""Two runs of arriero's own mode side by side; what makes them unlike is said before any figure."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from arriero.record.lab_report import table_row
from arriero.record.sim_file import SimResult
from arriero.record.sim_report import COLUMNS, SimSummary, lookup, shown

OTHER_WORK: Final = "These runs have different workloads: their differences are not those of the settings alone."


class Difference(NamedTuple):
    """One figure of A and B."""

    name: str
    first: float | None
    second: float | None

    @property
    def delta(self) -> float | None:
        """B - A; None where one of them is undefined."""
        return None if self.first is None or self.second is None else self.second - self.first

    @property
    def percent(self) -> float | None:
        """The difference against A."""
        return None if self.delta is None or not self.first else self.delta / self.first * 100


def compare(first: SimResult, second: SimResult) -> list[Difference]:
    """Every figure of the summaries' columns."""
    return [Difference(name, lookup(first.summary, metric), lookup(second.summary, metric)) for name, metric in COLUMNS]


def cautions(first: SimResult, second: SimResult) -> Iterator[str]:
    """What a reader must know before the figures."""
    if first.run.workload_sha256 != second.run.workload_sha256:
        yield OTHER_WORK
    ours, theirs = first.run.config, second.run.config
    pairs: tuple[tuple[str, Any, Any], ...] = (
        ("costs of a step", ours.cost, theirs.cost),
        ("objectives", ours.slos, theirs.slos),
    )
    for what, one, other in pairs:
        if one != other:
            yield f"These runs have different {what}."
    if first.run.code.sha256 != second.run.code.sha256:
        yield "These runs were made by different versions of the code."
    for each in (first, second):
        yield from (f"{each.run.config.name}: {mark}" for mark in each.summary["marks"])


def as_markdown(first: SimSummary, second: SimSummary) -> str:
    """Cautions, then a table of the two; by their paths if their names are the same."""
    names = (first.name, second.name) if first.name != second.name else (first.result_path, second.result_path)
    lines = list(cautions(first.result, second.result))
    if lines:
        lines.append("")
    lines += [table_row(["metric", *names, "delta", "delta %"]), table_row(["---"] + ["---:"] * 4)]
    for each in compare(first.result, second.result):
        cells = (shown(each.first), shown(each.second), shown(each.delta, "+"), shown(each.percent, "+"))
        lines.append(table_row([each.name, *cells]))
    return "\n".join(lines) + "\n"
