"""CSV of load generator's results: one row a point, validity first; times in nanoseconds, undefined empty."""

import csv
import io
import json
from collections.abc import Sequence
from typing import Final

from arriero.metrics.client_figures import ClientSummary, Distribution, LatencyTable
from arriero.metrics.client_life import Outcome
from arriero.metrics.distribution import FEWEST_FOR_P99
from arriero.metrics.validity import Validity
from arriero.report.bench_view import BenchView, PointView

_LEADING: Final = (
    "validity", "result", "evidence", "target", "setting", "loop", "definitions", "schedule_sha256", "intended",
    "submitted", "finished", "cancelled",
)  # fmt: skip
_RATES: Final = (
    "offered_per_s", "requests_per_s", "output_tokens_per_s", "prompt_tokens_per_s", "prompt_computed_per_s",
    "prompt_cached_per_s", "good_requests_per_s", "good_tokens_per_s",
)  # fmt: skip
_SHARES: Final = ("of_submitted", "of_finished", "served_fraction")
_LATENCIES: Final = (
    "ttft_ns",
    "service_ttft_ns",
    "itl_ns",
    "icl_ns",
    "itl_max_ns",
    "tpot_ns",
    "e2e_ns",
    "service_e2e_ns",
)
_FIGURES: Final = ("n", "num_infinite", "p50", "p90", "p95", "p99", "max", "mean")
_LAG: Final = ("num_lags", "lag_p50_ns", "lag_p99_ns", "lag_max_ns")
_INSTRUMENT: Final = ("achieved", "longest_block_ns", "neighbour_cores")
INFINITE: Final = "inf"


def as_csv(views: Sequence[BenchView]) -> str:
    """All points of all results; a percentile that falls among failures is `inf`."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    latencies = [f"{who}.{name}.{figure}" for who in ("finished", "all") for name in _LATENCIES for figure in _FIGURES]
    outcomes = [f"outcome.{outcome.value}" for outcome in Outcome]
    writer.writerow((*_LEADING, *outcomes, *_RATES, *_SHARES, *latencies, *_LAG, *_INSTRUMENT))
    for view in views:
        for point in view.points:
            writer.writerow("" if cell is None else cell for cell in _row(view, point))
    return text.getvalue()


def _row(view: BenchView, point: PointView) -> list[object]:
    summary, recorded = point.summary, point.point
    counts, attainment, validity = summary.counts, summary.attainment, recorded.validity
    setting = json.dumps(recorded.setting, sort_keys=True) if recorded.setting else ""
    return [
        validity.flag.value, view.name, view.result.evidence.value, view.result.target.name, setting, summary.loop,
        summary.definitions, recorded.schedule.sha256, counts.intended, counts.submitted, counts.finished,
        counts.cancelled,
        *(counts.by_outcome.get(outcome.value, 0) for outcome in Outcome),
        *(getattr(summary.window, name) for name in _RATES),
        *(None if attainment is None else getattr(attainment, name) for name in _SHARES),
        *_latencies(summary),
        *_lags(validity),
        *(getattr(validity, name) for name in _INSTRUMENT),
    ]  # fmt: skip


def _lags(validity: Validity) -> list[object]:
    is_few = validity.num_lags < FEWEST_FOR_P99
    return [None if is_few and name == "lag_p99_ns" else getattr(validity, name) for name in _LAG]


def _latencies(summary: ClientSummary) -> list[object]:
    cells: list[object] = []
    for table in (summary.latency.finished, summary.latency.all):
        for name in _LATENCIES:
            cells.extend(_distribution(table, name))
    return cells


def _distribution(table: LatencyTable | None, name: str) -> list[object]:
    found: Distribution | None = None if table is None else getattr(table, name)
    if found is None:
        return [None] * len(_FIGURES)
    return [INFINITE if found.is_infinite(figure) else getattr(found, figure) for figure in _FIGURES]
