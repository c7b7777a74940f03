"""Distributions side by side: one panel a latency, one curve a result."""

# matplotlib's stubs leave the types of keyword arguments open.
# pyright: reportUnknownMemberType=false

from collections.abc import Sequence
from typing import Final, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from arriero.report.axes import cdf_axes, cdf_curve, unit_for
from arriero.report.drawing import new_figure, styled
from arriero.report.house_style import DASHES, MUTED, SERIES
from arriero.report.series import Cdf, Detail

CURVES_AT_ONCE: Final = 6
"""Curves that one figure can hold and still be read: as many as there are colours."""


class CdfPanel(NamedTuple):
    """One distribution of several runs."""

    title: str
    curves: Sequence[Cdf | None]  # one for each run
    objectives: Sequence[float | None]  # microseconds, one for each run


def cdf_figure(panels: Sequence[CdfPanel], names: Sequence[str]) -> Figure:
    """Distributions side by side, two in a row, one curve a run."""
    with styled():
        num_rows = (len(panels) + 1) // 2
        figure = new_figure(1.95 * num_rows + 0.3)
        grid = figure.subplots(num_rows, 2, squeeze=False)
        for panel, axes in zip(panels, grid.ravel(), strict=False):
            _draw_cdf(axes, panel, names)
        for axes in grid.ravel()[len(panels) :]:
            axes.set_axis_off()
        if len(names) > 1:
            handles, labels = grid[0, 0].get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside upper left", ncols=min(3, len(names)))
    return figure


def _draw_cdf(axes: Axes, panel: CdfPanel, names: Sequence[str]) -> None:
    drawn = [curve for curve in panel.curves if curve is not None]
    axes.set_title(panel.title)
    if not drawn:
        axes.text(0.5, 0.5, "no request has it", transform=axes.transAxes, ha="center", color=MUTED)
        axes.set_xticks([])
        axes.set_yticks([])
        return
    unit = unit_for(max(float(curve.at[-1]) for curve in drawn))
    for number, (curve, name) in enumerate(zip(panel.curves, names, strict=True)):
        colour, dashes = SERIES[number % len(SERIES)], DASHES[number % len(DASHES)]
        if curve is not None:
            cdf_curve(axes, curve, unit.us, color=colour, linestyle=dashes, label=name)
        else:
            axes.plot([], [], color=colour, linestyle=dashes, label=name)
    cdf_axes(axes, drawn, unit)
    for bound in sorted({bound for bound in panel.objectives if bound is not None}):
        _draw_objective(axes, bound / unit.us)


def _draw_objective(axes: Axes, bound: float) -> None:
    left, right = axes.get_xlim()
    if not left <= bound <= right:
        return
    axes.axvline(bound, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
    is_near_edge = axes.transAxes.inverted().transform(axes.transData.transform((bound, 0)))[0] < 0.1
    side = (4, "left") if is_near_edge else (-3, "right")
    axes.annotate("objective", (bound, 0.98), xytext=(side[0], 0), textcoords="offset points", ha=side[1], va="top",
                  rotation=90, fontsize=7.5, color=MUTED)  # fmt: skip


def thinning_words(curves: Sequence[Cdf], detail: Detail) -> str:
    """How much of the data the curves draw; empty if everything."""
    if not any(curve.is_thinned for curve in curves):
        return ""
    return (
        f"Of more than {detail.num_points} samples a curve is drawn through up to {detail.num_points}, "
        "more closely at both ends; each drawn point is a sample."
    )
