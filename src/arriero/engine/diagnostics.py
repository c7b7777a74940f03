"""Diagnostics: what the actor did, as published rows.

On the engine's thread a record is only put into the queue; its row is made and encoded by the writer. Rows are
written as steps end, so a server that runs for weeks keeps none of them.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from enum import StrEnum
from functools import partial
from typing import TypeVar

import msgspec

from arriero.core.events import Admitted, Event, Finished, Preempted, TokenEmitted
from arriero.core.ids import Time
from arriero.core.plan import Failed, Interrupted, NoRoom, Sampled, StepOutcome
from arriero.engine.handle import Result
from arriero.engine.observer import EngineSummary, StepRecord
from arriero.engine.sequence_drops import evicted_sequences
from arriero.kv.reuse import SessionFigures
from arriero.record.diagnostics import SCHEMA, EngineStartRow, EngineSummaryRow, IterRow, encode_row
from arriero.record.lines import LineSink
from arriero.record.published import (
    CANCEL_COUNTS,
    DOES_NOT_APPLY,
    STREAM_COUNTS,
    TOTALS,
    number,
    published_status,
    renamed,
)
from arriero.scheduler.views import SchedulerSnapshot

W = TypeVar("W", bound=StrEnum)


class Diagnostics:
    """An observer that writes a row for each step and one for the whole run."""

    def __init__(self, sink: LineSink) -> None:
        """The sink stays its owner's, who closes it after the engine has ended."""
        self._sink = sink
        self._started_at: Time = 0
        self._has_preloaded = False

    def on_start(self, at: Time) -> None:
        """Write where times count from."""
        self._started_at = at
        self._sink.put(partial(_start_lines, at), keep=True)

    def on_step(self, record: StepRecord) -> None:
        """Write the row of a step."""
        self._has_preloaded |= record.plan.step == 0
        self._sink.put(partial(_iter_lines, record, self._started_at))

    def on_end(self, result: Result) -> None:
        """Nothing: ends are counted in the row of their step."""

    def on_close(self, summary: EngineSummary) -> None:
        """Write the row of the run."""
        render = partial(_summary_lines, summary, self._started_at, has_preloaded=self._has_preloaded)
        self._sink.put(render, keep=True)


def iter_row(record: StepRecord, started_at: Time) -> IterRow:
    """The row of one step."""
    plan, shape = record.plan, record.plan.shape
    scheduler = record.snapshot.scheduler
    ends = _count_ends(record.events)
    return IterRow(
        iter=plan.step,
        t_us_from_engine_start=int(record.began_at - started_at),
        decoded=record.decode_calls > 0,
        outcome=None if record.outcome is None else _outcome_word(record.outcome),
        batch_n_tokens=shape.num_rows,
        prefill_rows_in_iter=shape.prefill_rows,
        decode_rows_in_iter=shape.decode_rows,
        active_seq_count=shape.num_running,
        admitted_in_iter=sum(isinstance(event, Admitted) for event in record.events),
        completed_in_iter=ends["completed"],
        cancelled_in_iter=ends["cancelled"],
        queued_cancelled_in_iter=ends["queued_cancelled"],
        failed_in_iter=ends["failed"],
        failed_reserved_in_iter=ends["failed_reserved"],
        preempted_in_iter=sum(isinstance(event, Preempted) for event in record.events),
        tokens_emitted_in_iter=sum(isinstance(event, TokenEmitted) for event in record.events),
        waiting_queue_depth_after_admission=plan.num_waiting,
        resident_count=scheduler.kv.sequences_retained,
        evicted_in_iter=len(evicted_sequences(record.events)),
        prefill_requests_advanced=shape.prefill_chunks,
        prefill_caps_hit=tuple(cap.value for cap in plan.caps_hit),
        decode_calls_in_iter=record.decode_calls,
        llama_decode_wall_us=record.decode_us,
        iter_wall_us=int(record.ended_at - record.began_at),
        idle_wait_us=record.idle_us,
        predicted_us=number(record.predicted_us),
        decode_threads=DOES_NOT_APPLY if record.threads is None else record.threads.decode,
        prefill_threads=DOES_NOT_APPLY if record.threads is None else record.threads.prefill,
    )


def summary_row(summary: EngineSummary, started_at: Time, *, has_preloaded: bool) -> EngineSummaryRow:
    """The row of a run; with preloaded requests, step 0 is among the rows and its decode call among the totals."""
    snapshot = summary.snapshot
    values: dict[str, object] = {
        "schema": SCHEMA,
        "wall_ms": (summary.ended_at - started_at) / 1000,
        "slots_quarantined": snapshot.scheduler.kv.sequences_quarantined,
        "engine_shutdown_observed": int(snapshot.shutting_down),
        "residual_kv_empty": not summary.residual_sequences,
        "crashed": summary.crashed,
        "engine_t_start_us_absolute": int(started_at),
        "preload_prefill_llama_decode_included": int(has_preloaded),
    }
    values |= renamed(snapshot.totals, TOTALS)
    values |= renamed(snapshot.scheduler.cancels, CANCEL_COUNTS)
    values |= renamed(snapshot.streams, STREAM_COUNTS)
    values |= _reuse_values(snapshot.scheduler)
    return msgspec.convert(values, EngineSummaryRow)


def _reuse_values(scheduler: SchedulerSnapshot) -> dict[str, object]:
    reuse = scheduler.reuse
    values: dict[str, object] = {
        "lookups_by_verdict": {} if reuse is None else _by_word(reuse.lookups),
        "reused_tokens_by_source": {} if reuse is None else _by_word(reuse.cached_tokens),
        "evictions_by_cause": {} if reuse is None else _by_word(reuse.evictions),
    }
    sessions = asdict(SessionFigures() if reuse is None else reuse.sessions)
    last = sessions["last_evicted_resident_lru"]
    return (
        values
        | sessions
        | {
            "last_evicted_resident_lru": DOES_NOT_APPLY if last is None else last,
            "reuse_overtakes": scheduler.reuse_overtakes,
        }
    )


def _by_word(counts: Mapping[W, int]) -> dict[str, int]:
    return {word.value: count for word, count in counts.items()}


def _start_lines(at: Time) -> tuple[bytes]:
    return (encode_row(EngineStartRow(schema=SCHEMA, engine_t_start_us_absolute=int(at))),)


def _iter_lines(record: StepRecord, started_at: Time) -> tuple[bytes]:
    return (encode_row(iter_row(record, started_at)),)


def _summary_lines(summary: EngineSummary, started_at: Time, *, has_preloaded: bool) -> tuple[bytes]:
    return (encode_row(summary_row(summary, started_at, has_preloaded=has_preloaded)),)


def _count_ends(events: tuple[Event, ...]) -> Counter[str]:
    """Ends by status; cancels of requests without a slot count apart."""
    ends = Counter[str]()
    for event in events:
        if isinstance(event, Finished):
            status = published_status(event.reason, event.cancel_reason)
            ends["queued_cancelled" if status == "cancelled" and event.sequence_id is None else status] += 1
    return ends


def _outcome_word(outcome: StepOutcome) -> str:
    match outcome:
        case Sampled():
            return "sampled"
        case NoRoom():
            return "no_room"
        case Interrupted():
            return "interrupted"
        case Failed():
            return "failed"
