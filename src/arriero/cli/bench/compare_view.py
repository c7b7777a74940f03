"""A comparison as Markdown, and its progress as lines."""

import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TextIO

from arriero.bench.compare_metrics import metric_of
from arriero.bench.compare_plan import CellPlan
from arriero.bench.compare_verdicts import unstable
from arriero.bench.rounds import Side
from arriero.metrics.paired_figures import verdict_interval
from arriero.metrics.paired_verdict import PairedVerdict, Verdict
from arriero.record.bench_compare import CompareResult
from arriero.record.bench_compare_parts import CompareCell, Round, Search, SearchTrial
from arriero.record.machine import fact_lines
from arriero.report.compare_sides import command_lines, flag_lines, side_lines

_MIB: Final = 1 << 20
_WORDS: Final = {
    Verdict.BETTER: "better",
    Verdict.WORSE: "worse",
    Verdict.NOT_RESOLVED: "not resolved",
    Verdict.NO_LARGER_DIFFERENCE: "no larger difference",
    Verdict.NO_VERDICT: "no verdict",
}
_HEADS: Final = ("clients", "workload", "metric", "A", "B", "B / A", "interval", "floor", "verdict on B")


def markdown(result: CompareResult) -> str:
    """The whole comparison: what it is worth, what was compared, the verdicts, and everything that qualifies them."""
    parts = [
        _head(result),
        _table(_HEADS, [row for cell in result.cells for row in _rows(cell, result)], left=(1, 2, 8)),
        _listed(flag_lines(result)),
        _listed(_notes(result)),
        _servers(result),
        _listed(command_lines(result)),
        *(search_table(search) for search in result.searches),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def search_table(search: Search) -> str:
    """Every trial of a search, as it was made."""
    setting = ", ".join(f"{name} {value}" for name, value in search.setting.items())
    rows = [
        (
            f"{trial.stage + 1}.{trial.rung + 1}",
            _flags(trial.flags),
            " ".join("-" if value is None else f"{value:.1f}" for value in trial.values),
            "-" if trial.score is None else f"{trial.score:.3f}",
            trial.failed or ("kept" if trial.kept else "dropped"),
        )
        for trial in search.trials
    ]
    table = _table(("rung", "flags", f"{search.metric} of each round", "score", ""), rows, left=(1, 2, 4))
    return f"Search for the flags of {search.side.upper()} ({setting}): best {_flags(search.best)}\n\n{table}"


def _head(result: CompareResult) -> str:
    flag = "no round was measured" if result.validity is None else str(result.validity.flag)
    reasons = () if result.validity is None else result.validity.reasons
    lines = [
        f"Validity: {flag}" + "".join(f"; {reason}" for reason in reasons),
        f"Status: {result.status}" + ("" if result.error is None else f": {result.error}"),
        f"Evidence: {result.evidence}; every ratio is B / A, the median over interleaved pairs",
        *side_lines(result),
        *(f"{name}: {text}" for name, text in fact_lines(result.machine).items()),
    ]
    return _listed(lines)


def _listed(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _rows(cell: CompareCell, result: CompareResult) -> Iterator[tuple[str, ...]]:
    start = str(cell.setting["clients"]), str(cell.setting["workload"])
    for question in result.questions:
        name = question.metric
        shown = f"**{name}**" if question.decides else name
        unit = metric_of(name).unit
        verdict = cell.verdicts.get(name)
        floor = "-" if name not in cell.floors else f"{cell.floors[name].value:.2%}"
        if verdict is None:
            word = "withheld" if name in cell.withheld else "none"
            yield (*start, f"{shown} ({unit})", "-", "-", "-", "-", floor, word)
        else:
            yield (*start, f"{shown} ({unit})", *_figures(verdict), floor, _WORDS[verdict.verdict])


def _figures(verdict: PairedVerdict) -> tuple[str, str, str, str]:
    a, b = ("-" if side is None else f"{side.median:.4g}" for side in (verdict.a, verdict.b))
    ratio = "-" if verdict.median_ratio is None else f"{verdict.median_ratio:.3f}"
    ends = verdict_interval(verdict)
    interval = "-" if ends is None else f"{ends.low:.3f} ... {ends.high:.3f}"
    return a, b, ratio, interval


def _notes(result: CompareResult) -> Iterator[str]:
    decides = [question.metric for question in result.questions if question.decides]
    for cell in result.cells:
        where = f"{cell.setting['clients']} clients, {cell.setting['workload']}"
        yield f"{where}: order {cell.order}, {cell.setting['slots']} slots"
        for reason in dict.fromkeys(cell.withheld.values()):
            names = ", ".join(name for name, each in cell.withheld.items() if each == reason)
            yield f"{where}: withheld for {names}: {reason}"
        for name, verdict in cell.verdicts.items():
            if name in decides:
                yield from (f"{where}: {name}: {reason}" for reason in verdict.reasons)
            yield from (f"{where}: {name}: caution: {flag}" for flag in verdict.flags)
        yield from _lengths(cell, where)
        yield from _texts(cell, where)


def _lengths(cell: CompareCell, where: str) -> Iterator[str]:
    for side in Side:
        summaries = [each.point.summary for each in cell.rounds if each.phase == "ab" and each.side == side]
        finished = sum(summary.counts.finished for summary in summaries)
        if other := sum(summary.lengths.other_output for summary in summaries):
            yield f"{where}: {side}: {other} of {finished} answers have another length than was asked for"


def _texts(cell: CompareCell, where: str) -> Iterator[str]:
    for key, texts in cell.texts.items():
        if not texts.prompts:
            continue
        what = "between the sides" if key == "across" else f"on {key} over the rounds"
        fault = ", which must not be" if key in unstable(cell) else ""
        yield f"{where}: {texts.changed} of {texts.prompts} equal prompts got different answers {what}{fault}"
        if fault:
            yield from (f"{where}: for instance {example}" for example in texts.examples)


def _servers(result: CompareResult) -> str:
    rows: list[tuple[str, ...]] = []
    for cell in result.cells:
        for side in Side:
            runs = [run for run in cell.servers if run.side == side]
            if not runs:
                continue
            peaks = [run.peak_bytes for run in runs if run.peak_bytes is not None]
            rounds = [each for each in cell.rounds if each.side == side and each.phase == "ab"]
            rows.append((
                str(cell.setting["clients"]),
                str(cell.setting["workload"]),
                side.upper(),
                str(len(runs)),
                f"{max(run.ready_s for run in runs):.1f}",
                f"{max(peaks) / _MIB:.0f}" if peaks else "-",
                _mean(each.server_cores for each in rounds),
                _mean(each.idle_cores for each in rounds),
                ", ".join(sorted({str(run.how) for run in runs})),
            ))
    heads = ("clients", "workload", "side", "starts", "ready s", "peak MiB", "cores", "cores of the idle one", "ended")
    return _table(heads, rows, left=(1, 2, 8)) if rows else ""


def _mean(values: Iterable[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{sum(known) / len(known):.2f}" if known else "-"


def _flags(flags: Sequence[str]) -> str:
    return f"`{shlex.join(flags)}`" if flags else "(none)"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[int]) -> str:
    rule = ["---" if number in left else "---:" for number in range(len(heads))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [heads, rule, *rows])


class Lines:
    """Says what happens, a line for each round, so that a log of it can be read as well."""

    def __init__(self, decides: str, stream: TextIO | None = None) -> None:
        """Show the figure of one metric."""
        self._metric = metric_of(decides)
        self._stream = stream or sys.stderr

    def cell_begins(self, cell: CellPlan, number: int, count: int) -> None:
        """Name it."""
        self._say(f"cell {number} of {count}: {', '.join(f'{name} {each}' for name, each in cell.setting().items())}")

    def search_begins(self, side: Side, cell: CellPlan) -> None:
        """Name it."""
        self._say(f"searching the flags of {side.upper()} with {cell.num_clients} clients, {cell.work.name}")

    def trial_ended(self, side: Side, trial: SearchTrial) -> None:
        """Its score, or why there is none."""
        score = "-" if trial.score is None else f"{trial.score:.3f}"
        word = trial.failed or ("kept" if trial.kept else "dropped")
        self._say(f"  {side.upper()} {trial.stage + 1}.{trial.rung + 1} {_flags(trial.flags)}: {score}, {word}")

    def round_ended(self, each: Round) -> None:
        """Its figure."""
        value = each.values.get(self._metric.name)
        figure = "-" if value is None else f"{value:.1f} {self._metric.unit}"
        pair = "" if each.pair is None else f" {each.pair + 1}"
        flag = each.point.validity.flag
        self._say(f"  {each.phase}{pair} {each.side.upper()}: {figure}{'' if flag == 'valid' else f' ({flag})'}")

    def cell_ended(self, cell: CompareCell) -> None:
        """The verdict on that metric."""
        verdict = cell.verdicts.get(self._metric.name)
        if verdict is not None:
            self._say(f"  {_WORDS[verdict.verdict]}: {'; '.join(verdict.reasons)}")
        elif self._metric.name in cell.withheld:
            self._say(f"  withheld: {cell.withheld[self._metric.name]}")

    def _say(self, line: str) -> None:
        self._stream.write(f"{line}\n")
        self._stream.flush()
