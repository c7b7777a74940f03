"""The document of a matrix's analyses: what was left out, each analysis with its figures, and where it comes from."""

from collections.abc import Mapping
from typing import Final

from arriero.core.version import VERSION
from arriero.record.cpu_lab.analysis import Formats, KvScaling, MatrixAnalysis, Phase, Source, ThreadCurve
from arriero.report.cpu_lab.format_tables import file_table, format_table, pareto_table
from arriero.report.cpu_lab.fronts import FRONT_WORDS
from arriero.report.cpu_lab.matrix_tables import (
    baseline_table,
    cv_table,
    kv_table,
    length_table,
    resource_table,
    slice_table,
    thread_table,
)
from arriero.report.cpu_lab.setting_words import Wording
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
    Text,
    present,
)

MADE_BY: Final = f"Made by arriero {VERSION}."
_MOST_WARNINGS: Final = 12
_DEFINITIONS: Final = (
    (
        "Means are arithmetic, SD is that of a sample (n - 1), CV is SD / mean. Speed-up is mean / mean with one "
        "thread at the same setting, efficiency is speed-up / threads. A ratio to a reference is taken only where all "
        "else is equal."
    ),
    (
        "A dash is undefined or was not measured, and never 0: SD, CV and range of a single repetition, a speed-up or "
        "ratio without its reference, the growth of memory at the first context of a slice, KV memory where llama.cpp "
        "reports none, and quality of a file that the quality file does not name."
    ),
    (
        "Prefill and decode are measured apart, each at the depth that the context leaves: "
        "context - prompt - generated tokens stand in KV before. Peak memory is of the whole process, with the model "
        "file as far as it was touched, so it is no size of KV memory; that is a figure of its own where it is known."
    ),
    (
        "These figures hold for this machine, this build and these model files. Repetitions in one session share the "
        "frequency, temperature and neighbours of that session, which the CV does not show; whether a small difference "
        "is real is a question for `arriero lab ab`."
    ),
)


def all_keys(analysis: MatrixAnalysis) -> Wording:
    """The words for the settings of this report."""
    return Wording(group.key for group in analysis.groups)


def matrix_document(analysis: MatrixAnalysis, pictures: Mapping[str, Picture], title: str = "CPU matrix") -> Document:
    """Everything that an analysis says.

    Args:
        analysis: of one run or several.
        pictures: by key; those that are missing are left out.
        title: of the page.
    """
    wording = all_keys(analysis)
    sections = (
        _threads(analysis, wording, pictures),
        _lengths(analysis, wording, pictures),
        _formats(analysis, wording, pictures),
        _kv(analysis, wording, pictures),
        _baseline(analysis, wording),
        Section(key="sources", heading="Where this comes from", parts=_sources(analysis)),
        Section(key="reading", heading="How to read this", parts=tuple(map(Text, _DEFINITIONS))),
    )
    return Document(
        title=title,
        badges=tuple(Badge(Level.NOTE, kind.value) for kind in analysis.evidence),
        lead=_lead(analysis, wording),
        sections=tuple(section for section in sections if section.parts),
        made_by=MADE_BY,
    )


def _lead(analysis: MatrixAnalysis, wording: Wording) -> tuple[Part, ...]:
    count = sum(_repetitions(analysis))
    found: list[Part] = [
        Text(
            f"{len(analysis.groups)} settings, {count} measured repetitions that succeeded. "
            f"In no figure: {_excluded(analysis)}."
        )
    ]
    if len(analysis.evidence) > 1:
        found.append(Alert(Level.WARNING, "The figures are of different kinds of evidence and are not pooled."))
    shown = analysis.warnings[:_MOST_WARNINGS]
    found.extend(Alert(Level.WARNING, f"{line[:1].upper()}{line[1:]}.") for line in shown)
    if len(analysis.warnings) > len(shown):
        found.append(Alert(Level.WARNING, f"{len(analysis.warnings) - len(shown)} more warnings are in the JSON file."))
    if constants := wording.constants():
        found.append(Facts("The same everywhere", constants))
    return tuple(found)


def _repetitions(analysis: MatrixAnalysis) -> list[int]:
    return [max(rate.n for phase in Phase if (rate := group.rate(phase)) is not None) for group in analysis.groups]


def _excluded(analysis: MatrixAnalysis) -> str:
    return ", ".join(f"{count} {why.replace('_', ' ')}" for why, count in analysis.excluded.items()) or "nothing"


def _threads(analysis: MatrixAnalysis, wording: Wording, pictures: Mapping[str, Picture]) -> Section:
    curves: tuple[ThreadCurve, ...] = analysis.threads
    parts = (
        *_named(pictures, "threads-"),
        thread_table(curves, wording) if curves else None,
        *(Alert(Level.NOTE, f"No speed-up: {reason}.") for reason in dict.fromkeys(c.reason for c in curves) if reason),
    )
    return Section(key="threads", heading="Threads", parts=present(parts))


def _lengths(analysis: MatrixAnalysis, wording: Wording, pictures: Mapping[str, Picture]) -> Section:
    parts: list[Part] = []
    for phase in Phase:
        if any(curve.phase is phase for curve in analysis.lengths):
            parts += [*_named(pictures, f"lengths-{phase.value}-"), length_table(analysis, phase, wording)]
    return Section(key="lengths", heading="Lengths of prompt and answer", parts=tuple(parts))


def _formats(analysis: MatrixAnalysis, wording: Wording, pictures: Mapping[str, Picture]) -> Section:
    found: Formats | None = analysis.formats
    if found is None:
        return Section(key="formats", heading="Model files", parts=())
    labels = wording.evidence(cell.group.key for cell in found.cells)
    source = analysis.quality_source
    parts = (
        None if found.reason is None else Alert(Level.WARNING, f"{found.reason[:1].upper()}{found.reason[1:]}."),
        *_named(pictures, "pareto-"),
        Text(FRONT_WORDS) if found.pareto else None,
        file_table(found, labels),
        Text(_NO_QUALITY) if source is None else Facts("Quality", tuple(source.items())),
        *_named(pictures, "formats-"),
        format_table(found, wording),
        Fold("Every point of the fronts", (pareto_table(found, wording),)) if found.pareto else None,
    )
    return Section(key="formats", heading="Model files", parts=present(parts))


_NO_QUALITY: Final = (
    "No quality was given, so nothing here says how good the answers of these files are; measure it with "
    "`arriero lab quality` and give its file with `--quality`."
)


def _kv(analysis: MatrixAnalysis, wording: Wording, pictures: Mapping[str, Picture]) -> Section:
    found: KvScaling | None = analysis.kv
    if found is None:
        return Section(key="kv", heading="KV types and contexts", parts=())
    parts: list[Part | None] = []
    for number, each in enumerate(found.slices, start=1):
        parts += [pictures.get(f"kv-{number}"), slice_table(each, wording)]
    if found.unsliced:
        words = "1 setting belongs" if found.unsliced == 1 else f"{found.unsliced} settings belong"
        parts.append(Text(f"{words} to no slice, as nothing else varies one quantity from there."))
    parts.append(Fold("Every setting", (kv_table(found.cells, wording),), is_open=not found.slices))
    return Section(key="kv", heading="KV types and contexts", parts=present(parts))


def _baseline(analysis: MatrixAnalysis, wording: Wording) -> Section:
    parts = (
        baseline_table(analysis, wording),
        Fold("Duration and memory", (resource_table(analysis, wording),)),
        cv_table(analysis, wording),
    )
    return Section(key="baseline", heading="Every setting", parts=present(parts))


def _sources(analysis: MatrixAnalysis) -> tuple[Part, ...]:
    return tuple(Facts(source.name, _source_rows(source)) for source in analysis.sources)


def _source_rows(source: Source) -> tuple[tuple[str, str], ...]:
    counted = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in source.statuses.items())
    return (
        ("run", source.run_id),
        ("sha256 of run.jsonl", source.sha256),
        ("invocations", f"{source.num_records}: {counted}" if counted else "none"),
        *source.facts.items(),
    )


def _named(pictures: Mapping[str, Picture], prefix: str) -> tuple[Picture, ...]:
    return tuple(picture for key, picture in pictures.items() if key.startswith(prefix))
