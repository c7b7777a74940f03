"""Every picture of a report of the load generator's results, with the words below it."""

from collections.abc import Iterator, Sequence
from types import MappingProxyType
from typing import Final

from arriero.report.bench_plots import client_figure
from arriero.report.bench_view import BenchView, PointView
from arriero.report.cdf_plots import CURVES_AT_ONCE, CdfPanel, cdf_figure, thinning_words
from arriero.report.client_series import NUM_BINS, ClientTimeline, client_timeline, in_window, latency_cdf
from arriero.report.client_words import LABELS
from arriero.report.drawing import Drawn
from arriero.report.series import Detail, detail_for
from arriero.report.sweep import common_axis, sweep
from arriero.report.sweep_plots import sweep_figure

_SHOWN: Final = ("ttft_ns", "e2e_ns", "tpot_ns", "itl_ns", "itl_max_ns", "service_ttft_ns")
_AXES: Final = MappingProxyType({"rate_per_s": "intended rate (requests/s)", "clients": "number of clients"})


def bench_pictures(views: Sequence[BenchView]) -> Iterator[Drawn]:
    """Curves over the load, distributions, and a timeline of each point that kept its raw log."""
    yield from _sweeps(views)
    points = [point for view in views for point in view.points if point.point.lives]
    detail = detail_for(len(points))
    yield from _distributions(points, detail)
    for point in points:
        timeline = client_timeline(point.point.lives, point.summary, detail)
        if timeline is not None:
            yield Drawn(f"timeline-{point.key}", "Over time", _timeline_words(timeline), client_figure(timeline))


def _sweeps(views: Sequence[BenchView]) -> Iterator[Drawn]:
    found = [each for each in map(sweep, views) if each is not None]
    for group in common_axis(found):
        axis = group[0].axis
        parts = [group[start : start + CURVES_AT_ONCE] for start in range(0, len(group), CURVES_AT_ONCE)]
        for number, part in enumerate(parts, start=1):
            figure = sweep_figure(part, _AXES.get(axis, axis))
            yield Drawn(f"sweep-{axis}-{number}", f"Figures over the {_AXES.get(axis, axis)}", _SWEEP_WORDS, figure)


_SWEEP_WORDS: Final = (
    "Solid: p50 or what was served; dashed: p99, what was offered, or what was good. Latencies are those of all "
    "requests: an arrow at the upper edge is a percentile that falls among failures. Filled points are valid, hollow "
    "ones degraded, crosses invalid."
)


def _distributions(points: Sequence[PointView], detail: Detail) -> Iterator[Drawn]:
    groups = _groups(points)
    for number, group in enumerate(groups, start=1):
        panels = [_panel(name, group, detail) for name in _SHOWN]
        curves = [curve for panel in panels for curve in panel.curves if curve is not None]
        words = f"{_CDF_WORDS} {thinning_words(curves, detail)}".rstrip()
        title = "How long things took" if len(groups) == 1 else f"How long things took ({number} of {len(groups)})"
        yield Drawn(f"cdf-{number}", title, words, cdf_figure(panels, [point.label for point in group]))


def _groups(points: Sequence[PointView]) -> list[Sequence[PointView]]:
    """Single runs together, the points of a sweep by themselves; as many at once as can be told apart."""
    by_result: dict[str, list[PointView]] = {}
    for point in points:
        by_result.setdefault(point.result, []).append(point)
    is_sweep = any(len(each) > 1 for each in by_result.values())
    lists = list(by_result.values()) if is_sweep else [list(points)]
    return [each[start : start + CURVES_AT_ONCE] for each in lists for start in range(0, len(each), CURVES_AT_ONCE)]


_CDF_WORDS: Final = (
    "Share of the window's requests (of gaps, for ITL) whose value is at most so large, by arriero's definitions. A "
    "curve that ends below 100 % shows how many failed. A logarithmic axis begins where 5 % are reached."
)


def _panel(name: str, points: Sequence[PointView], detail: Detail) -> CdfPanel:
    curves = [latency_cdf(in_window(point.point.lives, point.summary), name, detail) for point in points]
    return CdfPanel(LABELS[name], curves, [_objective(name, point) for point in points])


def _objective(name: str, point: PointView) -> float | None:
    attainment = point.summary.attainment
    field = _OBJECTIVES.get(name)
    if attainment is None or field is None:
        return None
    bound: int | None = getattr(attainment.objectives, field)
    return None if bound is None else bound / 1e3


_OBJECTIVES: Final = MappingProxyType({
    "ttft_ns": "ttft_ns", "tpot_ns": "tpot_ns", "e2e_ns": "e2e_ns", "itl_max_ns": "largest_gap_ns",
})  # fmt: skip


def _timeline_words(timeline: ClientTimeline) -> str:
    words = ["Requests between send and end, and those of them before their first token."]
    for label, dots in (("TTFT", timeline.ttft), ("Send lag", timeline.send_lag)):
        if dots is None:
            continue
        if dots.highest is None:
            words.append(f"{label}: each of {dots.num_requests:,} requests is a dot.")
        else:
            words.append(f"{label}: {dots.num_requests:,} requests in {NUM_BINS} bins by arrival, median and highest.")
        if dots.num_failed:
            words.append(f"Crosses at the top: {dots.num_failed:,} that failed without one.")
    words.append("What lies outside the measured window is grey.")
    return " ".join(words)
