"""Summaries of several runs of arriero's own mode as JSON, CSV and Markdown; the same results give the same bytes."""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from arriero.record.lab_report import table_row
from arriero.record.lab_rows import EVIDENCE
from arriero.record.sim_file import SimResult
from arriero.record.sim_rows import SCHEMA

NOT_AVAILABLE: Final = "N/A"


class SimSummary(NamedTuple):
    """One result file."""

    result_path: str
    result: SimResult

    @property
    def name(self) -> str:
        """Of its configuration."""
        return self.result.run.config.name


COLUMNS: Final = (
    ("submitted", "counts.submitted"),
    ("finished", "counts.finished"),
    ("served_fraction", "counts.served_fraction"),
    ("requests_per_s", "whole_run.requests_per_s"),
    ("output_tokens_per_s", "whole_run.output_tokens_per_s"),
    ("good_requests_per_s", "whole_run.good_requests_per_s"),
    ("good_of_submitted", "whole_run.good_of_submitted"),
    ("queue_p50_us", "latency.all.queue_us.p50"),
    ("ttft_p50_us", "latency.all.ttft_us.p50"),
    ("ttft_p99_us", "latency.all.ttft_us.p99"),
    ("ttft_max_us", "latency.all.ttft_us.max"),
    ("tpot_p50_us", "latency.all.tpot_us.p50"),
    ("itl_p99_us", "latency.itl_us_token_weighted.p99"),
    ("e2e_p50_us", "latency.all.e2e_us.p50"),
    ("e2e_p99_us", "latency.all.e2e_us.p99"),
    ("e2e_max_us", "latency.all.e2e_us.max"),
    ("makespan_us", "whole_run.makespan_us"),
    ("mean_sequences", "steps.mean_sequences"),
    ("batch_utilization", "steps.batch_utilization"),
    ("kv_utilization", "steps.kv_utilization"),
    ("idle_fraction", "steps.idle_fraction"),
    ("token_hit_rate", "prefix_cache.token_hit_rate"),
    ("preemptions", "preemption.preemptions"),
    ("recomputed_tokens", "preemption.recomputed_tokens"),
    ("evictions", "evictions"),
)
"""Column → metric; latencies are those of all requests, where one that did not finish is later than anybody."""

_SHOWN: Final = (
    "submitted", "finished", "requests_per_s", "output_tokens_per_s", "good_of_submitted", "ttft_p50_us", "ttft_p99_us",
    "itl_p99_us", "e2e_p99_us", "batch_utilization", "kv_utilization", "token_hit_rate", "preemptions",
)  # fmt: skip
"""What a table on a page has room for."""


def as_json(summaries: Iterable[SimSummary]) -> str:
    """A list with all figures, keys sorted."""
    entries = [
        {
            "result_path": each.result_path,
            "config_name": each.name,
            "evidence_type": EVIDENCE,
            "schema_version": SCHEMA,
            "seed": each.result.run.seed,
            "workload_sha256": each.result.run.workload_sha256,
            "step_rows": each.result.num_steps,
            "summary": each.result.summary,
        }
        for each in summaries
    ]
    return json.dumps(entries, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def as_csv(summaries: Iterable[SimSummary]) -> str:
    """One row a result; undefined is empty, lines end in LF."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["config_name", "evidence_type", "seed", *(column for column, _ in COLUMNS)])
    for each in summaries:
        values = (lookup(each.result.summary, metric) for _, metric in COLUMNS)
        cells = [each.name, EVIDENCE, each.result.run.seed, *values]
        writer.writerow("" if value is None else value for value in cells)
    return text.getvalue()


def as_markdown(summaries: Sequence[SimSummary]) -> str:
    """One table, undefined as N/A, and below it what a reader must know."""
    columns = dict(COLUMNS)
    lines = [table_row(["name", "evidence", "seed", *_SHOWN]), table_row(["---"] * 2 + ["---:"] * (len(_SHOWN) + 1))]
    for each in summaries:
        seed = "-" if each.result.run.seed is None else str(each.result.run.seed)
        values = (lookup(each.result.summary, columns[name]) for name in _SHOWN)
        lines.append(table_row([each.name, EVIDENCE, seed, *map(shown, values)]))
    remarks = list(_remarks(summaries))
    return "\n".join([*lines, *(["", *remarks] if remarks else [])]) + "\n"


def notes(summaries: Iterable[SimSummary]) -> list[str]:
    """What a file does not hold, and which flag records it."""
    return [
        f"{each.result_path}: no step rows, so what its summary says about steps is taken as it stands; "
        "--trace counts records them"
        for each in summaries
        if each.result.run.config.trace == "off"
    ]


def lookup(summary: Mapping[str, Any], name: str) -> float | None:
    """A figure by its dotted name; None for one that is undefined."""
    value: Any = summary
    for part in name.split("."):
        value = value[part]
    return None if isinstance(value, Mapping) else cast("float", value)


def shown(value: float | None, sign: str = "") -> str:
    """A cell: whole numbers as they are, small ones with four decimals, others with two."""
    if value is None:
        return NOT_AVAILABLE
    if isinstance(value, int):
        return f"{value:{sign}d}"
    return f"{value:{sign}.4f}" if abs(value) < 10 else f"{value:{sign}.2f}"


def _remarks(summaries: Sequence[SimSummary]) -> Iterable[str]:
    for each in summaries:
        yield from (f"{each.name}: {mark}" for mark in each.result.summary["marks"])
    if len({each.result.run.workload_sha256 for each in summaries}) > 1:
        yield "These runs have different workloads: differences between rows are not those of the settings alone."
    yield from notes(summaries)
