"""Summaries of several runs as JSON, CSV and Markdown; the same results give the same bytes."""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from arriero.record.lab_file import LabResult
from arriero.record.lab_rows import EVIDENCE


class Summary(NamedTuple):
    """The metrics of one result file."""

    result_path: str
    config_name: str
    metrics: dict[str, Any]


_CSV: Final = (
    ("config_name", None), ("evidence_type", None), ("run_status", "run_status"), ("submitted", "submitted"),
    ("completed", "completed"), ("completion_ratio", "completion_ratio"), ("stalled_iterations", "stalled_iterations"),
    ("request_throughput_per_s", "request_throughput_per_s"), ("p99_ttft_us", "ttft_us.p99"),
    ("p99_e2e_us", "e2e_latency_us.p99"), ("goodput_ratio", "goodput_ratio"),
    ("kv_capacity_deferrals", "kv_capacity_deferrals"), ("prefix_token_hit_rate", "prefix_token_hit_rate"),
)  # fmt: skip
"""Column → metric; a dot leads into a group."""

_HEADINGS: Final = (
    "Name", "Evidence", "Status", "Submitted", "Completed", "Completion ratio", "Stalled iterations", "Req/s",
    "P99 TTFT (us)", "P99 E2E (us)", "Goodput ratio", "KV deferrals", "Token hit rate",
)  # fmt: skip


def summarise(result: LabResult, result_path: str) -> Summary:
    """The metrics of a checked file."""
    return Summary(result_path, result.config.name, result.metrics())


def as_json(summaries: Iterable[Summary], *, with_paths: bool = True) -> str:
    """A list, keys sorted; `with_paths` names each result file."""
    entries: list[dict[str, Any]] = []
    for each in summaries:
        path = {"result_path": each.result_path} if with_paths else {}
        entries.append({**path, "config_name": each.config_name, "evidence_type": EVIDENCE, "summary": each.metrics})
    return json.dumps(entries, indent=2, sort_keys=True) + "\n"


def as_csv(summaries: Iterable[Summary]) -> str:
    """One row a result; undefined is empty, lines end in LF."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(column for column, _ in _CSV)
    for each in summaries:
        writer.writerow("" if value is None else value for value in _cells(each))
    return text.getvalue()


def as_markdown(summaries: Iterable[Summary]) -> str:
    """One table, floats with two decimals, undefined as N/A."""
    lines = [table_row(_HEADINGS), table_row(["---"] * 3 + ["---:"] * (len(_HEADINGS) - 3))]
    lines.extend(table_row([shown(value) for value in _cells(each)]) for each in summaries)
    return "\n".join(lines) + "\n"


def notes(results: Iterable[tuple[str, LabResult]]) -> list[str]:
    """What a file does not hold, and which flag records it; each result with its path."""
    return [
        f"{path}: no iteration rows, so iteration_count is N/A, and what its summary says about iterations, deferrals, "
        "evictions and blocks is taken as it stands; --trace full records them"
        for path, result in results
        if not result.has_iterations
    ]


def lookup(metrics: dict[str, Any], name: str) -> Any:  # noqa: ANN401 - numbers, words and null alike
    """A metric by its dotted name."""
    value: Any = metrics
    for part in name.split("."):
        value = value[part]
    return value


def _cells(summary: Summary) -> list[Any]:
    fixed = [summary.config_name, EVIDENCE]
    return fixed + [lookup(summary.metrics, name) for _, name in _CSV if name is not None]


def shown(value: object) -> str:
    """A cell: floats with two decimals, null as N/A."""
    if value is None:
        return "N/A"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def table_row(cells: Sequence[str]) -> str:
    """One line of a table."""
    escaped = (cell.replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"
