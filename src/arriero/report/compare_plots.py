"""Figures of a comparison: every ratio with its interval and noise floor, and the rounds in the order of running."""

# matplotlib's stubs leave the types of keyword arguments open.
# pyright: reportUnknownMemberType=false

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from arriero.metrics.paired_verdict import Verdict
from arriero.report.axes import plain
from arriero.report.compare_view import WORDS, Interval, RoundValue
from arriero.report.drawing import new_figure, styled
from arriero.report.house_style import BLUE, GREEN, INK, MUTED, PAPER, VERMILION

_ROW: Final = 0.3  # inches
_COLOURS: Final = {Verdict.BETTER: GREEN, Verdict.WORSE: VERMILION}
_TICKS: Final = (1.0, 0.5, 2.0, 0.2, 5.0, 0.1, 10.0, 0.8, 1.25, 0.7, 1.5, 0.3, 3.0, 0.9, 1.1, 0.95, 1.05)
"""Ratios worth a label, the most telling first."""
_LABEL_SHARE: Final = 0.06  # of the axis, that a label and the space around it take


def ratio_figure(intervals: Sequence[Interval]) -> Figure:
    """One line an answer: the ratio of every pair, their median, its interval, and the floor behind it."""
    with styled():
        figure = new_figure(_ROW * len(intervals) + 0.9)
        axes = figure.subplots()
        for row, each in enumerate(intervals):
            _draw_interval(axes, row, each)
        axes.axvline(1.0, color=INK, linewidth=0.8)
        axes.set_xscale("log")
        axes.set_xlim(*_limits(intervals))
        axes.xaxis.set_major_locator(FixedLocator(ratio_ticks(*axes.get_xlim())))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(plain))
        axes.set_xlabel("B / A (logarithmic)")
        axes.set_yticks(range(len(intervals)), [each.label for each in intervals])
        axes.set_ylim(len(intervals) - 0.4, -0.6)
        axes.grid(visible=False, axis="y")
    return figure


def ratio_ticks(low: float, high: float) -> list[float]:
    """Labelled ratios of a logarithmic axis, ascending, so far apart that their labels do not touch."""
    found: list[float] = []
    least = _LABEL_SHARE * math.log(high / low)
    for tick in _TICKS:
        if low <= tick <= high and all(abs(math.log(tick / other)) >= least for other in found):
            found.append(tick)
    return sorted(found)


def _draw_interval(axes: Axes, row: int, each: Interval) -> None:
    colour = _COLOURS.get(each.verdict, MUTED)
    if each.floor is not None:
        low, high = 1 / (1 + each.floor), 1 + each.floor
        axes.broken_barh([(low, high - low)], (row - 0.42, 0.84), facecolor=MUTED, alpha=0.18)
    axes.plot(each.ratios, [row + 0.22] * len(each.ratios), linestyle="none", marker="|", markersize=4, color=MUTED)
    axes.plot([each.low, each.high], [row, row], color=colour, linewidth=2.2, solid_capstyle="butt")
    face = colour if each.decides else PAPER
    axes.plot([each.middle], [row], marker="D", markersize=4.5, color=colour, markerfacecolor=face)
    axes.annotate(WORDS[each.verdict], (1.0, row), xycoords=("axes fraction", "data"), xytext=(6, 0),
                  textcoords="offset points", va="center", fontsize=8, color=INK, annotation_clip=False)  # fmt: skip


def _limits(intervals: Sequence[Interval]) -> tuple[float, float]:
    """All ratios, intervals and floors, and as far to one side of 1 as to the other."""
    reach = 1.02
    for each in intervals:
        ends = (value for value in (each.low, each.high, *each.ratios) if value > 0)
        reach = max(reach, 1 + (each.floor or 0.0), *(max(value, 1 / value) for value in ends))
    wide = math.exp(math.log(reach) * 1.08)
    return 1 / wide, wide


def rounds_figure(panels: Sequence[tuple[str, Sequence[RoundValue]]]) -> Figure:
    """One panel a metric: what each round gave, in the order of running, so that a drift is seen."""
    with styled():
        figure = new_figure(1.5 * len(panels) + 0.5)
        grid = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        for (title, values), axes in zip(panels, grid, strict=True):
            axes.set_title(title)
            for look in _LOOKS:
                _draw_rounds(axes, values, look)
            axes.set_ylim(0, max((each.value for each in values), default=1.0) * 1.1 or 1.0)
            axes.yaxis.set_major_locator(MaxNLocator(nbins=4))
            axes.yaxis.set_major_formatter(FuncFormatter(plain))
        grid[-1].set_xlabel("round, in the order of running")
        grid[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
        handles, labels = grid[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper right", ncols=len(labels))
    return figure


class _Look(NamedTuple):
    label: str
    phase: str
    sides: str
    colour: str
    marker: str
    is_judged: bool = False


_LOOKS: Final = (
    _Look("A", "ab", "a", BLUE, "o", is_judged=True),
    _Look("B", "ab", "b", VERMILION, "o", is_judged=True),
    _Look("A against A", "aa", "ab", BLUE, "^"),
    _Look("A, warm-up", "warm_up", "a", BLUE, "x"),
    _Look("B, warm-up", "warm_up", "b", VERMILION, "x"),
    _Look("A, check", "check", "a", BLUE, "d"),
    _Look("B, check", "check", "b", VERMILION, "d"),
)


def _draw_rounds(axes: Axes, values: Sequence[RoundValue], look: _Look) -> None:
    chosen = [each for each in values if each.phase == look.phase and each.side in look.sides]
    if chosen:
        axes.plot([each.number for each in chosen], [each.value for each in chosen], color=look.colour,
                  linestyle="-" if look.is_judged else "none", linewidth=0.7, marker=look.marker, markersize=4,
                  markerfacecolor=look.colour if look.is_judged else PAPER, label=look.label)  # fmt: skip
