"""Figures of an operator profile: families, layers, the host's parts, the roofline."""

# matplotlib's stubs leave the types of keyword arguments open.
# pyright: reportUnknownMemberType=false

from collections.abc import Sequence
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from arriero.record.cpu_lab.graph_nodes import Family
from arriero.record.cpu_lab.host_split import HostPart, HostSplit
from arriero.record.cpu_lab.operator_times import by_family, by_layer
from arriero.record.cpu_lab.operators import OperatorProfile, PhaseProfile
from arriero.record.cpu_lab.roofline import Roofline
from arriero.report.axes import plain
from arriero.report.cpu_lab.roofline_plot import roofline_figure
from arriero.report.drawing import Drawn, new_figure, styled
from arriero.report.house_style import DECODE, MUTED, PREFILL, SERIES

_ROW: Final = 0.34  # inches
_COLOURS: Final = {"prefill": PREFILL, "decode": DECODE}


def operators_drawn(profile: OperatorProfile) -> tuple[Drawn, ...]:
    """All figures of a profile."""
    found = [
        Drawn(
            "operators-families",
            "Share of a call's node time by family",
            f"{profile.evidence}: medians of the nodes, summed up; each phase is 100 %.",
            family_figure(profile.phases),
        )
    ]
    if any(len(by_layer(phase)) > 2 for phase in profile.phases):
        caption = (
            f"{profile.evidence}: medians of the nodes, summed up by layer; what lies outside of layers is not drawn."
        )
        found.append(Drawn("operators-layers", "Time of a call by layer", caption, layer_figure(profile.phases)))
    if profile.host is not None:
        found.append(host_drawn(profile.host))
    if profile.roofline is not None:
        found.append(roofline_drawn(profile.roofline))
    return tuple(found)


def host_drawn(split: HostSplit) -> Drawn:
    """The parts of a step outside of the decode call."""
    caption = (
        f"{split.evidence}: medians of the parts of a decode step outside of the decode call, which the table has, too."
    )
    return Drawn("host-split", "The host's part of a step", caption, host_figure(split))


def roofline_drawn(roofline: Roofline) -> Drawn:
    """Both phases below the roof."""
    caption = (
        f"Dots: calls ({roofline.evidence}); lines: measured bandwidth and peaks ({roofline.ceilings_evidence}). The "
        "distance of a dot to the line above it is what was not reached."
    )
    return Drawn("roofline", "Roofline of one call", caption, roofline_figure(roofline))


def family_figure(phases: Sequence[PhaseProfile]) -> Figure:
    """Two bars a family."""
    shares = {phase.phase: {group.key: group.share for group in by_family(phase)} for phase in phases}
    families = [each.value for each in Family if any(found.get(each.value) for found in shares.values())]
    with styled():
        figure = new_figure(_ROW * len(families) + 0.8)
        axes = figure.subplots()
        height = 0.8 / len(shares)
        for place, (phase, found) in enumerate(shares.items()):
            at = np.arange(len(families)) - 0.4 + height * (place + 0.5)
            axes.barh(at, [100 * found.get(name, 0.0) for name in families], height * 0.92, color=_COLOURS[phase],
                      label=phase)  # fmt: skip
        axes.set_yticks(range(len(families)), families)
        axes.invert_yaxis()
        axes.set_xlabel("share of node time (%)")
        axes.grid(visible=False, axis="y")
        axes.legend(loc="lower right")
    return figure


def layer_figure(phases: Sequence[PhaseProfile]) -> Figure:
    """One panel a phase, since they differ by orders of magnitude."""
    with styled():
        figure = new_figure(1.5 * len(phases) + 0.5)
        grid = figure.subplots(len(phases), 1, sharex=True, squeeze=False)[:, 0]
        for axes, phase in zip(grid, phases, strict=True):
            layers = [(int(group.key), group.ns / 1e3) for group in by_layer(phase) if group.key.isdigit()]
            axes.bar([at for at, _ in layers], [us for _, us in layers], color=_COLOURS[phase.phase], width=0.8)
            axes.set_title(phase.phase)
            axes.set_ylabel("µs")  # noqa: RUF001 - the sign of the unit
            axes.grid(visible=False, axis="x")
            axes.yaxis.set_major_formatter(FuncFormatter(plain))
        grid[-1].set_xlabel("layer")
        grid[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def host_figure(split: HostSplit) -> Figure:
    """One stack a number of sequences."""
    with styled():
        figure = new_figure(2.8)
        axes: Axes = figure.subplots()
        parts = [part for part in HostPart if part is not HostPart.CALL]
        base = np.zeros(len(split.points))
        for place, part in enumerate(parts):
            values = np.array([
                next((max(0.0, each.median_us) for each in point.parts if each.part is part), 0.0)
                for point in split.points
            ])
            colour = MUTED if part is HostPart.REST else SERIES[place % len(SERIES)]
            axes.bar(range(len(base)), values, bottom=base, color=colour, label=part.value)
            base = base + values
        axes.set_xticks(range(len(base)), [str(point.sequences) for point in split.points])
        axes.set_xlabel("sequences")
        axes.set_ylabel("µs a step")  # noqa: RUF001 - the sign of the unit
        axes.grid(visible=False, axis="x")
        figure.legend(loc="outside right upper")
    return figure
