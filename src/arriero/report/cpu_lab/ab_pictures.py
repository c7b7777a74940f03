"""Every picture of a paired comparison, with the words below it."""

from collections.abc import Iterator
from typing import Final

from arriero.metrics.paired_figures import Interval
from arriero.record.cpu_lab.ab import AbResult, MetricResult
from arriero.report.cpu_lab.ab_plots import (
    Differences,
    IntervalRow,
    RunValues,
    differences_figure,
    intervals_figure,
    runs_figure,
)
from arriero.report.cpu_lab.ab_words import floor_percent, judged_interval
from arriero.report.drawing import Drawn

DIFFERENCES: Final = "differences"
INTERVALS: Final = "intervals"
RUNS: Final = "runs"

_DIFFERENCE_WORDS: Final = (
    "Each mark is a pair, triangles of A with itself, circles of A and B; the line is the median of the circles, the "
    "blue band the interval that the verdict rests on, the grey band the noise floor. A median inside of the grey, or "
    "a blue band that holds 0, resolves nothing."
)
_INTERVAL_WORDS: Final = (
    "Diamond: median; bar: interval, coloured where the verdict rests on it (green better, red worse, blue if it holds "
    "0); grey band: the noise floor."
)
_RUN_WORDS: Final = "Each paired run; a level that changes along the runs is a drift, and pairs share it."


def ab_pictures(result: AbResult) -> list[Drawn]:
    """Differences, intervals and runs; none of a result without a pair."""
    shown = [each for each in result.deciding if each.ab is not None or each.aa is not None]
    if not shown:
        return []
    rows = [row for each in shown for row in _rows(each)]
    return [
        Drawn(
            DIFFERENCES, "Paired differences", _DIFFERENCE_WORDS, differences_figure([_differences(e) for e in shown])
        ),
        Drawn(INTERVALS, "Intervals", _INTERVAL_WORDS, intervals_figure(rows)),
        Drawn(RUNS, "Runs in the order of running", _RUN_WORDS, runs_figure([_runs(each) for each in shown])),
    ]


def _title(each: MetricResult) -> str:
    return f"{each.metric.name} ({'more' if each.metric.higher_is_better else 'less'} is better)"


def _differences(each: MetricResult) -> Differences:
    return Differences(
        title=_title(each),
        aa=() if each.aa is None else each.aa.differences,
        ab=() if each.ab is None else each.ab.differences,
        median=None if each.ab is None else each.ab.summary.median,
        interval=judged_interval(each),
        floor=floor_percent(each),
    )


def _rows(each: MetricResult) -> Iterator[IntervalRow]:
    """A/A, then what the verdict rests on, then the intervals for information."""

    def row(label: str, middle: float, ends: Interval, *, is_judged: bool = False) -> IntervalRow:
        words = f"{each.metric.name}, {label}"
        return IntervalRow(words, middle, ends, floor_percent(each), is_judged, each.metric.higher_is_better)

    if each.aa is not None:
        yield row("A/A", each.aa.bootstrap.median, each.aa.bootstrap.percentile)
    if each.ab is None:
        return
    found = each.ab.bootstrap
    own = judged_interval(each)
    if each.verdict is not None and own is not None:
        yield row("of the verdict", found.median, own, is_judged=True)
    yield row("95 % percentile", found.median, found.percentile, is_judged=each.verdict is None)
    if found.bca is not None:
        yield row("95 % BCa", found.median, found.bca)


def _runs(each: MetricResult) -> RunValues:
    aa: list[tuple[int, float]] = []
    a: list[tuple[int, float]] = []
    b: list[tuple[int, float]] = []
    if each.aa is not None:
        for places, values in zip(each.aa.executions, each.aa.pairs, strict=True):
            aa += zip(places, values, strict=True)
    if each.ab is not None:
        for (a_at, b_at), (a_value, b_value) in zip(each.ab.executions, each.ab.pairs, strict=True):
            a.append((a_at, a_value))
            b.append((b_at, b_value))
    return RunValues(_title(each), sorted(aa), sorted(a), sorted(b))
