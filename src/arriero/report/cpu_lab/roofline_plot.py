"""The roofline: operations per second over operations per byte."""

# matplotlib's stubs leave the types of keyword arguments open.
# pyright: reportUnknownMemberType=false

from typing import Final

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from arriero.record.cpu_lab.roofline import Roofline
from arriero.report.axes import plain
from arriero.report.drawing import new_figure, styled
from arriero.report.house_style import DECODE, INK, MUTED, PREFILL

_COLOURS: Final = {"prefill": PREFILL, "decode": DECODE}
_GIGA: Final = 1e9


def roofline_figure(roofline: Roofline) -> Figure:
    """The roof of each peak, and a dot a phase with what it could be."""
    bandwidth, peaks = roofline.ceilings[0].rate, roofline.ceilings[1:]
    measured = [each for each in roofline.phases if each.intensity]
    left = min([1.0, *((each.intensity or 1.0) / 2 for each in measured)])
    right = max([4 * peak.rate / bandwidth for peak in peaks] + [(each.intensity or 1.0) * 2 for each in measured])
    across = np.geomspace(left, right, 200)
    with styled():
        figure = new_figure(3.2)
        axes = figure.subplots()
        for peak, style in zip(peaks, ("-", "--"), strict=False):
            roof = np.minimum(across * bandwidth, peak.rate) / _GIGA
            axes.plot(across, roof, color=INK if style == "-" else MUTED, linestyle=style, linewidth=1.1,
                      label=f"{peak.kind}, {peak.variant}")  # fmt: skip
        for each in measured:
            rate = each.operations / each.measured_ns
            bound = each.operations / each.bound_ns
            at = each.intensity or 1.0
            axes.plot([at, at], [rate, bound], color=_COLOURS[each.phase], linewidth=0.9, linestyle=(0, (2, 2)))
            axes.plot([at], [rate], marker="o", markersize=6, color=_COLOURS[each.phase], linestyle="none",
                      label=f"{each.phase}: {100 * each.achieved:.0f} % of its bound")  # fmt: skip
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("operations / byte (logarithmic)")
        axes.set_ylabel("G operations/s (logarithmic)")
        for each_axis in (axes.xaxis, axes.yaxis):
            each_axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            each_axis.set_major_formatter(FuncFormatter(plain))
            each_axis.set_minor_formatter(NullFormatter())
        figure.legend(loc="outside upper center", ncols=2)
    return figure
