"""Axes: units, limits and curves that every figure draws in the same way."""

# matplotlib's stubs leave the types of keyword arguments open.
# pyright: reportUnknownMemberType=false

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, PercentFormatter

from arriero.report.house_style import MUTED
from arriero.report.series import Cdf, Stretches


class TimeUnit(NamedTuple):
    """What an axis counts."""

    word: str
    us: float  # microseconds of one


_UNITS: Final = (
    TimeUnit("µs", 1.0),  # noqa: RUF001 - the sign of the unit
    TimeUnit("ms", 1e3),
    TimeUnit("s", 1e6),
    TimeUnit("min", 6e7),
    TimeUnit("h", 3.6e9),
)
_ENOUGH: Final = 5.0  # of a unit on an axis before it is taken


def unit_for(longest_us: float) -> TimeUnit:
    """The largest unit of which the axis has several."""
    return next((unit for unit in reversed(_UNITS) if longest_us >= _ENOUGH * unit.us), _UNITS[0])


def time_axis(axes: Axes, span: tuple[float, float], unit: TimeUnit, label: str | None = "time") -> None:
    """The horizontal axis is time; without a label, the axis below says it."""
    axes.set_xlim(span[0] / unit.us, span[1] / unit.us)
    if label is not None:
        axes.set_xlabel(f"{label} ({unit.word})")


def count_axis(axes: Axes, label: str, highest: float, least: float = 1.0) -> None:
    """The vertical axis goes from 0 a little beyond the highest value, or to `least`."""
    axes.set_ylabel(label)
    axes.set_ylim(0, (max(least, highest) or 1.0) * 1.08)
    axes.yaxis.set_major_formatter(FuncFormatter(plain))
    if least >= 1.0:
        axes.yaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))


def area(axes: Axes, curve: Stretches, unit: TimeUnit, colour: str, label: str, base: Stretches | None = None) -> None:
    """A filled curve over time, on top of another one if there is a base with the same edges."""
    below = np.zeros_like(curve.values) if base is None else base.values
    edges = curve.edges / unit.us
    axes.stairs(curve.values + below, edges, baseline=below, fill=True, color=colour, alpha=0.75, label=label)


def line(axes: Axes, curve: Stretches, unit: TimeUnit, colour: str, label: str) -> None:
    """A curve over time."""
    axes.stairs(curve.values, curve.edges / unit.us, baseline=None, color=colour, linewidth=1.1, label=label)


def peaks(axes: Axes, curve: Stretches, unit: TimeUnit, colour: str, label: str | None = None) -> None:
    """A thin line at the highest value of each bin; nothing where every stretch is drawn as it was."""
    if curve.peaks is not None:
        axes.stairs(curve.peaks, curve.edges / unit.us, baseline=None, color=colour, linewidth=0.6, label=label)


def limit_line(axes: Axes, value: float, label: str) -> None:
    """A bound that holds all the time."""
    axes.axhline(value, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)), label=label)


def shade_outside(axes: Axes, window: tuple[float, float], unit: TimeUnit) -> None:
    """Grey what lies outside the measured window; the limits of the axis stand already."""
    left, right = axes.get_xlim()
    begins, ends = (each / unit.us for each in window)
    for low, high in ((left, min(begins, right)), (max(ends, left), right)):
        if high > low:
            axes.axvspan(low, high, color=MUTED, alpha=0.12, linewidth=0, zorder=0)


def legend_above(axes: Axes, num_columns: int = 4) -> None:
    """The legend between title and axes, to the right, where it covers nothing."""
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=num_columns)


def cdf_curve(axes: Axes, curve: Cdf, scale: float, **how: Any) -> None:  # noqa: ANN401 - matplotlib's own options
    """A distribution: it rises at each sample."""
    at = np.concatenate([curve.at[:1], curve.at]) / scale
    axes.plot(at, np.concatenate([[0.0], curve.shares]), drawstyle="steps-post", **how)


def cdf_axes(axes: Axes, curves: Sequence[Cdf], unit: TimeUnit) -> None:
    """Shares from 0 to 100 %; the horizontal axis is logarithmic where values differ by orders of magnitude."""
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_xlabel(unit.word)
    low, high = _range(curves)
    if is_wide(curves):
        axes.set_xscale("log")
        axes.set_xlim(low / unit.us, high / unit.us * 1.1)
        if high < _FEW_DECADES * low:
            axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter(FuncFormatter(plain))
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_xlim(0, max(high / unit.us * 1.04, 1e-9))
        axes.xaxis.set_major_formatter(FuncFormatter(plain))


def is_wide(curves: Sequence[Cdf]) -> bool:
    """Whether a logarithmic axis is used."""
    low, high = _range(curves)
    return low > 0 and high > _WIDE * low


def plain(value: float, _position: int | None = None) -> str:
    """A number on an axis, without powers of ten."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"


def _range(curves: Sequence[Cdf]) -> tuple[float, float]:
    """From the lowest drawn value above 0, but from 5 % of the samples on, to the highest."""
    lows = [float(each.at[(each.at > 0) & (each.shares >= _LOWEST_SHARE)][:1].sum()) for each in curves]
    return min((low for low in lows if low > 0), default=0.0), max(float(each.at[-1]) for each in curves)


_WIDE: Final = 30.0
_FEW_DECADES: Final = 1e3
_LOWEST_SHARE: Final = 0.05
