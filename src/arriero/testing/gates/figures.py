"""Figures of a run as the published gate tool names them: counts first, then times, which promise nothing."""

from collections.abc import Iterable, Sequence
from math import ceil

from arriero.core.request import FinishReason
from arriero.engine.handle import Result
from arriero.testing.gates.findings import Count
from arriero.testing.gates.promises import wasted_rows
from arriero.testing.gates.run_record import RunRecord


def quantile(values: Sequence[int], share: float) -> int:
    """The smallest value that so large a share of all does not exceed (nearest rank); 0 of nothing."""
    ordered = sorted(values)
    return ordered[max(0, ceil(share * len(ordered)) - 1)] if ordered else 0


def spread(values: Sequence[int]) -> list[int]:
    """p50, p95 and maximum."""
    return [quantile(values, 0.5), quantile(values, 0.95), max(values, default=0)]


def distinct(values: Iterable[int | None]) -> list[int]:
    """Every value once, ascending; -1 stands for one that does not apply."""
    return sorted({-1 if value is None else value for value in values})


def metrics_block(run: RunRecord) -> dict[str, Count]:
    """What `arriero gate run` prints, in its order."""
    totals = run.summary.snapshot.totals
    steps = run.log.computed()
    admitted = [each for each in run.results if (each.admitted_step or 0) > 0]
    block: dict[str, Count] = {
        "wall_ms": round((run.summary.ended_at - run.summary.started_at) / 1000, 3),
        "decode_calls": totals.decode_calls,
        "update_iterations": sum(record.plan.step > 0 for record in steps),
        "rows_per_batch": spread([record.plan.shape.num_rows for record in steps]),
        "active_seqs_per_iter": spread([record.plan.shape.num_running for record in steps]),
    }
    for budget in distinct(each.decode_budget for each in run.results):
        block |= _of_budget(budget, [each for each in run.results if each.decode_budget == budget], run)
    return block | {
        "futures_created": len(run.answers),
        "promises_fulfilled": totals.resolved,
        "futures_completed": len(run.log.results),
        "completed_count": totals.completed,
        "cancelled_count": totals.cancelled + totals.queued_cancelled,
        "failed_reserved_count": totals.aborted,
        "failed_count": totals.failed,
        "decode_failures": totals.decode_failures,
        "wasted_decode_rows_after_cancel": wasted_rows(run.log),
        "residual_kv_empty": int(not run.summary.residual_sequences),
        "queued_count": sum(each.admitted_step is not None or each.sequence_id is None for each in run.results),
        "admitted_count": totals.admitted,
        "admission_iter_set": distinct(each.admitted_step for each in admitted),
        "reused_seq_id_set": distinct(each.sequence_id for each in admitted if each.previous_request_id is not None),
        "queue_depth_after_admission": spread(run.log.waiting_depths()),
    }


def _of_budget(budget: int, results: Sequence[Result], run: RunRecord) -> dict[str, Count]:
    completed = [each for each in results if each.reason in {FinishReason.LENGTH, FinishReason.STOP}]
    times = [int(each.finished_at - run.summary.started_at) for each in completed]
    block: dict[str, Count] = {
        f"completed_{budget}": len(completed),
        f"cancelled_{budget}": sum(each.reason is FinishReason.CANCELLED for each in results),
    }
    if times:
        block[f"ttc_ms_mean_{budget}"] = round(sum(times) / len(times) / 1000, 3)
        block[f"ttc_ms_p95_{budget}"] = round(quantile(times, 0.95) / 1000, 3)
    return block
