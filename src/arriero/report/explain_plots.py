"""The figure of explained requests: one bar each, split by cause."""

# matplotlib's stubs leave the types of keyword arguments open.
# pyright: reportUnknownMemberType=false

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from matplotlib.artist import Artist
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from arriero.metrics.explain_parts import PARTS, Part
from arriero.report.axes import TimeUnit, time_axis, unit_for
from arriero.report.drawing import Drawn, new_figure, styled
from arriero.report.explain_journal import ExplainedRun
from arriero.report.explain_view import WORDS, Bar, bars_of, bars_words
from arriero.report.house_style import (
    DECODE,
    GREEN,
    INK,
    MUTED,
    ORANGE,
    PREFILL,
    SKY,
    VERMILION,
    WAITING,
)

_BAR: Final = 0.125  # inches from one bar to the next
_COLUMNS: Final = 6  # of the legend


class _Look(NamedTuple):
    colour: str
    alpha: float


_LOOKS: Final[Mapping[Part, _Look]] = MappingProxyType({
    Part.QUEUE: _Look(WAITING, 0.55),
    Part.PREFIX: _Look(SKY, 0.9),
    Part.OWN_PREFILL: _Look(PREFILL, 1.0),
    Part.OTHERS_PREFILL: _Look(ORANGE, 1.0),
    Part.DECODE: _Look(DECODE, 0.8),
    Part.OTHERS_DECODE: _Look(DECODE, 0.4),
    Part.PREEMPTED: _Look(MUTED, 0.8),
    Part.SWAP: _Look(GREEN, 0.9),
    Part.RECOMPUTED: _Look(PREFILL, 0.45),
    Part.REDONE: _Look(INK, 0.9),
    Part.HOST: _Look(MUTED, 0.35),
})


def explain_pictures(runs: Sequence[ExplainedRun]) -> Iterator[Drawn]:
    """The bars of each run that has requests."""
    for number, run in enumerate(runs, start=1):
        if run.requests:
            bars = bars_of(run)
            yield Drawn(f"bars-run-{number}", "Requests one by one", bars_words(bars), bars_figure(bars.bars))


def bars_figure(bars: Sequence[Bar]) -> Figure:
    """One bar a request, the first on top; its length is what the request took."""
    longest = max(1, *(bar.split.total for bar in bars))
    unit = unit_for(longest)
    used = [part for part in PARTS if any(bar.split.of(part) for bar in bars)]
    with styled():
        figure = new_figure(max(1.7, _BAR * len(bars) + 1.1))
        axes = figure.subplots()
        for boxes in _boxes(bars, used, unit):
            axes.add_collection(boxes, autolim=False)
        handles: list[Artist] = [
            Patch(color=_LOOKS[part].colour, alpha=_LOOKS[part].alpha, label=WORDS[part]) for part in used
        ]
        if odd := [place for place, bar in enumerate(bars) if not bar.is_whole]:
            at = [bars[place].split.total / unit.us for place in odd]
            axes.plot(at, odd, linestyle="none", marker="x", color=VERMILION, markersize=3.5, clip_on=False)
            handles.append(Line2D([], [], color=VERMILION, marker="x", linestyle="none", label="no normal end"))
        time_axis(axes, (0.0, float(longest)), unit, "time from arrival to end")
        axes.set_ylim(len(bars) - 0.1, -0.9)
        axes.set_ylabel("request")
        axes.set_yticks(range(len(bars)), [str(bar.request_id) for bar in bars], fontsize=6)
        axes.grid(visible=False, axis="y")
        axes.legend(handles=handles, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=_COLUMNS)
    return figure


def _boxes(bars: Sequence[Bar], used: Sequence[Part], unit: TimeUnit) -> Iterator[PolyCollection]:
    """All stretches of one part together."""
    reached = [0] * len(bars)
    for part in used:
        corners: list[list[tuple[float, float]]] = []
        for place, bar in enumerate(bars):
            begin, end = reached[place], reached[place] + bar.split.of(part)
            reached[place] = end
            if end > begin:
                corners.append(_corners(place, begin / unit.us, end / unit.us))
        look = _LOOKS[part]
        yield PolyCollection(corners, facecolor=look.colour, alpha=look.alpha, linewidth=0)


def _corners(place: int, begin: float, end: float) -> list[tuple[float, float]]:
    low, high = place - 0.38, place + 0.38
    return [(begin, low), (end, low), (end, high), (begin, high)]
