"""Sweep: how latency and throughput of a result depend on the one number that differs between its points."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from arriero.metrics.client_figures import ClientSummary, Distribution
from arriero.metrics.validity import Flag
from arriero.report.bench_view import BenchView

AXES: Final = ("rate_per_s", "clients", "num_clients", "concurrency", "speed")
"""Settings that are looked for first; any other number that differs will do."""


class Spot(NamedTuple):
    """One figure of one point."""

    at: float  # the setting
    value: float | None  # None: undefined
    is_infinite: bool
    flag: Flag


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """One result with several points.

    Attributes:
        name: of the result.
        axis: the setting that differs.
        figures: name → one spot a point, ascending by the setting. Latencies in microseconds.
    """

    name: str
    axis: str
    figures: dict[str, tuple[Spot, ...]]


def sweep(view: BenchView) -> Sweep | None:
    """None for a result with one point, or whose points differ in no number."""
    axis = _axis(view)
    if axis is None:
        return None
    points = sorted(view.points, key=lambda point: float(point.point.setting[axis]))
    figures: dict[str, tuple[Spot, ...]] = {}
    for name, of in _FIGURES.items():
        spots: list[Spot] = []
        for point in points:
            value, is_infinite = of(point.summary)
            spots.append(Spot(float(point.point.setting[axis]), value, is_infinite, point.point.validity.flag))
        figures[name] = tuple(spots)
    return Sweep(name=view.name, axis=axis, figures=figures)


def _axis(view: BenchView) -> str | None:
    settings = [point.point.setting for point in view.points]
    shared = [name for name in settings[0] if all(_is_number(each.get(name)) for each in settings)]
    differing = [name for name in shared if len({each[name] for each in settings}) > 1]
    return min(differing, key=lambda name: AXES.index(name) if name in AXES else len(AXES), default=None)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_Figure = tuple[float | None, bool]


def _latency(name: str, statistic: str) -> Callable[[ClientSummary], _Figure]:
    def of(summary: ClientSummary) -> _Figure:
        table = summary.latency.finished if summary.latency.all is None else summary.latency.all
        distribution: Distribution | None = getattr(table, name)
        if distribution is None:
            return None, False
        value: float | None = getattr(distribution, statistic)
        return (None if value is None else value / 1e3), distribution.is_infinite(statistic)

    return of


def _rate(name: str) -> Callable[[ClientSummary], _Figure]:
    def of(summary: ClientSummary) -> _Figure:
        value: float | None = getattr(summary.window, name)
        return value, False

    return of


def _attained(summary: ClientSummary) -> _Figure:
    return (None if summary.attainment is None else summary.attainment.of_submitted), False


def _served(summary: ClientSummary) -> _Figure:
    submitted = summary.counts.submitted
    return (summary.counts.finished / submitted if submitted else None), False


_FIGURES: Final = {
    **{f"{name}.{statistic}": _latency(f"{name}_ns", statistic)
       for name in ("ttft", "itl", "e2e") for statistic in ("p50", "p90", "p99")},
    **{name: _rate(name) for name in ("offered_per_s", "requests_per_s", "output_tokens_per_s", "good_requests_per_s")},
    "of_submitted": _attained,
    "served": _served,
}  # fmt: skip


def common_axis(sweeps: Sequence[Sweep]) -> list[list[Sweep]]:
    """Sweeps over the same setting together, in the order of their first appearance."""
    groups: dict[str, list[Sweep]] = {}
    for each in sweeps:
        groups.setdefault(each.axis, []).append(each)
    return list(groups.values())
