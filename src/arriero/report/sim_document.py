"""The document of simulated and recorded runs."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from arriero.core.version import VERSION
from arriero.report.comparison import Comparison, compared
from arriero.report.document import (
    Alert,
    Badge,
    Column,
    Document,
    Facts,
    Fold,
    Level,
    Part,
    Picture,
    Section,
    Table,
    Text,
    present,
)
from arriero.report.latencies import ITL, LATENCIES, STATISTICS, Measured
from arriero.report.measures import GROUPS, OVERVIEW, Group
from arriero.report.overview import Row, overview, with_ratios
from arriero.report.run_view import WORKLOAD, RunView
from arriero.report.written import Unit, labelled, written

MADE_BY: Final = f"Made by arriero {VERSION}."
_HOW: Final = (
    "Percentiles are by nearest rank: each is a value that occurred. There is no p99 below 100 samples.",
    (
        "What is undefined, or not recorded, is a dash and never 0. Censored requests did not finish and lack the "
        "latency; they count as larger than every sample, so a percentile that falls among them is a dash."
    ),
    (
        "What has more parts than a figure can show is thinned, and the words below the figure say how: a curve over "
        "time becomes equal bins, each with the mean over its time and a thin line at its highest value; a "
        "distribution keeps samples only; a Gantt shows neighbours by arrival around the moment when most waited."
    ),
    "The same results give the same page, byte for byte.",
)


def comparison_of(runs: Sequence[RunView]) -> Comparison:
    """What the runs have in common."""
    return compared([run.name for run in runs], [run.traits for run in runs], WORKLOAD)


def sim_document(every: Sequence[Measured], pictures: Mapping[str, Picture]) -> Document:
    """Everything about one run or several.

    Args:
        every: the runs, in the order in which they are shown.
        pictures: by key; those that are missing are left out.
    """
    runs = [each.run for each in every]
    comparison = comparison_of(runs)
    labels = dict.fromkeys(run.evidence for run in runs)
    badges = [Badge(Level.NOTE, label) for label in labels]
    if len(runs) > 1:
        badges.append(
            Badge(Level.GOOD, "same workload") if comparison.is_fair else Badge(Level.BAD, "different workloads")
        )
    sections = [
        Section(key="overview", heading="Overview", parts=(_overview(every, comparison),)),
        _distributions(pictures),
        *(_run(each, f"run-{number}", pictures, is_alone=len(runs) == 1) for number, each in enumerate(every, start=1)),
        Section(key="reading", heading="How to read this", parts=tuple(map(Text, _HOW))),
    ]
    return Document(
        title=_title(runs),
        badges=tuple(badges),
        lead=(*_evidence(runs), *comparison.parts()),
        sections=tuple(section for section in sections if section.parts),
        made_by=MADE_BY,
    )


def _title(runs: Sequence[RunView]) -> str:
    what = "Simulation" if all(run.evidence == "SIMULATED" for run in runs) else "Recorded"
    return f"{what}: {runs[0].name}" if len(runs) == 1 else f"{what}: {len(runs)} runs"


def _evidence(runs: Sequence[RunView]) -> tuple[Part, ...]:
    labels = {run.evidence for run in runs}
    if labels == {"SIMULATED"}:
        return (Text("Every figure here is SIMULATED: the scheduler ran against a cost model, not against a model."),)
    if labels == {"MEASURED"}:
        return (Text("Every figure here is MEASURED by the clock of the engine that wrote the journal."),)
    return (Alert(Level.WARNING, "Some results are MEASURED and some SIMULATED: see the label in each row."),)


def _overview(every: Sequence[Measured], comparison: Comparison) -> Table:
    """Behind the figures of all but the first run, how many times the first one's, where that may be said."""
    shows_ratios = len(every) > 1 and comparison.is_fair
    rows = [Row("evidence", [each.run.evidence for each in every], "what the figures are")]
    for measure in OVERVIEW:
        values = [measure.of(each) for each in every]
        cells = [written(value, measure.unit) for value in values]
        if shows_ratios:
            cells = with_ratios(cells, values, [None, *values[:1] * (len(values) - 1)], measure.unit)
        rows.append(Row(labelled(measure.label, measure.unit), cells, measure.definition))
    caption = "In brackets: times the figure of the first run." if shows_ratios else ""
    return overview([each.run.name for each in every], rows, caption)


def _distributions(pictures: Mapping[str, Picture]) -> Section:
    found = tuple(picture for key, picture in pictures.items() if key.startswith("cdf"))
    return Section(key="distributions", heading="Distributions", parts=found)


def _run(measured: Measured, key: str, pictures: Mapping[str, Picture], *, is_alone: bool) -> Section:
    run = measured.run
    return Section(
        key=key,
        heading=run.name,
        parts=present([
            *_cautions(run),
            pictures.get(f"timeline-{key}"),
            pictures.get(f"gantt-{key}"),
            _latency_table(measured),
            Fold("All figures of this run", _all_figures(measured), is_open=is_alone),
            Facts("Where this result comes from", tuple(run.facts)),
        ]),
    )


def _cautions(run: RunView) -> list[Part]:
    requests = run.requests
    left = requests.num_requests - int(requests.ended_as("finished", "cancelled").sum())
    found: list[Part] = []
    if not requests.num_requests:
        found.append(Alert(Level.WARNING, "The workload has no requests."))
    if left:
        text = f"{left:,} of {requests.num_requests:,} requests did not end normally; rates count those that did."
        found.append(Alert(Level.WARNING, text))
    found.extend(Alert(Level.NOTE, note) for note in run.notes)
    return found


def _latency_table(measured: Measured) -> Table:
    columns = (Column("latency (ms)", is_number=False), Column("of", is_number=False), *map(Column, STATISTICS))
    rows: list[tuple[str, ...]] = []
    notes: list[str] = []
    for latency in LATENCIES:
        rows.append((latency.label, "finished", *_statistics(measured.finished[latency.name])))
        rows.append(("", "everybody", *_statistics(measured.everybody[latency.name])))
        notes.extend((latency.definition, ""))
    rows.append((ITL.label, "all gaps", *_statistics(measured.itl)))
    notes.append(ITL.definition)
    return Table(columns, tuple(rows), "Latencies", tuple(notes))


def _statistics(distribution: Mapping[str, Any]) -> list[str]:
    cells: list[str] = []
    for name in STATISTICS:
        value = distribution.get(name)
        unit = Unit.COUNT if name in {"n", "censored"} else Unit.TIME
        cells.append(written(None if value is None or isinstance(value, dict) else value, unit))
    return cells


def _all_figures(measured: Measured) -> tuple[Table, ...]:
    tables = [*(_group_table(group, measured) for group in GROUPS), _window_table(measured.run.window)]
    return tuple(table for table in tables if table is not None)


def _group_table(group: Group, measured: Measured) -> Table | None:
    """What is undefined for everybody of the format is left out of a page, and stays in CSV."""
    columns = (
        Column("", is_number=False), Column("value"), Column("definition", is_number=False, is_small=True),
    )  # fmt: skip
    shown = [(measure, measure.of(measured)) for measure in group.measures]
    rows = tuple(
        (labelled(measure.label, measure.unit), written(value, measure.unit), measure.definition)
        for measure, value in shown
        if value is not None
    )
    return Table(columns, rows, group.heading) if rows else None


def _window_table(window: Mapping[str, Any] | None) -> Table | None:
    """Figures of the steady part, if the configuration names one."""
    if window is None:
        return None
    shown = [(label, window[name], unit) for name, label, unit in _WINDOWED]
    rows = tuple(
        (labelled(label, unit), written(None if isinstance(value, dict) else value, unit))
        for label, value, unit in shown
    )
    begins, ends = (written(window[name], Unit.SPAN) for name in ("begins_at_us", "ends_at_us"))
    return Table((Column("", is_number=False), Column("value")), rows, f"Steady window, {begins} s to {ends} s")


_WINDOWED: Final = (
    ("offered_per_s", "offered requests/s", Unit.RATE),
    ("requests_per_s", "requests/s", Unit.RATE),
    ("output_tokens_per_s", "output tokens/s", Unit.RATE),
    ("prompt_tokens_computed_per_s", "prompt tokens/s computed", Unit.RATE),
    ("prompt_tokens_cached_per_s", "prompt tokens/s from cache", Unit.RATE),
    ("good_requests_per_s", "goodput", Unit.RATE),
    ("good_of_submitted", "good of submitted", Unit.SHARE),
    ("good_of_finished", "good of finished", Unit.SHARE),
)
