"""The three CSV files of the mixed-decode simulator, and the id of a run; the same run gives the same bytes.

Times are written as the shortest text that reads back as the same double.
"""

import csv
import hashlib
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from arriero.metrics.mixed_decode import MixedCost, MixedFigures, MixedPolicy, MixedRun, mixed_figures

_REQUEST_COLUMNS: Final = (
    "request_id", "arrival_time_ms", "assigned_at_ms", "first_token_time_ms", "finish_time_ms", "prompt_tokens",
    "decode_tokens", "queue_wait_ms", "time_to_first_token_ms", "total_latency_ms", "prefill_ms", "decode_ms",
    "class_label",
)  # fmt: skip
_ITERATION_COLUMNS: Final = (
    "iteration_index", "t_iter_start_ms", "t_iter_end_ms", "prefill_rows", "decode_rows", "batch_size",
    "active_slots", "decode_calls_in_iteration", "iter_cost_ms", "admitted_this_iteration",
    "completed_this_iteration",
)  # fmt: skip
_SUMMARY_COLUMNS: Final = (
    "policy", "workload", "n_slots", "n_batch", "seed", "n_completed", "makespan_ms", "tokens_per_second",
    "decode_calls", "tokens_per_decode_call",
)  # fmt: skip


class MixedSetup(NamedTuple):
    """What one command runs."""

    workload: str
    workload_cap: int | None
    n_slots: int
    n_batch: int
    seed: int
    cost: MixedCost


def requests_csv(run: MixedRun) -> str:
    """One row a request, in id order."""
    rows = (
        (
            each.request.request_id, each.request.arrival_ms, each.assigned_at_ms, each.first_token_ms, each.finish_ms,
            each.request.prompt_tokens, each.request.decode_tokens, each.queue_wait_ms, each.ttft_ms,
            each.total_latency_ms, each.prefill_ms, each.decode_ms, each.request.label,
        )
        for each in run.lives
    )  # fmt: skip
    return _csv(_REQUEST_COLUMNS, rows)


def iterations_csv(run: MixedRun) -> str:
    """One row an iteration."""
    rows = (
        (
            index, each.start_ms, each.end_ms, each.prefill_rows, each.decode_rows, each.batch_size, each.active_slots,
            each.decode_calls, each.cost_ms, each.admitted, each.completed,
        )
        for index, each in enumerate(run.iterations)
    )  # fmt: skip
    return _csv(_ITERATION_COLUMNS, rows)


def summary_csv(setup: MixedSetup, runs: Mapping[MixedPolicy, MixedRun]) -> str:
    """One row a policy, in the order given."""
    figures = {policy: mixed_figures(run) for policy, run in runs.items()}
    details = sorted({name for each in figures.values() for name in each.details})
    rows = (_summary_row(setup, policy, each, details) for policy, each in figures.items())
    return _csv((*_SUMMARY_COLUMNS, *details), rows)


def run_id(setup: MixedSetup, policies: Iterable[MixedPolicy]) -> str:
    """The first twelve hex digits of the hash of everything that decides the run."""
    cost = setup.cost
    payload: dict[str, Any] = {
        "workload": setup.workload,
        "workload_cap": setup.workload_cap,
        "policies": sorted(policies),
        "n_slots": setup.n_slots,
        "n_batch": setup.n_batch,
        "seed": setup.seed,
        "cost_params": {
            "base_decode_step_cost_ms": cost.base,
            "per_prompt_token_cost_ms": cost.prompt_token,
            "per_decode_token_cost_ms": cost.decode_token,
            "per_active_slot_overhead_ms": cost.active_slot,
            "streaming_emit_cost_ms": cost.stream_emit,
        },
    }
    return hashlib.sha256(json.dumps(payload, sort_keys=True).encode()).hexdigest()[:12]


def _summary_row(setup: MixedSetup, policy: MixedPolicy, figures: MixedFigures, details: Sequence[str]) -> list[object]:
    return [
        policy.value, setup.workload, setup.n_slots, setup.n_batch, setup.seed, figures.n_completed,
        figures.makespan_ms, figures.tokens_per_second, figures.decode_calls, figures.tokens_per_decode_call,
        *(figures.details[name] for name in details),
    ]  # fmt: skip


def _csv(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()
