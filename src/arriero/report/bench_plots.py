"""What the client of a load test saw over time."""

# matplotlib's stubs leave the types of keyword arguments open.
# pyright: reportUnknownMemberType=false

from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from arriero.report.axes import (
    TimeUnit,
    area,
    count_axis,
    legend_above,
    line,
    peaks,
    shade_outside,
    time_axis,
    unit_for,
)
from arriero.report.client_series import ClientTimeline, Dots
from arriero.report.drawing import new_figure, styled
from arriero.report.house_style import BLUE, DECODE, GREEN, INK, PURPLE, VERMILION, WAITING

_PANEL: Final = 1.5  # inches


def client_figure(timeline: ClientTimeline) -> Figure:
    """Requests in flight, tokens, TTFT and send lag over time, one below the other."""
    unit = unit_for(timeline.span[1] - timeline.span[0])
    drawers = [_draw_requests, _draw_tokens, _draw_ttft]
    if timeline.send_lag is not None:
        drawers.append(_draw_lag)
    with styled():
        figure = new_figure(_PANEL * len(drawers) + 0.35)
        panels = figure.subplots(len(drawers), 1, sharex=True)
        for draw, axes in zip(drawers, panels, strict=True):
            draw(axes, timeline, unit)
            time_axis(axes, timeline.span, unit, "time" if axes is panels[-1] else None)
            shade_outside(axes, timeline.window, unit)
        figure.align_ylabels()
    return figure


def _draw_requests(axes: Axes, timeline: ClientTimeline, unit: TimeUnit) -> None:
    axes.set_title("requests at the server")
    for curve, colour, label in (
        (timeline.in_flight, DECODE, "in flight"),
        (timeline.unanswered, WAITING, "before the first token"),
    ):
        line(axes, curve, unit, colour, label)
        peaks(axes, curve, unit, colour)
    count_axis(axes, "requests", timeline.in_flight.highest)
    legend_above(axes)


def _draw_tokens(axes: Axes, timeline: ClientTimeline, unit: TimeUnit) -> None:
    axes.set_title("output tokens that arrived")
    area(axes, timeline.tokens_per_s, unit, GREEN, "tokens/s")
    count_axis(axes, "tokens/s", timeline.tokens_per_s.highest)


def _draw_ttft(axes: Axes, timeline: ClientTimeline, unit: TimeUnit) -> None:
    axes.set_title("TTFT, by arrival")
    _draw_dots(axes, timeline.ttft, unit, BLUE)


def _draw_lag(axes: Axes, timeline: ClientTimeline, unit: TimeUnit) -> None:
    assert timeline.send_lag is not None, "drawn only if there is one"
    axes.set_title("send lag: how late the client itself was")
    _draw_dots(axes, timeline.send_lag, unit, PURPLE)


def _draw_dots(axes: Axes, dots: Dots, unit: TimeUnit, colour: str) -> None:
    """Each request a dot; or of each bin the median and the highest; failures as crosses at the top."""
    tall = dots.values if dots.highest is None else dots.highest
    highest = float(tall.max(initial=0.0))
    scale = unit_for(highest)
    at = dots.at / unit.us
    if dots.highest is None:
        axes.plot(
            at, dots.values / scale.us, linestyle="none", marker=".", markersize=3.5, color=colour, label="request"
        )
    else:
        axes.plot(at, dots.values / scale.us, color=colour, label="median of the bin")
        axes.plot(at, dots.highest / scale.us, color=INK, linewidth=0.6, label="highest")
    count_axis(axes, scale.word, highest / scale.us, least=0.0)
    if len(dots.failed_at):
        top = axes.get_ylim()[1]
        axes.plot(dots.failed_at / unit.us, [top] * len(dots.failed_at), linestyle="none", marker="x", markersize=3.5,
                  color=VERMILION, clip_on=False, label="failed")  # fmt: skip
    if dots.highest is not None or len(dots.failed_at):
        legend_above(axes)
