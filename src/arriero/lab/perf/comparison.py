"""Runs become one comparison: medians over repetitions, quotients, ratios to a reference at the exact same workload."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from arriero.core.errors import ConfigError
from arriero.lab.perf.hot_cases import hot_cases
from arriero.lab.perf.run_files import PerfFolder
from arriero.lab.perf.stat_csv import by_event
from arriero.metrics.hardware_counters import PER_TOKEN, RATIOS, Figure, median_figure, per_token, quotient
from arriero.record.cpu_lab.perf import PerfCase, PerfMode, PerfRecord, Phase
from arriero.record.cpu_lab.perf_comparison import (
    CaseCounters,
    CounterFigure,
    CounterRatio,
    PerfComparison,
    RunNote,
)
from arriero.record.cpu_lab.perf_counters import Counter
from arriero.record.cpu_lab.run_log import Status

ELAPSED: Final = "elapsed"
_NO_SUCH: Final = Figure(None, "not counted in this run")
_REFERENCE: Final = "f16"


class CaseKey(NamedTuple):
    """What must be equal for figures to be repetitions of one thing."""

    run_id: str
    mode: PerfMode
    scope: str
    case_id: str


def compare_runs(folders: Sequence[PerfFolder], reference: str | None = None) -> PerfComparison:
    """Everything that the runs say together.

    Args:
        folders: read before.
        reference: the model below the line; None takes an F16 file, or the first model.

    Raises:
        ConfigError: no such model.
    """
    records = [record for folder in folders for record in folder.counted]
    left_out = {each.run.manifest.run_id: dict(each.settings["settings"].get("left_out", {})) for each in folders}
    counted = _groups(record for record in records if record.counters)
    counters = tuple(_case_counters(group, left_out[group[0].run_id]) for group in counted)
    base = _reference([record.case for record in records], reference)
    return PerfComparison(
        runs=tuple(map(_note, folders)),
        reference=base,
        counters=counters,
        ratios=tuple(_ratios(counters, base)),
        hot=hot_cases(_groups(record for record in records if record.attribution is not None)),
    )


def _groups(records: Iterable[PerfRecord]) -> list[list[PerfRecord]]:
    found: dict[CaseKey, list[PerfRecord]] = {}
    for record in records:
        key = CaseKey(record.run_id, record.mode, record.scope, record.case.case_id)
        found.setdefault(key, []).append(record)
    return list(found.values())


def _case_counters(records: Sequence[PerfRecord], left_out: Mapping[str, str]) -> CaseCounters:
    """The figures of one case; events that the probe has refused have its word as the reason."""
    first = records[0]
    refused = {event: Figure(None, f"{word} here") for event, word in left_out.items()}
    tables = [by_event(record.counters) for record in records]
    events = list(dict.fromkeys(event for table in tables for event in table))
    plain = [{**refused, **{event: _figure(table[event]) for event in table}} for table in tables]
    counted = [_counter(event, [table[event] for table in tables if event in table]) for event in events]
    elapsed = _summary(ELAPSED, "s", [Figure(record.elapsed_s) for record in records])
    quotients = [_summary(ratio.name, "", [quotient(table, ratio) for table in plain]) for ratio in RATIOS]
    per = [
        _summary(f"{event} per token", units_of(counted, event), _per_token(plain, event, first.case))
        for event in PER_TOKEN
    ]
    return CaseCounters(
        run_id=first.run_id,
        case=first.case,
        mode=first.mode,
        scope=first.scope,
        counters=(*counted, elapsed),
        quotients=(*quotients, *per),
    )


def _per_token(tables: Sequence[dict[str, Figure]], event: str, case: PerfCase) -> list[Figure]:
    return [per_token(table.get(event, _NO_SUCH), case.num_tokens) for table in tables]


def units_of(figures: Iterable[CounterFigure], name: str) -> str:
    """The unit of a figure; empty for plain counts and for what is not there."""
    return next((each.unit for each in figures if each.name == name), "")


def _figure(counter: Counter) -> Figure:
    return Figure(counter.value, counter.reason)


def _counter(event: str, counters: Sequence[Counter]) -> CounterFigure:
    running = [each.running_percent for each in counters if each.running_percent is not None]
    return _summary(event, counters[0].unit, list(map(_figure, counters)), min(running, default=None))


def _summary(name: str, unit: str, figures: Sequence[Figure], running: float | None = None) -> CounterFigure:
    middle = median_figure(figures)
    values = [each.value for each in figures if each.value is not None]
    return CounterFigure(
        name=name,
        unit=unit,
        value=middle.value,
        low=min(values, default=None),
        high=max(values, default=None),
        num=len(values),
        running_percent=running,
        reason=middle.reason,
    )


def _reference(cases: Sequence[PerfCase], wanted: str | None) -> str | None:
    models = list(dict.fromkeys(case.target for case in cases if case.model is not None))
    if wanted is not None:
        fitting = [name for name in models if wanted in {name, name.removesuffix(".gguf")}]
        if not fitting:
            raise ConfigError(f"--reference {wanted}: no model of these runs; they have {', '.join(models) or 'none'}")
        return fitting[0]
    is_full: Callable[[str], bool] = lambda name: _REFERENCE in name.lower().replace("bf16", "")  # noqa: E731
    return next(filter(is_full, models), models[0] if models else None)


def _ratios(cases: Sequence[CaseCounters], reference: str | None) -> Iterator[CounterRatio]:
    """Every model against the reference, where both ran the same workload in the same way in the same run."""
    below = {_joined(each): each for each in cases if each.case.target == reference}
    for each in cases:
        base = below.get(_joined(each))
        if reference is None or each.case.model is None or each.case.target == reference:
            continue
        figures = {} if base is None else {figure.name: figure for figure in (*base.counters, *base.quotients)}
        for figure in (*each.counters, *each.quotients):
            value, reason = _over(figure, figures.get(figure.name), reference)
            yield CounterRatio(
                workload=each.case.workload,
                mode=each.mode,
                scope=each.scope,
                target=each.case.target,
                reference=reference,
                name=figure.name,
                value=value,
                reason=reason,
            )


def _joined(each: CaseCounters) -> tuple[object, ...]:
    """All that must be equal: the run tells machine, library, tool and settings."""
    return each.run_id, each.mode, each.scope, each.case.workload


def _over(figure: CounterFigure, base: CounterFigure | None, reference: str) -> tuple[float | None, str | None]:
    if base is None:
        return None, f"{reference} was not counted at this workload in this run"
    if figure.value is None or base.value is None:
        return None, figure.reason or base.reason
    return (None, f"{reference} has 0") if base.value == 0 else (figure.value / base.value, None)


def _note(folder: PerfFolder) -> RunNote:
    manifest, settings = folder.run.manifest, folder.settings
    measured = [record for record in folder.run.latest.values() if record.phase is Phase.MEASURED]
    failures = [record for record in measured if record.status is not Status.SUCCESS]
    return RunNote(
        folder=folder.folder.resolve().name,
        run_id=manifest.run_id,
        fingerprint=manifest.fingerprint,
        mode=PerfMode(settings["mode"]),
        tool=str(settings["tool"]),
        counted=len(folder.counted),
        failures=tuple((record.invocation_id, f"{record.status}: {record.reason}") for record in failures),
        library={str(name): str(value) for name, value in settings["library"].items()},
    )
