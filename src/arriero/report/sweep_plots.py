"""Curves over the load: latency and throughput of results with several points."""

# matplotlib's stubs leave the types of keyword arguments open.
# pyright: reportUnknownMemberType=false

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, PercentFormatter

from arriero.metrics.validity import Flag
from arriero.report.axes import TimeUnit, plain, unit_for
from arriero.report.drawing import new_figure, styled
from arriero.report.house_style import DASHES, PAPER, SERIES
from arriero.report.sweep import Spot, Sweep


class _Panel(NamedTuple):
    title: str
    unit: TimeUnit | None  # None: times, in the unit that fits them
    figures: tuple[str, ...]  # names of `Sweep.figures`


_SHARE: Final = TimeUnit("share", 1.0)
_PANELS: Final = (
    _Panel("TTFT", None, ("ttft.p50", "ttft.p99")),
    _Panel("request throughput", TimeUnit("requests/s", 1.0), ("requests_per_s", "offered_per_s")),
    _Panel("E2E", None, ("e2e.p50", "e2e.p99")),
    _Panel("output throughput", TimeUnit("tokens/s", 1.0), ("output_tokens_per_s",)),
    _Panel("ITL", None, ("itl.p50", "itl.p99")),
    _Panel("share of requests", _SHARE, ("served", "of_submitted")),
)
_WORDS: Final = {
    "ttft.p50": "p50", "ttft.p99": "p99", "e2e.p50": "p50", "e2e.p99": "p99", "itl.p50": "p50", "itl.p99": "p99",
    "requests_per_s": "served", "offered_per_s": "offered", "output_tokens_per_s": "output",
    "served": "served", "of_submitted": "good",
}  # fmt: skip


def sweep_figure(sweeps: Sequence[Sweep], axis_label: str) -> Figure:
    """One colour a result; of the two curves of a panel the second is dashed; points that are not valid are hollow."""
    with styled():
        figure = new_figure(2.05 * 3 + 0.3)
        grid = figure.subplots(3, 2, sharex=True)
        for panel, axes in zip(_PANELS, grid.ravel(), strict=True):
            _draw(axes, panel, sweeps)
        for axes in grid[-1]:
            axes.set_xlabel(axis_label)
        if len(sweeps) > 1:
            names = [_legend_line(number, each) for number, each in enumerate(sweeps)]
            figure.legend(handles=names, loc="outside upper left", ncols=min(3, len(names)))
    return figure


def _legend_line(number: int, sweep: Sweep) -> Line2D:
    return Line2D([], [], color=SERIES[number % len(SERIES)], marker="o", markersize=4, label=sweep.name)


def _draw(axes: Axes, panel: _Panel, sweeps: Sequence[Sweep]) -> None:
    axes.set_title(panel.title)
    known = [
        spot.value for each in sweeps for name in panel.figures for spot in each.figures[name] if spot.value is not None
    ]
    highest = max(known, default=1.0) or 1.0
    unit = unit_for(highest) if panel.unit is None else panel.unit
    top = 1.05 if unit is _SHARE else highest / unit.us * 1.12
    for number, each in enumerate(sweeps):
        for place, name in enumerate(panel.figures):
            look = _Look(SERIES[number % len(SERIES)], DASHES[place], _WORDS[name] if number == 0 else "")
            _draw_curve(axes, each.figures[name], look, unit.us, top)
    axes.set_ylim(0, top)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(FuncFormatter(plain))
    if unit is _SHARE:
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    else:
        axes.set_ylabel(unit.word)
        axes.yaxis.set_major_formatter(FuncFormatter(plain))
    if len(panel.figures) > 1:
        axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2)


class _Look(NamedTuple):
    colour: str
    dashes: Any
    label: str  # empty for none in the legend


def _draw_curve(axes: Axes, spots: Sequence[Spot], look: _Look, us: float, top: float) -> None:
    known = [spot for spot in spots if spot.value is not None]
    at, values = [spot.at for spot in known], [(spot.value or 0.0) / us for spot in known]
    axes.plot(at, values, color=look.colour, linestyle=look.dashes, label=look.label or "_")
    for flag, face in ((Flag.VALID, look.colour), (Flag.DEGRADED, PAPER), (Flag.INVALID, PAPER)):
        chosen = [(x, y) for x, y, spot in zip(at, values, known, strict=True) if spot.flag is flag]
        if chosen:
            marker = "X" if flag is Flag.INVALID else "o"
            axes.plot(*zip(*chosen, strict=True), linestyle="none", marker=marker, markersize=4.5, color=look.colour,
                      markerfacecolor=face, label="_")  # fmt: skip
    beyond = [spot.at for spot in spots if spot.is_infinite]
    if beyond:
        axes.plot(beyond, [top] * len(beyond), linestyle="none", marker="^", markersize=5, color=look.colour,
                  clip_on=False, label="_")  # fmt: skip
