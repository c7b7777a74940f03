"""What the metrics show of prediction and threads; nothing where no cost profile is in use."""

from typing import Final

from arriero.core.plan import OverTarget, Sampled
from arriero.engine.observer import EngineTotals, StepRecord
from arriero.engine.thread_advisor import ShiftCause
from arriero.http.tally import Tally

RATIOS: Final = (0.5, 0.67, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.25, 1.5, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Bounds of measured / predicted."""

OVER_TARGET: Final = tuple(cause.value for cause in OverTarget)
SHIFTS: Final = tuple(cause.value for cause in ShiftCause)
THREADS_OF: Final = ("decode", "prefill")


def tell_control(tally: Tally, record: StepRecord, kind: str) -> None:
    """Count one step with rows; `kind` is what it held."""
    if record.predicted_us and isinstance(record.outcome, Sampled) and record.decode_calls == 1:
        step_us = record.ended_at - record.began_at
        tally.observe("prediction_ratio", step_us / record.predicted_us, kind, bounds=RATIOS)
    if record.plan.over_target is not None:
        tally.add("over_target", 1, record.plan.over_target.value)
    if record.threads is not None:
        tally.set("step_threads", record.threads.decode, "decode")
        tally.set("step_threads", record.threads.prefill, "prefill")
    if record.shift is not None:
        tally.add("thread_shifts", 1, record.shift.cause.value)


def gauge_control(tally: Tally, totals: EngineTotals) -> None:
    """Show the engine's own counts."""
    tally.set("interrupted_calls", totals.interrupted_calls)
    tally.set("overdue_calls", totals.overdue_calls)
    tally.set("recalibrations", totals.recalibrations)
