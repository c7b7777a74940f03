"""What `arriero lab bench` prints when it has ended: how far it came, and the mean rates of each setting."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from arriero.lab.matrix.normalize import Written
from arriero.record.cpu_lab.matrix import MatrixSummary
from arriero.record.cpu_lab.normalized import NormalizedFile, NormalizedRow


def outcome_lines(summary: MatrixSummary, table: Written | None, folder: Path) -> Iterator[str]:
    """For a person."""
    if table is not None:
        yield from table_lines(table.file)
    yield (
        f"{summary.run_status}: {summary.successful_invocations} of {summary.planned_invocations} succeeded, "
        f"{summary.failed_invocations} failed, {summary.timed_out_invocations} timed out, "
        f"{summary.elapsed_seconds:.0f} s"
    )
    yield f"run: {folder}"
    if table is not None:
        yield f"table: {', '.join(str(path) for path in table.paths)}"


def table_lines(file: NormalizedFile) -> Iterator[str]:
    """Mean rates of each setting; the analyses with their spread are `arriero lab report`'s."""
    groups: defaultdict[tuple[str, str], list[NormalizedRow]] = defaultdict(list)
    for row in file.rows:
        groups[row.model_logical_id, row.invocation_id.split(":")[1]].append(row)
    yield f"{file.evidence}: tokens/s, mean over the repetitions" + (" (incomplete)" if file.incomplete else "")
    width = max((len(case) for _, case in groups), default=4)
    model_width = max((len(model) for model, _ in groups), default=5)
    yield f"{'model':<{model_width}}  {'case':<{width}} {'n':>3}{'prompt':>10}{'generation':>12}{'peak MiB':>10}"
    for (model, case), rows in groups.items():
        prompt = _mean([row.prompt_tokens_per_second for row in rows])
        answer = _mean([row.generation_tokens_per_second for row in rows])
        peak = _mean([None if row.peak_rss_kib is None else row.peak_rss_kib / 1024 for row in rows])
        yield f"{model:<{model_width}}  {case:<{width}} {len(rows):>3}{prompt:>10}{answer:>12}{peak:>10}"
    for each in file.excluded:
        yield f"excluded: {each.invocation_id}: {each.status} ({each.reason})"


def summary_json(summary: MatrixSummary, table: Written | None) -> str:
    """For a program: the summary, and the table or null."""
    whole: dict[str, Any] = {"summary": summary, "table": None if table is None else table.file}
    return msgspec.json.encode(whole).decode()


def _mean(values: list[float | None]) -> str:
    """`-` if one is missing: a mean over a part would be another figure."""
    known = [value for value in values if value is not None]
    return f"{fmean(known):.2f}" if known and len(known) == len(values) else "-"
