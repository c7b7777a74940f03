"""Timeline: the curves over time of one run."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from arriero.report.columns import StepColumns
from arriero.report.gantt import waits
from arriero.report.run_view import RunView
from arriero.report.series import FULL, Detail, Stretches, count_over_time, held_over_time, steps_over_time


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Curves of one run; None where its file does not hold them.

    Attributes:
        decode, prefill: rows of steps; 0 between them.
        rows: both together.
        running, waiting: requests.
        counts_steps: whether these two come from steps, which know of preemptions; else from the moments of requests.
        kv: places held after each step.
        window: the measured part, microseconds.
    """

    decode: Stretches | None
    prefill: Stretches | None
    rows: Stretches | None
    running: Stretches
    waiting: Stretches
    counts_steps: bool
    kv: Stretches | None
    kv_unit: str
    kv_places: int | None
    max_rows: int | None
    max_sequences: int | None
    window: tuple[float, float] | None


def timeline(run: RunView, detail: Detail = FULL) -> Timeline:
    """Every curve that can be drawn of a run."""
    steps, moments, limits = run.steps, run.requests.moments, run.limits
    rows = None if steps is None else steps_over_time(_with_rows(steps), _ROWS, run.span, detail)
    was_preempted = bool(run.requests.amounts["preemptions"].any())
    counts_steps = steps is not None and was_preempted and {"num_running", "num_waiting"} <= steps.values.keys()
    if steps is not None and counts_steps:
        counts = steps_over_time(_bridged(steps), ("num_running", "num_waiting"), run.span, detail)
        running, waiting = counts["num_running"], counts["num_waiting"]
    else:
        running = count_over_time(moments["started"], moments["ended"], run.span, detail)
        waiting = count_over_time(*waits(run.requests), run.span, detail)
    has_kv = steps is not None and limits.kv_places is not None and "kv_held" in steps.values
    return Timeline(
        decode=None if rows is None else rows["decode_rows"],
        prefill=None if rows is None else rows["prefill_rows"],
        rows=None if rows is None else rows["rows"],
        running=running,
        waiting=waiting,
        counts_steps=counts_steps,
        kv=held_over_time(steps, "kv_held", run.span, detail) if steps is not None and has_kv else None,
        kv_unit=limits.kv_unit,
        kv_places=limits.kv_places,
        max_rows=limits.rows,
        max_sequences=limits.sequences,
        window=None if run.window is None else (run.window["begins_at_us"], run.window["ends_at_us"]),
    )


_ROWS: Final = ("decode_rows", "prefill_rows", "rows")


def _with_rows(steps: StepColumns) -> StepColumns:
    both = steps.values["decode_rows"] + steps.values["prefill_rows"]
    return replace(steps, values={**steps.values, "rows": both})


def _bridged(steps: StepColumns) -> StepColumns:
    """Steps that last until the next one where less time lies between than they took: nobody was idle there."""
    next_begins = np.append(steps.began_at[1:], steps.ended_at[-1])
    is_short = next_begins - steps.ended_at < steps.ended_at - steps.began_at
    return replace(steps, ended_at=np.where(is_short, next_begins, steps.ended_at))
