"""Sections of a report of profiles: what may be read from it, counters, ratios, hot functions, and their origin."""

from collections.abc import Mapping, Sequence
from typing import Final

from arriero.core.version import VERSION
from arriero.metrics.symbol_families import Family
from arriero.record.cpu_lab.perf import WHOLE, PerfMode
from arriero.record.cpu_lab.perf_comparison import (
    CaseCounters,
    CaseHot,
    CounterFigure,
    CounterRatio,
    HotFunction,
    PerfComparison,
    RunNote,
)
from arriero.report.cpu_lab.perf_view import PerfView, case_key, case_label, shape_words
from arriero.report.document import (
    Alert,
    Badge,
    Column,
    Document,
    Facts,
    Level,
    Part,
    Picture,
    Section,
    Table,
    Text,
    present,
)
from arriero.report.written import UNDEFINED, significant

_MADE_BY: Final = f"Made by arriero {VERSION}."
_WHOLE: Final = (
    "Whole invocation: counters and samples are of a whole process: start, loading, prefill and decode "
    "together. They cannot tell prefill from decode, and they are no times of an undisturbed run."
)
_NOTHING: Final = "Nothing could be counted: none of the runs has a measured success."
_PARTLY: Final = (
    "Events took turns on the hardware counters; values below 100 % are scaled up from a part of the time: "
)
_NAMELESS: Final = (
    "Functions without a name are told by where they begin in their file: the library names only what it exports. "
    "`arriero lab asm 0x... --within LIBRARY` shows their code."
)
_BOUND: Final = (
    "The bound is the speed-up of the whole if the function took no time at all, 1 / (1 - share); nothing reaches it."
)


def perf_document(view: PerfView, pictures: Mapping[str, Picture]) -> Document:
    """The whole report; pictures that are missing are left out."""
    found = view.comparison
    sections = [
        *([_counter_section(found)] if found.counters else []),
        *([_ratio_section(found.ratios, pictures)] if found.ratios else []),
        *([_family_section(found.hot, pictures)] if found.hot else []),
        *(_hot_section(case, pictures) for case in found.hot),
        Section(key="runs", heading="Where it comes from", parts=tuple(map(_run_facts, found.runs))),
    ]
    return Document(
        title="Where the time goes, from outside",
        badges=tuple(Badge(Level.NOTE, word) for word in (found.evidence.value, *_scopes(found))),
        lead=_lead(found),
        sections=tuple(sections),
        made_by=_MADE_BY,
    )


def _lead(found: PerfComparison) -> tuple[Part, ...]:
    partly = sorted({
        f"{figure.name} {figure.running_percent:.0f} %"
        for case in found.counters
        for figure in case.counters
        if figure.value is not None and figure.running_percent is not None and figure.running_percent < 100.0
    })
    failures = [f"{name} ({reason})" for run in found.runs for name, reason in run.failures]
    return present([
        Text(_WHOLE) if WHOLE in _scopes(found) else None,
        None if found.counters or found.hot else Alert(Level.BAD, _NOTHING),
        Alert(Level.WARNING, f"{_PARTLY}{', '.join(partly)}.") if partly else None,
        Alert(Level.WARNING, f"No figures of: {'; '.join(failures)}.") if failures else None,
    ])


def _scopes(found: PerfComparison) -> tuple[str, ...]:
    """The parts of programs that figures are about."""
    counted = [case.scope_word for case in found.counters]
    return tuple(dict.fromkeys([*counted, *(case.scope_word for case in found.hot)]))


def _counter_section(found: PerfComparison) -> Section:
    parts: list[Part] = []
    for case in found.counters:
        figures = (*case.counters, *case.quotients)
        columns = (
            Column("figure", is_number=False), Column("median"), Column("unit", is_number=False), Column("lowest"),
            Column("highest"), Column("n"), Column("on a counter"), Column("why not", is_number=False, is_small=True),
        )  # fmt: skip
        parts.append(Table(columns, tuple(map(_counter_row, figures)), f"PROFILED, {case_label(case)}"))
    return Section(key="counters", heading="Counters", parts=(*_count_notes(found.counters), *parts))


def _count_notes(cases: Sequence[CaseCounters]) -> tuple[Part, ...]:
    emulated = any(case.mode is PerfMode.CALLGRIND for case in cases)
    note = (
        "Instructions of `callgrind` cases are counted by an emulated CPU: exact, of an AVX2 build, and no times; "
        "`elapsed` there is the emulator's. They are never set beside counters of the hardware."
    )
    return (Text(note),) if emulated else ()


def _counter_row(figure: CounterFigure) -> tuple[str, ...]:
    running = UNDEFINED if figure.running_percent is None else f"{figure.running_percent:.0f} %"
    return (
        figure.name,
        _number(figure.value),
        figure.unit,
        _number(figure.low),
        _number(figure.high),
        str(figure.num),
        running,
        figure.reason or "",
    )


def _ratio_section(ratios: Sequence[CounterRatio], pictures: Mapping[str, Picture]) -> Section:
    columns = (
        Column("workload", is_number=False), Column("counted by", is_number=False), Column("figure", is_number=False),
        Column("model", is_number=False), Column("times the reference"),
        Column("why not", is_number=False, is_small=True),
    )  # fmt: skip
    rows = tuple(
        (each.workload, each.mode.value, each.name, each.target, _ratio(each.value), each.reason or "")
        for each in ratios
    )
    reference = ratios[0].reference
    says = f"Every figure over that of {reference}, at the exact same workload of the same run; median over median."
    table = Table(columns, rows, f"PROFILED, ratios to {reference}")
    return Section(
        key="ratios", heading=f"Against {reference}", parts=present([Text(says), pictures.get("ratios"), table])
    )


def _family_section(cases: Sequence[CaseHot], pictures: Mapping[str, Picture]) -> Section:
    families = [family for family in Family if any(each.family is family for case in cases for each in case.families)]
    columns = (Column("case", is_number=False), *(Column(family.value) for family in families), Column("not shown"))
    rows: list[tuple[str, ...]] = []
    for case in cases:
        shares = {each.family: each.share for each in case.families}
        found = (_percent(shares[family]) if family in shares else "" for family in families)
        rows.append((case_label(case), *found, _percent(case.attribution.left_out)))
    table = Table(columns, tuple(rows), "PROFILED, shares of families of functions")
    return Section(key="families", heading="Families of functions", parts=present([pictures.get("families"), table]))


def _hot_section(case: CaseHot, pictures: Mapping[str, Picture]) -> Section:
    key, found = case_key(case), case.attribution
    columns = (
        Column("rank"), Column("function", is_number=False), Column("object", is_number=False),
        Column("family", is_number=False), Column("share"), Column("so far"), Column("bound"),
    )  # fmt: skip
    rows = tuple(
        (
            str(each.rank),
            _function_words(each),
            each.shared_object,
            each.family.value,
            _percent(each.share),
            _percent(each.cumulative),
            UNDEFINED if each.bound is None else f"{each.bound:.3f}",
        )
        for each in case.functions
    )
    says = (
        f"{found.measure} by {case.mode}, {found.scope}, n = {case.num}, {found.total:,} in all. The first five hold "
        f"{_percent(case.top_5)}, the first twenty {_percent(case.top_20)}; functions below {_percent(found.limit)} "
        f"are left out, together {_percent(found.left_out)}."
    )
    return Section(
        key=f"hot-{key}",
        heading=f"Hot functions: {case_label(case)}",
        parts=present([
            Text(says),
            Alert(Level.NOTE, f"{found.note[:1].upper()}{found.note[1:]}.") if found.note else None,
            Alert(Level.WARNING, f"{found.lost} samples were lost.") if found.lost else None,
            pictures.get(f"functions-{key}"),
            Table(columns, rows, f"PROFILED, the hottest functions, {shape_words(case.case)}"),
            Text(_BOUND),
            None if all(each.is_resolved for each in case.functions) else Text(_NAMELESS),
            pictures.get(f"flame-{key}"),
        ]),
    )


def _function_words(each: HotFunction) -> str:
    caller = "" if each.called_by is None else f", called by `{each.called_by}`"
    return f"`{each.symbol}`" + ("" if each.is_resolved else f" (without a name{caller})")


def _run_facts(run: RunNote) -> Facts:
    rows = (
        ("folder", run.folder), ("run", run.run_id), ("fingerprint", run.fingerprint), ("mode", run.mode.value),
        ("tool", run.tool), ("invocations with figures", str(run.counted)), ("failures", str(len(run.failures))),
        *((f"sha256 of {name}", value) for name, value in run.library.items()),
    )  # fmt: skip
    return Facts(f"Run {run.folder}", rows)


def _number(value: float | None) -> str:
    return UNDEFINED if value is None else significant(value)


def _ratio(value: float | None) -> str:
    return UNDEFINED if value is None else f"{value:.3f}"


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"
