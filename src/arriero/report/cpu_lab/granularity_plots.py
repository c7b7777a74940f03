"""Figure of a run of packets: how much longer a call takes, and what a cut costs."""

# matplotlib's stubs leave the types of keyword arguments open.
# pyright: reportUnknownMemberType=false

from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from arriero.record.cpu_lab.granularity import GranularityResult, PhaseGranularity, Price, price_of
from arriero.report.axes import plain
from arriero.report.drawing import Drawn, new_figure, styled
from arriero.report.house_style import DECODE, INK, MUTED, PAPER, PREFILL

_COLOURS: Final = {"prefill": PREFILL, "decode": DECODE}


def granularity_drawn(result: GranularityResult) -> tuple[Drawn, ...]:
    """The figure; none where nothing was cut."""
    if not any(_points(phase, result.settings.repetitions) for phase in result.phases):
        return ()
    caption = (
        f"{result.evidence}: medians of differences between calls of one repetition, in packets and in one piece. "
        "Left: filled where the difference is resolved. Right: the resolved ones, for each cut; bars: quartiles."
    )
    return (Drawn("granularity", "What cutting a graph costs", caption, granularity_figure(result)),)


def granularity_figure(result: GranularityResult) -> Figure:
    """Left the whole call, right each cut."""
    with styled():
        figure = new_figure(2.9)
        left, right = figure.subplots(1, 2)
        for phase in result.phases:
            points, colour = _points(phase, result.settings.repetitions), _COLOURS[phase.phase]
            left.plot([size for size, _ in points], [100 * price.slowdown for _, price in points], color=colour,
                      label=phase.phase)  # fmt: skip
            for size, price in points:
                left.plot([size], [100 * price.slowdown], marker="o", markersize=4, color=colour,
                          markerfacecolor=colour if price.is_resolved else PAPER)  # fmt: skip
            _draw_cuts(right, points, colour)
        if not right.has_data():
            right.text(0.5, 0.5, "no difference is resolved", transform=right.transAxes, ha="center", color=MUTED)
        sizes = sorted({arm.every for phase in result.phases for arm in phase.arms if arm.every})
        for axes, label in ((left, "slower than in one piece (%)"), (right, "each cut (µs)")):  # noqa: RUF001
            axes.set_xscale("log", base=2)
            axes.set_xlim(sizes[0] / 1.3, sizes[-1] * 1.3)
            axes.xaxis.set_major_locator(FixedLocator(sizes[::2] if len(sizes) > 6 else sizes))
            axes.xaxis.set_minor_locator(NullLocator())
            axes.xaxis.set_major_formatter(FuncFormatter(plain))
            axes.yaxis.set_major_formatter(FuncFormatter(plain))
            axes.axhline(0, color=INK, linewidth=0.8)
            axes.set_xlabel("nodes in a packet (logarithmic)")
            axes.set_ylabel(label)
        figure.legend(*left.get_legend_handles_labels(), loc="outside upper right", ncols=len(result.phases))
    return figure


def _points(phase: PhaseGranularity, repetitions: int) -> list[tuple[int, Price]]:
    """The sizes that cut the graph, ascending."""
    whole = phase.arms[0]
    cut = [(arm.every, arm) for arm in phase.arms if arm.every and arm.num_packets > 1]
    return sorted((size, price_of(arm, whole, repetitions)) for size, arm in cut)


def _draw_cuts(axes: Axes, points: list[tuple[int, Price]], colour: str) -> None:
    for size, price in points:
        middle, low, high = price.cut_ns, price.cut_low_ns, price.cut_high_ns
        if middle is None or low is None or high is None or not price.is_resolved:
            continue
        reach = [[max(0.0, middle - low) / 1e3], [max(0.0, high - middle) / 1e3]]
        axes.errorbar([size], [middle / 1e3], yerr=reach, color=colour, marker="o", markersize=4, capsize=2.5,
                      elinewidth=0.8)  # fmt: skip
