"""Comparisons of a matrix: its configurations as rows, what is asked about them as columns.

Rows of different workloads may stand in one table, but the table says so: figures of different work are no difference
between settings.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from arriero.core.errors import DataError
from arriero.record.lab_file import LabResult
from arriero.record.lab_matrix import Comparison, LabMatrix
from arriero.record.lab_report import lookup, shown, table_row

_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({
    "allocated_blocks": ("peak_allocated_blocks",),
    "arrival_rate": ("arrival_rate_per_s",),
    "batch_size": ("average_batch_size", "maximum_batch_size"),
    "completion_rate": ("completion_ratio",),
    "e2e": ("e2e_latency_us.p50", "e2e_latency_us.p99"),
    "eviction_count": ("eviction_count",),
    "evictions": ("eviction_count",),
    "goodput": ("good_requests_per_s", "goodput_ratio"),
    "goodput_ratio": ("goodput_ratio",),
    "internal_fragmentation": ("internal_fragmentation_tokens",),
    "kv_capacity_deferrals": ("kv_capacity_deferrals",),
    "kv_peak_usage": ("peak_allocated_blocks", "kv_peak_utilization"),
    "matched_tokens": ("matched_prefix_tokens",),
    "p99_ttft": ("ttft_us.p99",),
    "peak_utilization": ("kv_peak_utilization",),
    "prefix_reuse_granularity": ("matched_prefix_tokens", "prefix_token_hit_rate"),
    "prefix_token_hit_rate": ("prefix_token_hit_rate",),
    "queue_delay": ("queue_delay_us.p50", "queue_delay_us.p99"),
    "scheduled_prefill_tokens": ("scheduled_prefill_tokens",),
    "stalled_iterations": ("stalled_iterations",),
    "tail_latency": ("ttft_us.p99", "e2e_latency_us.p99"),
    "throughput": ("request_throughput_per_s", "output_token_throughput_per_s"),
    "tpot": ("tpot_us.p50", "tpot_us.p99"),
    "ttft": ("ttft_us.p50", "ttft_us.p99"),
})
"""Word of a matrix → metrics."""


def check_words(matrix: LabMatrix, file: str) -> None:
    """Whether every word of the comparisons is known.

    Raises:
        DataError: one is not.
    """
    for name, comparison in matrix.comparisons.items():
        for word in comparison.metrics:
            if word not in _COLUMNS:
                field = f"comparisons.{name}.metrics"
                text = f"{field}: {word} is no metric; use {', '.join(_COLUMNS)}"
                raise DataError(text, file=file, field=field)


def comparisons_markdown(matrix: LabMatrix, results: Mapping[str, LabResult]) -> str:
    """One section a comparison, of those of its configurations that were run."""
    sections = (_section(name, comparison, results) for name, comparison in matrix.comparisons.items())
    return "\n".join(section for section in sections if section)


def _section(name: str, comparison: Comparison, results: Mapping[str, LabResult]) -> str:
    there = {config: results[config] for config in comparison.configs if config in results}
    if not there:
        return ""
    columns = list(dict.fromkeys(metric for word in comparison.metrics for metric in _COLUMNS[word]))
    lines = [f"## {name}", "", table_row(["config", "completed", *columns])]
    lines.append(table_row(["---"] + ["---:"] * (len(columns) + 1)))
    for config, result in there.items():
        metrics = result.metrics()
        done = f"{metrics['completed']}/{metrics['request_count']}"
        lines.append(table_row([config, done, *(shown(lookup(metrics, column)) for column in columns)]))
    return "\n".join([*lines, *_cautions(there.values())]) + "\n"


def _cautions(results: Iterable[LabResult]) -> Sequence[str]:
    every = list(results)
    found: list[str] = []
    if len({each.run.workload_sha256 for each in every}) > 1:
        found.append("These runs have different workloads: differences between rows are not those of the settings.")
    if len({each.config.slos for each in every}) > 1 or len({each.config.backend for each in every}) > 1:
        found.append("These runs have different objectives or costs.")
    if len({each.config.execution_mode for each in every}) > 1:
        found.append("Serving one at a time and batching have cost models of their own in this format.")
    if any(each.summary.completed < each.summary.submitted for each in every):
        found.append("A run is incomplete: its rates and latencies cover the finished requests only.")
    return ["", *found] if found else []
