"""Figures of simulated and recorded runs: what ran over time, how long it took, and who waited for whom."""

# matplotlib's stubs leave the types of keyword arguments open.
# pyright: reportUnknownMemberType=false

from collections.abc import Iterator, Sequence
from typing import Final

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from arriero.report.axes import (
    TimeUnit,
    area,
    count_axis,
    legend_above,
    limit_line,
    line,
    peaks,
    shade_outside,
    time_axis,
    unit_for,
)
from arriero.report.drawing import new_figure, styled
from arriero.report.gantt import Bar, Gantt
from arriero.report.house_style import (
    DECODE,
    INK,
    KV,
    PAPER,
    PREFILL,
    RUNNING,
    VERMILION,
    WAITING,
)
from arriero.report.timeline import Timeline

_PANEL: Final = 1.55  # inches
_BAR: Final = 0.105  # inches from one bar of a Gantt to the next


def timeline_figure(timeline: Timeline, span: tuple[float, float]) -> Figure:
    """Composition, requests and KV over time, one below the other, on one axis.

    Args:
        timeline: of one run.
        span: of the axis, microseconds; equal for runs that are to be compared.
    """
    unit = unit_for(span[1] - span[0])
    drawers = [_draw_requests]
    if timeline.prefill is not None:
        drawers.insert(0, _draw_composition)
    if timeline.kv is not None:
        drawers.append(_draw_kv)
    with styled():
        figure = new_figure(_PANEL * len(drawers) + 0.35)
        panels = figure.subplots(len(drawers), 1, sharex=True, squeeze=False)[:, 0]
        for draw, axes in zip(drawers, panels, strict=True):
            draw(axes, timeline, unit)
            time_axis(axes, span, unit, "time" if axes is panels[-1] else None)
            if timeline.window is not None:
                shade_outside(axes, timeline.window, unit)
        figure.align_ylabels()
    return figure


def _draw_composition(axes: Axes, timeline: Timeline, unit: TimeUnit) -> None:
    decode, prefill = timeline.decode, timeline.prefill
    assert decode is not None, "drawn only if there is one"
    assert prefill is not None, "both come from the same steps"
    axes.set_title("rows of a step")
    area(axes, decode, unit, DECODE, "decode")
    area(axes, prefill, unit, PREFILL, "prefill", base=decode)
    highest = float((decode.values + prefill.values).max(initial=0.0))
    if timeline.rows is not None and timeline.rows.peaks is not None:
        peaks(axes, timeline.rows, unit, INK, "most in the bin")
        highest = timeline.rows.highest
    if timeline.max_rows is not None and timeline.max_rows <= 3 * max(highest, 1.0):
        limit_line(axes, timeline.max_rows, f"allowed: {timeline.max_rows:,}")
        highest = max(highest, timeline.max_rows)
    count_axis(axes, "rows", highest)
    legend_above(axes)


def _draw_requests(axes: Axes, timeline: Timeline, unit: TimeUnit) -> None:
    axes.set_title("requests")
    curves = ((timeline.running, RUNNING, "running"), (timeline.waiting, WAITING, "waiting"))
    for curve, colour, label in curves:
        line(axes, curve, unit, colour, label)
        peaks(axes, curve, unit, colour)
    highest = max(curve.highest for curve, _, _ in curves)
    if timeline.max_sequences is not None and timeline.max_sequences <= 3 * max(highest, 1.0):
        limit_line(axes, timeline.max_sequences, f"may run: {timeline.max_sequences:,}")
        highest = max(highest, timeline.max_sequences)
    count_axis(axes, "requests", highest)
    legend_above(axes)


def _draw_kv(axes: Axes, timeline: Timeline, unit: TimeUnit) -> None:
    kv = timeline.kv
    assert kv is not None, "drawn only if there is one"
    axes.set_title("KV after each step")
    area(axes, kv, unit, KV, f"{timeline.kv_unit} held")
    peaks(axes, kv, unit, INK, "most in the bin")
    highest = kv.highest
    if timeline.kv_places is not None:
        limit_line(axes, timeline.kv_places, f"pool: {timeline.kv_places:,}")
        highest = max(highest, timeline.kv_places)
    count_axis(axes, timeline.kv_unit, highest)
    legend_above(axes)


# ── Gantt ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def gantt_figure(gantt: Gantt) -> Figure:
    """One bar a request, the first on top: waiting, prefill, decode, and the largest stall of each."""
    bars = gantt.bars
    span = min(bar.arrival for bar in bars), max(bar.until for bar in bars)
    span = span[0], max(span[1], span[0] + 1.0)
    unit = unit_for(span[1] - span[0])
    with styled():
        figure = new_figure(max(1.6, _BAR * len(bars) + 0.85))
        axes = figure.subplots()
        for boxes in _boxes(bars, unit):
            axes.add_collection(boxes, autolim=False)
        ends = [bar for bar in bars if not bar.is_whole]
        if ends:
            at, rows = [bar.until / unit.us for bar in ends], [bar.number for bar in ends]
            axes.plot(at, rows, linestyle="none", marker="x", color=VERMILION, markersize=3.5, clip_on=False)
        time_axis(axes, span, unit)
        axes.set_ylim(bars[-1].number + 0.9, bars[0].number - 0.9)
        axes.set_ylabel("request, by arrival")
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(visible=False, axis="y")
        handles: list[Artist] = [
            Patch(color=WAITING, alpha=0.55, label="waiting"),
            Patch(color=PREFILL, label="start to first token"),
            Patch(color=DECODE, alpha=0.8, label="decode"),
        ]
        if any(bar.stall is not None for bar in bars):
            handles.append(Patch(facecolor=PAPER, edgecolor=DECODE, linewidth=0.8, label="stall"))
        if ends:
            handles.append(Line2D([], [], color=VERMILION, marker="x", linestyle="none", label="no normal end"))
        axes.legend(handles=handles, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=len(handles))
    return figure


def _boxes(bars: Sequence[Bar], unit: TimeUnit) -> Iterator[PolyCollection]:
    """All stretches of one colour together."""
    spans: dict[str, list[list[tuple[float, float]]]] = {"waiting": [], "starting": [], "decoding": [], "stalled": []}
    for bar in bars:
        began = bar.until if bar.started is None else bar.started
        first = bar.until if bar.first is None else bar.first
        parts = [("waiting", bar.arrival, began), ("starting", began, first), ("decoding", first, bar.until)]
        if bar.stall is not None:
            parts.append(("stalled", *bar.stall))
        for name, begin, end in parts:
            if end > begin:
                spans[name].append(_corners(bar.number, begin / unit.us, end / unit.us))
    yield PolyCollection(spans["waiting"], facecolor=WAITING, alpha=0.55, linewidth=0)
    yield PolyCollection(spans["starting"], facecolor=PREFILL, linewidth=0)
    yield PolyCollection(spans["decoding"], facecolor=DECODE, alpha=0.8, linewidth=0)
    yield PolyCollection(spans["stalled"], facecolor=PAPER, edgecolor=DECODE, linewidth=0.6)


def _corners(number: int, begin: float, end: float) -> list[tuple[float, float]]:
    low, high = number - 0.38, number + 0.38
    return [(begin, low), (end, low), (end, high), (begin, high)]
