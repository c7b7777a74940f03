"""Figures of a paired comparison: differences in the order of running, intervals beside the floor, runs in time."""

# matplotlib's stubs leave the types of keyword arguments open.
# pyright: reportUnknownMemberType=false

from collections.abc import Sequence
from typing import Final, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from arriero.metrics.paired_figures import Interval
from arriero.report.axes import plain
from arriero.report.drawing import new_figure, styled
from arriero.report.house_style import BLUE, GREEN, INK, MUTED, PAPER, VERMILION

_PANEL: Final = 1.7  # inches
_ROW: Final = 0.3
_REACH: Final = 1.15


class Differences(NamedTuple):
    """One metric's pairs."""

    title: str
    aa: Sequence[float]  # %, in the order of running
    ab: Sequence[float]
    median: float | None
    interval: Interval | None  # that the verdict rests on
    floor: float | None  # %, half the height of the band


class IntervalRow(NamedTuple):
    """One line of the figure of intervals."""

    label: str
    middle: float
    ends: Interval
    floor: float | None
    is_judged: bool
    higher_is_better: bool


class RunValues(NamedTuple):
    """One metric of every paired run: (execution index, figure)."""

    title: str
    aa: Sequence[tuple[int, float]]
    a: Sequence[tuple[int, float]]
    b: Sequence[tuple[int, float]]


def differences_figure(panels: Sequence[Differences]) -> Figure:
    """One panel a metric: A/A pairs, then A/B pairs, the median of those, its interval and the floor."""
    with styled():
        figure = new_figure(_PANEL * len(panels) + 0.5)
        grid = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        for each, axes in zip(panels, grid, strict=True):
            _draw_differences(axes, each)
        grid[-1].set_xlabel("pair, in the order of running: first A/A, then A/B")
        grid[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
        handles, labels = grid[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper right", ncols=len(labels))
    return figure


def _draw_differences(axes: Axes, each: Differences) -> None:
    first = len(each.aa) + 1
    last = len(each.aa) + len(each.ab)
    axes.set_title(each.title)
    axes.set_ylabel("100 (B - A) / A, %")
    if each.floor is not None:
        axes.axhspan(-each.floor, each.floor, color=MUTED, alpha=0.18, linewidth=0, label="noise floor")
    if each.interval is not None and each.ab:
        axes.fill_between([first - 0.4, last + 0.4], [each.interval.low] * 2, [each.interval.high] * 2, color=BLUE,
                          alpha=0.2, linewidth=0, label="interval of the median")  # fmt: skip
    if each.median is not None:
        axes.plot([first - 0.4, last + 0.4], [each.median] * 2, color=BLUE, linewidth=1.6, label="median")
    axes.axhline(0.0, color=INK, linewidth=0.8)
    axes.plot(range(1, first), each.aa, linestyle="none", marker="^", markersize=4, color=MUTED,
              markerfacecolor=PAPER, label="A against A")  # fmt: skip
    axes.plot(range(first, last + 1), each.ab, linestyle="none", marker="o", markersize=4, color=BLUE,
              label="A against B")  # fmt: skip
    if each.aa and each.ab:
        axes.axvline(first - 0.5, color=MUTED, linewidth=0.7, linestyle=":")
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5))


def intervals_figure(rows: Sequence[IntervalRow]) -> Figure:
    """One line an interval: median, ends, and the floor behind it."""
    with styled():
        figure = new_figure(_ROW * len(rows) + 0.8)
        axes = figure.subplots()
        for place, row in enumerate(rows):
            _draw_interval(axes, place, row)
        axes.axvline(0.0, color=INK, linewidth=0.8)
        reach = max((max(abs(row.ends.low), abs(row.ends.high), row.floor or 0.0) for row in rows), default=1.0) or 1.0
        axes.set_xlim(-reach * _REACH, reach * _REACH)
        axes.set_xlabel("100 (B - A) / A, %")
        axes.set_yticks(range(len(rows)), [row.label for row in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.grid(visible=False, axis="y")
    return figure


def _draw_interval(axes: Axes, place: int, row: IntervalRow) -> None:
    colour = _colour(row) if row.is_judged else MUTED
    if row.floor is not None:
        axes.broken_barh([(-row.floor, 2 * row.floor)], (place - 0.42, 0.84), facecolor=MUTED, alpha=0.18)
    axes.plot([row.ends.low, row.ends.high], [place, place], color=colour, linewidth=2.2, solid_capstyle="butt")
    axes.plot([row.middle], [place], marker="D", markersize=4.5, color=colour,
              markerfacecolor=colour if row.is_judged else PAPER)  # fmt: skip


def _colour(row: IntervalRow) -> str:
    if row.ends.low <= 0 <= row.ends.high:
        return BLUE
    return GREEN if (row.ends.low > 0) == row.higher_is_better else VERMILION


def runs_figure(panels: Sequence[RunValues]) -> Figure:
    """One panel a metric: every paired run in the order of running, so that a drift is seen."""
    with styled():
        figure = new_figure(_PANEL * len(panels) + 0.5)
        grid = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        for each, axes in zip(panels, grid, strict=True):
            axes.set_title(each.title)
            _draw_runs(axes, each.aa, "A against A", MUTED, "^")
            _draw_runs(axes, each.a, "A", BLUE, "o")
            _draw_runs(axes, each.b, "B", VERMILION, "s")
            axes.yaxis.set_major_locator(MaxNLocator(nbins=4))
            axes.yaxis.set_major_formatter(FuncFormatter(plain))
        grid[-1].set_xlabel("run, in the order of running; the axis upward need not begin at 0")
        grid[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
        handles, labels = grid[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper right", ncols=max(1, len(labels)))
    return figure


def _draw_runs(axes: Axes, values: Sequence[tuple[int, float]], label: str, colour: str, marker: str) -> None:
    if values:
        axes.plot([at for at, _ in values], [value for _, value in values], color=colour, linewidth=0.7,
                  marker=marker, markersize=3.5, label=label)  # fmt: skip
