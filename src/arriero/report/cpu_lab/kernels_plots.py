"""Figure of the kernel workbench: how many times as fast each candidate is at each size, with its interval."""

# matplotlib's stubs leave the types of keyword arguments open.
# pyright: reportUnknownMemberType=false

from collections.abc import Sequence
from typing import Final, NamedTuple

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from arriero.record.cpu_lab.kernels import KernelsResult
from arriero.report.axes import plain
from arriero.report.drawing import Drawn, new_figure, styled
from arriero.report.house_style import GREEN, INK, MUTED, VERMILION

_ROW: Final = 0.3  # inches


class RatioLine(NamedTuple):
    """One size of one candidate."""

    label: str
    value: float
    low: float
    high: float
    by_repetition: tuple[float, ...]  # baseline / candidate of each repetition


def ratio_lines(result: KernelsResult) -> tuple[RatioLine, ...]:
    """In the order of the result."""
    return tuple(
        RatioLine(
            f"{each.experiment}, {each.compiler_name}, {size.size} blocks",
            size.ratio.value,
            size.ratio.low,
            size.ratio.high,
            tuple(a / b for a, b in zip(size.kernels[0].nanoseconds, size.kernels[1].nanoseconds, strict=True)),
        )
        for each in result.candidates
        for size in each.sizes
    )


def kernels_drawn(result: KernelsResult) -> tuple[Drawn, ...]:
    """The figure, or none where nothing was timed."""
    lines = ratio_lines(result)
    if not lines:
        return ()
    caption = (
        "MICROBENCHMARK: median time of the baseline / of the candidate, with its 95 % interval; right of 1 the "
        "candidate is faster. Ticks are single repetitions."
    )
    return (Drawn("kernel-ratios", "Baseline / candidate by kernel and size", caption, ratio_figure(lines)),)


def ratio_figure(lines: Sequence[RatioLine]) -> Figure:
    """One row a size, the first on top."""
    with styled():
        figure = new_figure(_ROW * len(lines) + 0.9)
        axes = figure.subplots()
        for row, line in enumerate(lines):
            colour = GREEN if line.low > 1 else VERMILION if line.high < 1 else MUTED
            axes.plot(line.by_repetition, [row + 0.22] * len(line.by_repetition), linestyle="none", marker="|",
                      markersize=4, color=MUTED)  # fmt: skip
            axes.plot([line.low, line.high], [row, row], color=colour, linewidth=2.2, solid_capstyle="butt")
            axes.plot([line.value], [row], marker="D", markersize=4.5, color=colour)
        axes.axvline(1.0, color=INK, linewidth=0.8)
        axes.xaxis.set_major_formatter(FuncFormatter(plain))
        axes.set_xlabel("baseline / candidate")
        axes.set_yticks(range(len(lines)), [line.label for line in lines])
        axes.set_ylim(len(lines) - 0.4, -0.6)
        axes.grid(visible=False, axis="y")
    return figure
