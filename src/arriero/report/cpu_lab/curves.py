"""Curves of the lab: panels of lines with error bars, panels of bars, and bargains of speed and size."""

# matplotlib's stubs leave the types of keyword arguments open.
# pyright: reportUnknownMemberType=false

from collections.abc import Sequence
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from arriero.metrics.spread import Spread
from arriero.metrics.standings import Standing
from arriero.report.axes import plain
from arriero.report.drawing import new_figure, styled
from arriero.report.house_style import BLUE, DASHES, INK, MUTED, PAPER, SERIES

MOST_CURVES: Final = len(SERIES)
"""As many as can be told apart in one figure."""

_HEIGHT: Final = 2.9  # inches of panels
_LEGEND_ROW: Final = 0.18
_WIDE: Final = 4.0  # longest / shortest value from which an axis is logarithmic


class Mark(NamedTuple):
    """One measured point."""

    at: float
    value: float
    error: float  # its standard deviation


class Curve(NamedTuple):
    """Points that may be connected."""

    label: str
    marks: Sequence[Mark]


class CurvePanel(NamedTuple):
    """One pair of axes."""

    title: str
    at: str  # what is across
    value: str  # what is upward
    curves: Sequence[Curve]
    ideal: bool = False  # draw what the first curve would be if it grew with `at`


class Bar(NamedTuple):
    """One bar in a group."""

    label: str  # the same in every group
    value: float
    error: float


class BarGroup(NamedTuple):
    """Bars that stand together."""

    label: str
    bars: Sequence[Bar]


class BarPanel(NamedTuple):
    """One pair of axes with groups of bars."""

    title: str
    value: str
    groups: Sequence[BarGroup]


class Bargain(NamedTuple):
    """One file."""

    label: str
    size: float
    rate: Spread
    standing: Standing


class _Fill(NamedTuple):
    """How a point is filled."""

    style: Literal["full", "left"]
    colour: str


_FILLS: Final = MappingProxyType({
    Standing.ON_FRONT: _Fill("full", BLUE),
    Standing.NOT_RESOLVED: _Fill("left", BLUE),
    Standing.BEATEN: _Fill("full", PAPER),
})


class BargainPanel(NamedTuple):
    """Files at one workload."""

    title: str
    points: Sequence[Bargain]


def curve_figure(panels: Sequence[CurvePanel]) -> Figure:
    """Panels side by side that share their legend; at most `MOST_CURVES` curves each."""
    with styled():
        labels = list(dict.fromkeys(curve.label for panel in panels for curve in panel.curves))
        figure = new_figure(_HEIGHT + _LEGEND_ROW * len(labels))
        for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            _draw_curves(axes, panel, labels)
        _legend(figure, labels)
    return figure


def bar_figure(panels: Sequence[BarPanel]) -> Figure:
    """Panels one below the other."""
    with styled():
        figure = new_figure(2.4 * len(panels) + 0.3)
        labels = list(dict.fromkeys(bar.label for panel in panels for group in panel.groups for bar in group.bars))
        for axes, panel in zip(figure.subplots(len(panels), 1, squeeze=False)[:, 0], panels, strict=True):
            _draw_bars(axes, panel, labels)
        _legend(figure, labels)
    return figure


def bargain_figure(panels: Sequence[BargainPanel]) -> Figure:
    """Panels side by side: size across, speed upward with the range of its repetitions, the sure front as a line."""
    with styled():
        figure = new_figure(_HEIGHT)
        for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            _draw_bargains(axes, panel)
    return figure


def _draw_curves(axes: Axes, panel: CurvePanel, labels: Sequence[str]) -> None:
    axes.set_title(panel.title)
    axes.set_xlabel(panel.at)
    axes.set_ylabel(panel.value)
    for curve in panel.curves:
        place = labels.index(curve.label)
        at, values, errors = zip(*curve.marks, strict=True)
        axes.errorbar(
            at, values, yerr=errors, color=SERIES[place % MOST_CURVES], linestyle=DASHES[place % MOST_CURVES],
            marker="o", markersize=3.5, capsize=2.5, elinewidth=0.8, label=curve.label,
        )  # fmt: skip
    if panel.ideal and panel.curves:
        _draw_ideal(axes, panel.curves[0])
    _set_across(axes, sorted({mark.at for curve in panel.curves for mark in curve.marks}))
    _from_zero(axes)
    axes.yaxis.set_major_formatter(FuncFormatter(plain))


def _from_zero(axes: Axes, room: float = 1.06) -> None:
    """The vertical axis begins at 0 and leaves room above the highest thing that is drawn."""
    axes.set_ylim(0, float(axes.dataLim.y1) * room or 1.0)


def _draw_ideal(axes: Axes, curve: Curve) -> None:
    first, last = curve.marks[0], curve.marks[-1]
    high = first.value * last.at / first.at
    axes.plot([first.at, last.at], [first.value, high], color=MUTED, linewidth=0.8, linestyle=(0, (4, 3)))


def _set_across(axes: Axes, values: Sequence[float]) -> None:
    """Every measured value has a tick; far apart ones are spread evenly."""
    if values and values[0] > 0 and values[-1] >= _WIDE * values[0]:
        axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(values))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(plain))


def _draw_bars(axes: Axes, panel: BarPanel, labels: Sequence[str]) -> None:
    axes.set_title(panel.title)
    axes.set_ylabel(panel.value)
    width = 0.8 / max(1, len(labels))
    for place, group in enumerate(panel.groups):
        for bar in group.bars:
            at = labels.index(bar.label)
            axes.bar(
                place - 0.4 + width * (at + 0.5), bar.value, width * 0.92, yerr=bar.error,
                color=SERIES[at % MOST_CURVES], error_kw={"elinewidth": 0.8, "ecolor": INK, "capsize": 2},
                label=bar.label,
            )  # fmt: skip
    axes.set_xticks(range(len(panel.groups)), [group.label for group in panel.groups])
    axes.grid(visible=False, axis="x")
    axes.yaxis.set_major_formatter(FuncFormatter(plain))


def _draw_bargains(axes: Axes, panel: BargainPanel) -> None:
    axes.set_title(panel.title)
    axes.set_xlabel("file (MB)")
    axes.set_ylabel("tokens/s")
    front = sorted((point.size, point.rate.mean) for point in panel.points if point.standing is Standing.ON_FRONT)
    rates = [rate for _, rate in front]
    if len(front) > 1 and rates == sorted(rates):  # quality may put files on the front that no line leads through
        axes.plot(*zip(*front, strict=True), color=BLUE, linewidth=1.0, linestyle="--", drawstyle="steps-post")
    sizes = [point.size for point in panel.points]
    middle = (min(sizes) + max(sizes)) / 2
    for point in panel.points:
        _draw_bargain(axes, point, is_right=point.size > middle)
    _from_zero(axes, 1.15)
    axes.margins(x=0.1)
    axes.xaxis.set_major_formatter(FuncFormatter(plain))
    axes.yaxis.set_major_formatter(FuncFormatter(plain))


def _draw_bargain(axes: Axes, point: Bargain, *, is_right: bool) -> None:
    """A point with its name, and a bar from the least repetition to the greatest."""
    mean, fill = point.rate.mean, _FILLS[point.standing]
    reach = [[max(0.0, mean - point.rate.minimum)], [max(0.0, point.rate.maximum - mean)]]  # a mean is rounded
    axes.errorbar([point.size], [mean], yerr=reach, fmt="none", ecolor=BLUE, elinewidth=0.9, capsize=3)
    axes.plot(
        point.size, mean, marker="o", markersize=5.5, color=BLUE, fillstyle=fill.style, markerfacecolor=fill.colour,
        markerfacecoloralt=PAPER, linestyle="none",
    )  # fmt: skip
    axes.annotate(
        point.label, (point.size, mean), (-5 if is_right else 5, 5), textcoords="offset points", fontsize=8,
        horizontalalignment="right" if is_right else "left",
    )  # fmt: skip


def _legend(figure: Figure, labels: Sequence[str]) -> None:
    """One legend below all panels; none where nothing has a name."""
    if not any(labels):
        return
    found = dict[str, Artist]()
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    longest = max(map(len, labels))
    columns = max(1, min(len(labels), int(110 / (longest + 8))))
    figure.legend([found[label] for label in labels], labels, loc="outside lower center", ncols=columns)
