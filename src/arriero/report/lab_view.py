"""A result in the format of the published serving lab as a RunView.

Figures follow arriero's definitions, so they can stand beside those of other formats; the published metrics of these
files are the business of `record.lab_report`.
"""

from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from arriero.metrics.queue import queue_depth
from arriero.metrics.served import Outcome
from arriero.metrics.steps import StepFigures, StepTally
from arriero.record.lab_config import FCFS_MODE, LabConfig
from arriero.record.lab_file import LabResult, has_iterations, lab_life, read_lab_result, slos_of
from arriero.record.lab_rows import IterationRow, LabRow, RequestRow, SummaryRow
from arriero.record.sim_file import file_sha256
from arriero.report.columns import Asked, RequestColumns, RequestTable, StepTable
from arriero.report.own_run import as_text
from arriero.report.run_view import (
    COSTS,
    LIMITS,
    MEMORY,
    OBJECTIVES,
    PLANNER,
    SEED,
    WORKLOAD,
    Fact,
    RunLimits,
    RunView,
)

NO_ITERATIONS: Final = (
    "The file holds no iteration rows, so batch composition and KV occupancy over time cannot be drawn; "
    "`arriero sim run --preset serving-lab --trace full` records them."
)
ONE_AT_A_TIME: Final = (
    "One request is served at a time and the format has no iteration rows for that, "
    "so there is no batch composition or KV occupancy to draw."
)


def read_lab_run(path: Path) -> RunView:
    """Read and reconcile a whole file.

    Raises:
        DataError: names file, line and field.
    """
    rows = _Rows()
    result = read_lab_result(path, with_iterations=has_iterations(path), on_row=rows.add)
    return _view(path, result, rows)


class _Rows:
    """The rows of one file, while it is read."""

    def __init__(self) -> None:
        self.steps = StepTable(("prefill_rows", "decode_rows", "kv_held"))
        self.requests = RequestTable()
        self.tally = StepTally(rows_allowed=0, kv_pool=0)  # the limit is known when the configuration is

    def add(self, row: LabRow) -> None:
        """Take one row."""
        match row:
            case IterationRow() if row.scheduled_sequences:
                values = {
                    "prefill_rows": row.scheduled_prefill_tokens,
                    "decode_rows": row.scheduled_decode_tokens,
                    "kv_held": row.kv_allocated,
                }
                self.steps.add(row.start_time_us, row.end_time_us, values)
                self._count(row)
            case IterationRow():
                self.tally.idle(row.end_time_us - row.start_time_us)
            case RequestRow():
                self.requests.add(_asked(row))
            case SummaryRow():
                pass

    def _count(self, row: IterationRow) -> None:
        self.tally.step(
            row.end_time_us - row.start_time_us,
            rows=row.total_scheduled_tokens,
            sequences=row.scheduled_sequences,
            waiting=0,  # the format does not say; see `_figures`
            kv_held=0,
            kv_tokens=0,
        )


def _asked(row: RequestRow) -> Asked:
    is_finished = row.final_state == "Finished"
    return Asked(
        life=lab_life(row).life,
        outcome=(Outcome.FINISHED if is_finished else Outcome.UNFINISHED).value,
        token_at=row.decode_token_times_us,
        prompt_tokens=row.prompt_tokens_original,
        cached_tokens=row.prompt_tokens_matched,
        looked_up=row.prompt_tokens is not None and row.admitted_time_us is not None,
    )


def _view(path: Path, result: LabResult, rows: _Rows) -> RunView:
    config, steps = result.config, rows.steps.columns()
    is_batching = config.execution_mode != FCFS_MODE
    missing = (NO_ITERATIONS if is_batching else ONE_AT_A_TIME,)
    return RunView(
        name=config.name,
        evidence=result.run.label,
        facts=_facts(result, path),
        traits=_traits(result),
        limits=_limits(config),
        objectives=_objectives(config),
        steps=steps,
        requests=_looked_up(rows.requests.columns(), has_cache=is_batching and config.prefix_cache.enabled),
        ended_at=float(result.summary.makespan_us),
        step_figures=_figures(result, rows),
        evictions=result.summary.eviction_count if is_batching else None,
        notes=() if steps is not None else missing,
    )


def _looked_up(requests: RequestColumns, *, has_cache: bool) -> RequestColumns:
    return requests if has_cache else replace(requests, looked_up=np.zeros_like(requests.looked_up))


def _figures(result: LabResult, rows: _Rows) -> StepFigures:
    """What the iterations say; who waited follows from the requests, and the peak of KV from the summary."""
    rows.tally.rows_allowed = result.config.max_batched_tokens
    lives = [each.life for each in result.requests]
    waiting = queue_depth(lives, result.summary.makespan_us)
    return rows.tally.figures()._replace(
        num_waiting_peak=waiting.maximum,
        mean_waiting=waiting.average,
        kv_peak=result.summary.peak_allocated_blocks or 0,
    )


def _facts(result: LabResult, path: Path) -> tuple[Fact, ...]:
    run = result.run
    revision = run.git_revision or "unknown"
    return (
        Fact("result file", path.name),
        Fact("sha256 of the file", file_sha256(path)),
        Fact("format", f"{run.result_schema_version}, rows {run.simulator_schema_version}"),
        Fact("evidence", run.label),
        Fact("configuration sha256", run.config_sha256),
        Fact("workload sha256", run.workload_sha256),
        Fact("seed", str(run.seed)),
        Fact("code", f"{run.benchmark_runner.path}, sha256 {run.benchmark_runner.sha256}"),
        Fact("revision", f"{revision}{', with changes' if run.dirty_worktree else ''}"),
        Fact("Python", run.python_version or "unknown"),
        Fact("command", "; ".join(" ".join(words) for words in run.commands)),
    )


def _traits(result: LabResult) -> dict[str, str | None]:
    config = result.config
    is_batching = config.execution_mode != FCFS_MODE
    limits = f"sequences: {config.max_num_sequences}, rows: {config.max_batched_tokens}"
    return {
        WORKLOAD: result.run.workload_sha256,
        SEED: str(result.run.seed),
        COSTS: as_text(config.backend),
        OBJECTIVES: as_text(config.slos),
        LIMITS: limits if is_batching else "sequences: 1",
        MEMORY: f"{as_text(config.kv_cache)}, {as_text(config.prefix_cache)}" if is_batching else "not modelled",
        PLANNER: config.scheduling_policy,
    }


def _limits(config: LabConfig) -> RunLimits:
    if config.execution_mode == FCFS_MODE:  # limits and pool are in the file and ignored
        return RunLimits(None, 1, None, "blocks")
    return RunLimits(config.max_batched_tokens, config.max_num_sequences, config.kv_cache.total_blocks, "blocks")


def _objectives(config: LabConfig) -> dict[str, float]:
    slos = slos_of(config)
    bounds = {"ttft": slos.ttft, "tpot": slos.tpot, "e2e": slos.e2e}
    return {name: float(bound) for name, bound in bounds.items() if bound is not None}
