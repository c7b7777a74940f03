"""Sections of a comparison of two targets: first whether it may be believed, then verdicts, then everything behind."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from arriero.core.version import VERSION
from arriero.metrics.paired_figures import verdict_interval
from arriero.metrics.paired_verdict import NoiseFloor, PairedVerdict, Verdict
from arriero.record.bench_compare_parts import CompareCell, Search
from arriero.report.bench_document import LEVELS, validity_alerts
from arriero.report.bench_facts import machine_rows, run_rows, target_rows
from arriero.report.bench_tables import calibration_table
from arriero.report.bench_view import setting_words
from arriero.report.compare_sides import flag_lines, side_lines
from arriero.report.compare_view import WORDS, CompareView
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
from arriero.report.written import UNDEFINED, Unit, significant, written

MADE_BY: Final = f"Made by arriero {VERSION}."
_HOW: Final = (
    (
        "A ratio is B / A, the median over pairs of rounds that ran next to each other in an interleaved order. The "
        "interval is the least that holds both intervals of that median, a bootstrap over pairs and the exact one "
        "between order statistics; a verdict needs 1 to lie outside of it, and the median outside of the noise floor."
    ),
    (
        "The noise floor is what the first side differs from itself by (A/A). Not resolved means that the difference, "
        "if there is one, is smaller than these rounds can show; it is an answer, not a failure."
    ),
)


def compare_document(views: Sequence[CompareView], pictures: Mapping[str, Picture]) -> Document:
    """Comparisons in the order in which they are given; pictures that are missing are left out."""
    sections = [section for view in views for section in _sections(view, pictures)]
    how = Section(key="reading", heading="How to read this", parts=tuple(map(Text, _HOW)))
    names = "; ".join(dict.fromkeys(f"{view.result.b.name} against {view.result.a.name}" for view in views))
    return Document(
        title=f"Comparison: {names}",
        badges=_badges(views),
        lead=tuple(part for view in views for part in _lead(view)),
        sections=(*sections, how),
        made_by=MADE_BY,
    )


def _badges(views: Sequence[CompareView]) -> tuple[Badge, ...]:
    flags = dict.fromkeys(view.result.validity.flag for view in views if view.result.validity is not None)
    labels = dict.fromkeys(view.result.evidence.value for view in views)
    return (*(Badge(LEVELS[flag], flag.value) for flag in flags), *(Badge(Level.NOTE, label) for label in labels))


def _lead(view: CompareView) -> list[Part]:
    result = view.result
    found: list[Part] = []
    if result.validity is None:
        found.append(Alert(Level.BAD, f"{view.name}: no round was measured."))
    else:
        found.extend(validity_alerts([(view.name, result.validity)]))
    if result.status != "done":
        found.append(Alert(Level.BAD, f"{view.name} {result.status}: {result.error or 'no reason is recorded'}."))
    found.extend(Text(f"{line}.") for line in side_lines(result))
    found.append(Text("Every verdict speaks of B against A."))
    return found


def _sections(view: CompareView, pictures: Mapping[str, Picture]) -> list[Section]:
    result = view.result
    verdicts = Section(
        key=view.key,
        heading=f"Verdicts: {view.name}",
        parts=present([
            pictures.get(f"ratios-{view.key}"),
            _verdict_table(view),
            *(Text(f"{line}.") for line in flag_lines(result)),
            *_cautions(view),
            *(each for name, each in pictures.items() if name.startswith(f"rounds-{view.key}-")),
        ]),
    )
    behind = Section(
        key=f"{view.key}-behind",
        heading=f"Behind the verdicts: {view.name}",
        parts=present([
            *(
                Fold(f"The search for {search.side.upper()}'s flags", (_search_table(search),))
                for search in result.searches
            ),
            _texts_table(result.cells),
            _server_table(result.cells),
            Facts("Comparison and code", (*_file_rows(view), *run_rows(result.run))),
            Facts("A", target_rows(result.a)),
            Facts("B", target_rows(result.b)),
            Facts("Machine", machine_rows(result.machine)),
            None if result.calibration is None else calibration_table(result.calibration),
        ]),
    )
    return [verdicts, behind]


def _file_rows(view: CompareView) -> tuple[tuple[str, str], ...]:
    result = view.result
    return (
        ("result file", view.file), ("sha256 of the file", view.sha256), ("format", result.schema_version),
        ("evidence", result.evidence.value),
    )  # fmt: skip


def _verdict_table(view: CompareView) -> Table:
    columns = (
        Column("setting", is_number=False), Column("metric", is_number=False), Column("A, median"), Column("B, median"),
        Column("B / A"), Column("interval"), Column("noise floor"), Column("pairs"), Column("verdict", is_number=False),
    )  # fmt: skip
    rows: list[tuple[str, ...]] = []
    for cell in view.result.cells:
        for question in view.result.questions:
            metric = f"{question.metric}, decides" if question.decides else question.metric
            verdict, floor = cell.verdicts.get(question.metric), cell.floors.get(question.metric)
            without = "withheld" if question.metric in cell.withheld else "none"
            rows.append((setting_words(cell.setting), metric, *_verdict_cells(verdict, floor, without)))
    return Table(columns, tuple(rows), "B against A, interleaved")


def _verdict_cells(verdict: PairedVerdict | None, floor: NoiseFloor | None, without: str) -> tuple[str, ...]:
    shown_floor = UNDEFINED if floor is None else f"{100 * floor.value:.2f} %"
    if verdict is None:
        return (*(UNDEFINED,) * 4, shown_floor, UNDEFINED, without)
    a, b = (UNDEFINED if side is None else significant(side.median) for side in (verdict.a, verdict.b))
    middle = UNDEFINED if verdict.median_ratio is None else f"{verdict.median_ratio:.3f}"
    ends = verdict_interval(verdict)
    interval = UNDEFINED if ends is None else f"{ends.low:.3f} to {ends.high:.3f}"
    return a, b, middle, interval, shown_floor, written(verdict.num_pairs, Unit.COUNT), WORDS[verdict.verdict]


def _cautions(view: CompareView) -> list[Part]:
    """Why a verdict is missing or must be read with care, once for all settings and metrics that share the reason."""
    withheld: dict[str, list[str]] = {}
    refused: dict[str, list[str]] = {}
    flagged: dict[str, list[str]] = {}
    for cell in view.result.cells:
        words = setting_words(cell.setting)
        where = f" at {words}" if words else ""
        for metric, reason in cell.withheld.items():
            withheld.setdefault(reason, []).append(f"{metric}{where}")
        for metric, verdict in cell.verdicts.items():
            for reason in verdict.reasons if verdict.verdict is Verdict.NO_VERDICT else ():
                refused.setdefault(reason, []).append(f"{metric}{where}")
            for flag in verdict.flags:
                flagged.setdefault(flag, []).append(f"{metric}{where}")
    return [
        *(Alert(Level.WARNING, f"Withheld: {'; '.join(names)}. {_sentence(text)}") for text, names in withheld.items()),
        *(
            Alert(Level.WARNING, f"No verdict: {'; '.join(names)}. {_sentence(text)}")
            for text, names in refused.items()
        ),
        *(Alert(Level.NOTE, f"{'; '.join(names)}. {_sentence(text)}") for text, names in flagged.items()),
    ]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def _search_table(search: Search) -> Table:
    columns = (
        Column("rung", is_number=False), Column("flags", is_number=False), Column(f"{search.metric} of each round"),
        Column("score"), Column("", is_number=False),
    )  # fmt: skip
    rows = tuple(
        (
            f"{trial.stage + 1}.{trial.rung + 1}",
            _flags(trial.flags),
            " ".join(UNDEFINED if value is None else significant(value) for value in trial.values),
            UNDEFINED if trial.score is None else significant(trial.score),
            trial.failed or ("kept" if trial.kept else "dropped"),
        )
        for trial in search.trials
    )
    where = setting_words(search.setting)
    return Table(columns, rows, f"{where}{': ' if where else ''}best {_flags(search.best)}")


def _flags(flags: Sequence[str]) -> str:
    return f"`{shlex.join(flags)}`" if flags else "no further flags"


def _texts_table(cells: Sequence[CompareCell]) -> Table | None:
    rows = tuple(
        (
            setting_words(cell.setting),
            "between the sides" if name == "across" else f"{name.upper()}, round to round",
            written(texts.prompts, Unit.COUNT),
            written(texts.changed, Unit.COUNT),
            "no" if texts.must_be_stable else "yes",
            "; ".join(texts.examples),
        )
        for cell in cells
        for name, texts in cell.texts.items()
    )
    columns = (
        Column("setting", is_number=False), Column("where", is_number=False), Column("equal prompts"),
        Column("other texts"), Column("may differ", is_number=False),
        Column("examples", is_number=False, is_small=True),
    )  # fmt: skip
    return Table(columns, rows, "Whether equal prompts got equal texts") if rows else None


def _server_table(cells: Sequence[CompareCell]) -> Table | None:
    rows = tuple(
        (
            setting_words(cell.setting),
            server.side.upper(),
            f"`{shlex.join(server.command)}`",
            written(server.ready_s, Unit.NUMBER),
            _mebibytes(server.peak_bytes),
            server.how if server.status is None else f"{server.how}, status {server.status}",
            server.log,
        )
        for cell in cells
        for server in cell.servers
    )
    columns = (
        Column("setting", is_number=False), Column("side", is_number=False), Column("command", is_number=False),
        Column("ready after (s)"), Column("peak memory (MiB)"), Column("end", is_number=False),
        Column("log", is_number=False, is_small=True),
    )  # fmt: skip
    return Table(columns, rows, "Servers") if rows else None


def _mebibytes(count: int | None) -> str:
    return UNDEFINED if count is None else f"{count / 2**20:,.0f}"
