"""The published serving lab's metrics, to the last digit: schema `serving-summary-v1`.

Its latencies, rates and goodput ratio cover finished requests only, so a run that stalls may look good:
`run_summary.py` has the figures that count everybody.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from arriero.metrics.goodput import Slos, judge
from arriero.metrics.latency import Life
from arriero.metrics.quantiles import Percentiles, percentiles
from arriero.metrics.queue import queue_depth
from arriero.metrics.rates import per_second, share

SCHEMA: Final = "serving-summary-v1"


class LabLife(NamedTuple):
    """What the metrics need of one request."""

    life: Life
    prompt_tokens_scheduled: int


_COPIED: Final = MappingProxyType({
    "run_status": "run_status",
    "submitted": "submitted",
    "average_batch_size": "average_batch_size",
    "maximum_batch_size": "max_batch_size",
    "kv_peak_utilization": "kv_peak_utilization",
    "prefix_token_hit_rate": "prefix_token_hit_rate",
    "kv_capacity_deferrals": "kv_capacity_deferrals",
    "stalled_iterations": "stalled",
    "eviction_count": "eviction_count",
    "saved_simulated_prefill_tokens": "saved_simulated_prefill_tokens",
    "scheduled_prefill_tokens": "scheduled_prefill_tokens",
    "matched_prefix_tokens": "matched_prefix_tokens",
    "internal_fragmentation_tokens": "internal_fragmentation_tokens",
    "peak_allocated_blocks": "peak_allocated_blocks",
})
"""Metric → field of the summary row."""


def lab_summary(
    requests: Sequence[LabLife], num_iterations: int | None, totals: Mapping[str, Any], slos: Slos
) -> dict[str, Any]:
    """All metrics of one run, under their published names.

    Args:
        requests: all of them.
        num_iterations: iteration rows; None where they were not recorded.
        totals: the summary row.
        slos: objectives.
    """
    lives = [request.life for request in requests]
    finished = [request for request in requests if request.life.finished_at is not None]
    return {
        "schema_version": SCHEMA,
        "evidence_type": "SIMULATED",
        "request_count": len(lives),
        "completed": len(finished),
        "unfinished": len(lives) - len(finished),
        "completion_ratio": share(len(finished), len(lives)),
        "iteration_count": num_iterations,
        "itl_available": bool(lives),
        **_rates(lives, finished, slos),
        **_latencies([request.life for request in finished]),
        **_queue(lives, totals["makespan_us"]),
        **_copied(totals),
    }


def _rates(lives: Sequence[Life], finished: Sequence[LabLife], slos: Slos) -> dict[str, Any]:
    first_arrival = min((int(life.arrival_at) for life in lives), default=0)
    last_arrival = max((int(life.arrival_at) for life in lives), default=0)
    last_finish = max((int(each.life.finished_at or 0) for each in finished), default=first_arrival)
    duration = last_finish - first_arrival
    generated = sum(each.life.num_tokens for each in finished)
    scheduled = sum(each.prompt_tokens_scheduled for each in finished)
    goodness = judge((each.life for each in finished), slos)
    return {
        "duration_us": duration,
        "request_throughput_per_s": per_second(len(finished), duration),
        "output_token_throughput_per_s": per_second(generated, duration),
        "total_token_throughput_per_s": per_second(generated + scheduled, duration),
        "arrival_rate_per_s": per_second(max(0, len(lives) - 1), last_arrival - first_arrival),
        "good_requests": goodness.num_good,
        "good_requests_per_s": per_second(goodness.num_good, duration),
        "goodput_ratio": share(goodness.num_good, len(finished)),
        "slo_violations": {
            "ttft": goodness.ttft_violations,
            "tpot": goodness.tpot_violations,
            "e2e": goodness.e2e_violations,
        },
    }


def _latencies(finished: Sequence[Life]) -> dict[str, Any]:
    return {
        "queue_delay_us": _known(life.queue_time for life in finished),
        "ttft_us": _known(life.ttft for life in finished),
        "e2e_latency_us": _known(life.e2e for life in finished),
        "tpot_us": _known(life.tpot for life in finished),
    }


def _known(values: Iterable[float | None]) -> dict[str, float | None]:
    found: Percentiles = percentiles([value for value in values if value is not None])
    return found._asdict()


def _queue(lives: Sequence[Life], makespan_us: int) -> dict[str, Any]:
    depth = queue_depth(lives, makespan_us)
    return {"maximum_queue_depth": depth.maximum, "average_queue_depth": depth.average}


def _copied(totals: Mapping[str, Any]) -> dict[str, Any]:
    hits: int = totals["prefix_lookup_hits"]
    return {
        **{metric: totals[field] for metric, field in _COPIED.items()},
        "prefix_lookup_hit_rate": share(hits, hits + totals["prefix_lookup_misses"]),
    }
