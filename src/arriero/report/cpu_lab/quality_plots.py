"""Figures of quality: perplexity and its ratio with intervals, and how divergences are distributed over tokens."""

# matplotlib's stubs leave the types of keyword arguments open.
# pyright: reportUnknownMemberType=false

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from arriero.record.cpu_lab.quality import QualityResult
from arriero.record.cpu_lab.quality_figures import Estimate
from arriero.report.axes import plain
from arriero.report.drawing import Drawn, new_figure, styled
from arriero.report.house_style import BLUE, DASHES, INK, MUTED, SERIES

PERPLEXITY: Final = "quality-perplexity"
DIVERGENCE: Final = "quality-divergence"
_ROW: Final = 0.32  # inches
_LEAST: Final = 1e-7  # nats: below lies what rounding leaves
_CUT: Final = 200  # one token in so many may lie left of the axis
_PERPLEXITY_WORDS: Final = (
    "Left: perplexity of each file. These intervals are wide because windows are hard or easy for every file alike. "
    "Right: perplexity / that of the reference, paired over windows, where that cancels; an interval that holds 1 "
    "resolves nothing. Bars are bootstrap intervals over windows."
)
_DIVERGENCE_WORDS: Final = (
    "Share of scored tokens whose next-token distribution diverges from the reference's by at least so much. Lower and "
    "further left is nearer to the reference. The axis begins where 99.5 % of the tokens of each file still lie; "
    "values below 1e-7 nats are drawn there."
)


class _Row(NamedTuple):
    label: str
    colour: str
    perplexity: Estimate
    ratio: Estimate | None  # the reference has none


def quality_pictures(result: QualityResult) -> Iterator[Drawn]:
    """Both figures; none before a file was measured."""
    if not result.candidates:
        return
    yield Drawn(PERPLEXITY, "Perplexity", _PERPLEXITY_WORDS, _perplexity_figure(_rows(result)))
    yield Drawn(DIVERGENCE, "Divergence from the reference", _DIVERGENCE_WORDS, _divergence_figure(result))


def _rows(result: QualityResult) -> list[_Row]:
    reference = result.reference
    first = _Row(f"{reference.model.file} (reference)", MUTED, reference.perplexity.value, None)
    rest = (_Row(each.model.file, BLUE, each.perplexity.value, each.ratio) for each in result.candidates)
    return [first, *rest]


def _perplexity_figure(rows: Sequence[_Row]) -> Figure:
    with styled():
        figure = new_figure(_ROW * len(rows) + 0.9)
        left, right = figure.subplots(1, 2, sharey=True)
        for place, row in enumerate(rows):
            _draw(left, place, row.perplexity, row.colour)
            if row.ratio is not None:
                _draw(right, place, row.ratio, row.colour)
        right.axvline(1.0, color=INK, linewidth=0.8)
        left.set_yticks(range(len(rows)), [row.label for row in rows])
        left.set_ylim(len(rows) - 0.5, -0.5)
        for axes, label in ((left, "perplexity"), (right, "ratio to the reference")):
            axes.set_xlabel(label)
            axes.grid(visible=False, axis="y")
            axes.xaxis.set_major_locator(MaxNLocator(nbins=5))
            axes.xaxis.set_major_formatter(FuncFormatter(plain))
    return figure


def _draw(axes: Axes, place: int, estimate: Estimate, colour: str) -> None:
    axes.plot([estimate.low, estimate.high], [place, place], color=colour, linewidth=2.2, solid_capstyle="butt")
    axes.plot([estimate.value], [place], marker="D", markersize=3.2, color=colour, linestyle="none")


def _divergence_figure(result: QualityResult) -> Figure:
    with styled():
        figure = new_figure(3.2)
        axes = figure.subplots()
        lowest = 1.0
        for index, each in enumerate(result.candidates):
            values = np.sort(np.maximum(np.asarray(each.scores.divergence, np.float64).reshape(-1), _LEAST))
            lowest = min(lowest, float(values[len(values) // _CUT]))
            shares = 1 - np.arange(len(values)) / len(values)
            look = index % len(SERIES)
            axes.plot(values, shares, drawstyle="steps-pre", color=SERIES[look], linestyle=DASHES[look],
                      label=each.model.file)  # fmt: skip
        axes.set_xscale("log")
        axes.set_xlim(left=lowest / 2)
        axes.set_ylim(0, 1.02)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.set_xlabel("KL(reference || file), nats (logarithmic)")
        axes.set_ylabel("tokens with at least so much")
        axes.legend(loc="lower left")
    return figure
