"""Figures of profiles: the hottest functions, families of several cases below one another, ratios to a reference."""

# matplotlib's stubs leave the types of keyword arguments open.
# pyright: reportUnknownMemberType=false

from collections.abc import Sequence
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from arriero.metrics.symbol_families import Family
from arriero.record.cpu_lab.perf_comparison import CaseHot, CounterRatio, HotFunction
from arriero.report.axes import plain
from arriero.report.cpu_lab.flame_graph import COLOURS
from arriero.report.drawing import new_figure, styled
from arriero.report.house_style import INK, MUTED, SERIES

_ROW: Final = 0.24  # inches
_LONGEST: Final = 52
_LEAST_SHOWN: Final = 0.03


def functions_figure(functions: Sequence[HotFunction]) -> Figure:
    """One bar a function, the hottest on top, in the colour of its family."""
    with styled():
        figure = new_figure(_ROW * len(functions) + 0.7)
        axes = figure.subplots()
        places = range(len(functions))
        shares = [100 * each.share for each in functions]
        axes.barh(places, shares, height=0.74, color=[COLOURS[each.family] for each in functions])
        for place, each in zip(places, functions, strict=True):
            bound = "" if each.bound is None else f", at most {each.bound:.2f}x"
            axes.annotate(f"{100 * each.share:.1f} %{bound}", (100 * each.share, place), xytext=(3, 0),
                          textcoords="offset points", va="center", fontsize=7.5, color=INK)  # fmt: skip
        axes.set_yticks(places, [short(each.symbol) for each in functions])
        axes.set_ylim(len(functions) - 0.4, -0.6)
        axes.set_xlim(0, 1.25 * max(shares, default=1.0))
        axes.set_xlabel("share of everything (%)")
        axes.grid(visible=False, axis="y")
    return figure


def families_figure(cases: Sequence[CaseHot], labels: Sequence[str]) -> Figure:
    """One bar a case, made of its families; what is below the limit is left white."""
    families = [
        family for family in COLOURS if any(share.family is family for case in cases for share in case.families)
    ]
    with styled():
        figure = new_figure(0.4 * len(cases) + 0.9 + 0.16 * len(families))
        axes = figure.subplots()
        for row, case in enumerate(cases):
            _draw_families(axes, row, case, families)
        for family in families:
            axes.barh(0, 0, color=COLOURS[family], label=family.value)
        axes.set_yticks(range(len(cases)), labels)
        axes.set_ylim(len(cases) - 0.4, -0.6)
        axes.set_xlim(0, 100)
        axes.set_xlabel("share of everything (%)")
        axes.grid(visible=False, axis="y")
        figure.legend(loc="outside lower center", ncols=2)
    return figure


def _draw_families(axes: Axes, row: int, case: CaseHot, families: Sequence[Family]) -> None:
    shares = {each.family: each.share for each in case.families}
    left = 0.0
    for family in families:
        width = 100 * shares.get(family, 0.0)
        axes.barh(row, width, left=left, height=0.66, color=COLOURS[family])
        if width >= 100 * _LEAST_SHOWN:
            axes.text(left + width / 2, row, f"{width:.0f}", ha="center", va="center", fontsize=7.5, color=INK)
        left += width


def ratios_figure(ratios: Sequence[CounterRatio], names: Sequence[str]) -> Figure:
    """One group of bars a figure, one bar a model; the line is the reference."""
    targets = list(dict.fromkeys(each.target for each in ratios))
    values = {(each.name, each.target): each.value for each in ratios}
    height = 0.8 / max(1, len(targets))
    with styled():
        figure = new_figure(0.3 * len(names) * max(1, len(targets)) + 0.2 * len(targets) + 0.8)
        axes = figure.subplots()
        for index, target in enumerate(targets):
            places = [row + (index + 0.5) * height - 0.4 for row in range(len(names))]
            found = [values.get((name, target)) or 0.0 for name in names]
            axes.barh(places, found, height=0.9 * height, color=SERIES[index % len(SERIES)], label=target)
        axes.axvline(1.0, color=MUTED, linewidth=1.0)
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.xaxis.set_major_formatter(FuncFormatter(plain))
        axes.set_xlabel("times the reference")
        axes.grid(visible=False, axis="y")
        figure.legend(loc="outside lower center", ncols=2)
    return figure


def short(symbol: str) -> str:
    """A name without its arguments, and not too long."""
    bare = symbol.partition("(")[0] or symbol
    return bare if len(bare) <= _LONGEST else f"{bare[: _LONGEST - 2]}.."
