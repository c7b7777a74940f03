"""The document of a load generator's results: first whether they may be believed, then the figures."""

from collections.abc import Mapping, Sequence
from typing import Final

from arriero.core.version import VERSION
from arriero.metrics.client_figures import ClientSummary, Distribution, LatencyTable
from arriero.metrics.definitions import Definitions
from arriero.metrics.validity import Flag, Validity
from arriero.report.bench_facts import machine_rows, result_rows, run_rows, schedule_rows, target_rows
from arriero.report.bench_tables import (
    attainment_table,
    calibration_table,
    error_table,
    instrument_table,
    latency_table,
    load_table,
    outcome_table,
    rate_table,
)
from arriero.report.bench_traits import comparison_of
from arriero.report.bench_view import BenchView, PointView
from arriero.report.client_words import LABELS, figure_of
from arriero.report.comparison import Comparison
from arriero.report.document import (
    Alert,
    Badge,
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
from arriero.report.overview import Row, overview, with_ratios
from arriero.report.written import Unit, written

MADE_BY: Final = f"Made by arriero {VERSION}."
LEVELS: Final[Mapping[Flag, Level]] = {Flag.VALID: Level.GOOD, Flag.DEGRADED: Level.WARNING, Flag.INVALID: Level.BAD}
_CLOSED: Final = (
    "A closed loop sends only when an answer has come, so a stall delays the requests that would have shown it: these "
    "figures say nothing about stalls under independent arrivals."
)
_NO_LIVES: Final = (
    "The raw log was not kept, so there are no distributions and no timelines; run again without `--no-raw`."
)
_MORE: Final = "Rates, objectives, instrument and machine"
_ARRIVAL: Final = (
    "Latencies count from the intended send in an open loop and from the actual send in a closed one; "
    "service latencies always count from the actual send."
)


def bench_document(views: Sequence[BenchView], definitions: Definitions, pictures: Mapping[str, Picture]) -> Document:
    """Everything about one result or several.

    Args:
        views: in the order in which they are shown.
        definitions: that their figures follow.
        pictures: by key; those that are missing are left out.
    """
    comparison = comparison_of(views)
    sections = [
        Section(key="overview", heading="Overview", parts=(_overview(views, comparison),)),
        _pictured("load", "Over the load", "sweep", pictures),
        _pictured("distributions", "Distributions", "cdf", pictures),
    ]
    for number, view in enumerate(views, start=1):
        sections.extend(_point(view, point, definitions, pictures) for point in view.points)
        sections.append(_provenance(view, f"result-{number}"))
    sections.append(Section(key="reading", heading="How to read this", parts=tuple(map(Text, _how(definitions)))))
    names = ", ".join(dict.fromkeys(view.result.target.name for view in views))
    return Document(
        title=f"Load test: {names}",
        badges=_badges(views),
        lead=(
            *validity_alerts([(view.name, view.result.validity) for view in views]),
            *_cautions(views),
            *comparison.parts(),
        ),
        sections=tuple(section for section in sections if section.parts),
        made_by=MADE_BY,
    )


def validity_alerts(named: Sequence[tuple[str, Validity]]) -> tuple[Alert, ...]:
    """The flag of each result, with its reasons; the first thing that is read."""
    found: list[Alert] = []
    for name, validity in named:
        reasons = f": {'; '.join(validity.reasons)}" if validity.reasons else ": no limit was broken"
        found.append(Alert(LEVELS[validity.flag], f"{name} is {validity.flag.value}{reasons}."))
    return tuple(found)


def _badges(views: Sequence[BenchView]) -> tuple[Badge, ...]:
    flags = dict.fromkeys(view.result.validity.flag for view in views)
    labels = dict.fromkeys(view.result.evidence.value for view in views)
    loops = dict.fromkeys(point.summary.loop for view in views for point in view.points)
    return (
        *(Badge(LEVELS[flag], flag.value) for flag in flags),
        *(Badge(Level.NOTE, label) for label in labels),
        *(Badge(Level.NOTE, f"{loop} loop") for loop in loops),
    )


def _cautions(views: Sequence[BenchView]) -> list[Part]:
    found: list[Part] = []
    points = [point for view in views for point in view.points]
    if any(point.summary.loop == "closed" for point in points):
        found.append(Alert(Level.NOTE, _CLOSED))
    if not all(point.point.keeps_lives for point in points):
        found.append(Alert(Level.NOTE, _NO_LIVES))
    if len({view.result.evidence for view in views}) > 1:
        found.append(Alert(Level.WARNING, "The results are of different kinds of evidence: see the label in each row."))
    return found


def _overview(views: Sequence[BenchView], comparison: Comparison) -> Table:
    """Behind the figures of all but the first result, how many times the first one's, where that may be said."""
    points = [(view, point) for view in views for point in view.points]
    num_first = len(views[0].points) if len(views) > 1 and comparison.is_fair else 0
    rows = [
        Row("validity", [point.point.validity.flag.value for _, point in points], "whether the client kept up"),
        Row("evidence", [view.result.evidence.value for view, _ in points], "what the figures are"),
    ]
    for name, label, definition in _RATES:
        rates: list[float | None] = [getattr(point.summary.window, name) for _, point in points]
        cells = [written(rate, Unit.RATE) for rate in rates]
        rows.append(Row(label, with_ratios(cells, rates, _bases(rates, num_first), Unit.RATE), definition))
    for name in _LATENCIES:
        for figure in ("p50", "p99"):
            found: list[Distribution | None] = [getattr(_everybody(point.summary), name) for _, point in points]
            values = [None if each is None else getattr(each, figure) for each in found]
            cells = [figure_of(each, figure) for each in found]
            cells = with_ratios(cells, values, _bases(values, num_first), Unit.TIME)
            definition = "of all requests; ∞: falls among failures" if figure == "p50" else "none below 100 samples"
            rows.append(Row(f"{LABELS[name]} {figure} (ms)", cells, definition))
    rows.append(Row("served", [_served(point.summary) for _, point in points], "normal ends / submitted"))
    if any(point.summary.attainment is not None for _, point in points):
        cells = [_good(point.summary) for _, point in points]
        rows.append(Row("good of submitted", cells, "ended normally within every objective / submitted"))
    caption = f"Over the measured window{_BRACKETS if num_first else ''}"
    return overview([point.label for _, point in points], rows, caption)


def _bases(values: Sequence[float | None], num_first: int) -> list[float | None]:
    """The same point of the first result, which has so many; None for its own ones, and for all if it has 0."""
    return [values[place % num_first] if place >= num_first > 0 else None for place in range(len(values))]


_BRACKETS: Final = "; in brackets: times the figure of the first result at the same point"
_LATENCIES: Final = ("ttft_ns", "itl_ns", "e2e_ns")
_RATES: Final = (
    ("offered_per_s", "offered requests/s", "intended sends; in a closed loop, sends"),
    ("requests_per_s", "requests/s", "normal ends"),
    ("output_tokens_per_s", "output tokens/s", "tokens that arrived, whatever became of their request"),
)


def _everybody(summary: ClientSummary) -> LatencyTable:
    return summary.latency.finished if summary.latency.all is None else summary.latency.all


def _served(summary: ClientSummary) -> str:
    submitted = summary.counts.submitted
    return written(summary.counts.finished / submitted if submitted else None, Unit.SHARE)


def _good(summary: ClientSummary) -> str:
    return written(None if summary.attainment is None else summary.attainment.of_submitted, Unit.SHARE)


def _pictured(key: str, heading: str, prefix: str, pictures: Mapping[str, Picture]) -> Section:
    return Section(
        key=key, heading=heading, parts=tuple(each for name, each in pictures.items() if name.startswith(prefix))
    )


def _point(view: BenchView, point: PointView, definitions: Definitions, pictures: Mapping[str, Picture]) -> Section:
    summary, facts = point.summary, point.point
    words = definitions.words if definitions.name != facts.summary.definitions else view.result.definitions
    more = [
        rate_table(summary),
        attainment_table(summary),
        instrument_table(summary, facts.validity, has_connections=view.result.target.has_connections),
        load_table(facts.load_before, facts.load_during),
    ]
    alert = validity_alerts([(point.setting or "This run", facts.validity)]) if len(view.points) > 1 else ()
    return Section(
        key=point.key,
        heading=point.label,
        parts=present([
            *alert,
            pictures.get(f"timeline-{point.key}"),
            latency_table(summary, words),
            outcome_table(summary.counts),
            error_table(summary.counts),
            Fold(_MORE, tuple(each for each in more if each is not None), is_open=len(view.points) == 1),
        ]),
    )


def _provenance(view: BenchView, key: str) -> Section:
    result = view.result
    return Section(
        key=key,
        heading=f"Where {view.name} comes from",
        parts=present([
            Facts("Result and code", (*result_rows(view), *run_rows(result.run))),
            Facts("Target", target_rows(result.target)),
            Facts("Schedules", schedule_rows(view)),
            Facts("Machine", machine_rows(result.machine)),
            None if result.calibration is None else calibration_table(result.calibration),
        ]),
    )


def _how(definitions: Definitions) -> tuple[str, ...]:
    named = f"Figures follow the definitions of {definitions.name} {definitions.version}."
    return (
        named,
        _ARRIVAL,
        *(f"{name}: {text}." for name, text in definitions.words.items() if not name.endswith("_ns")),
    )
