"""What a scheduler decided, step by step, whoever drove it: a live engine or the simulator."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from arriero.core.events import Admitted, Event, Finished
from arriero.core.ids import Time
from arriero.core.plan import BatchPlan, PrefillChunk
from arriero.engine.observer import StepRecord
from arriero.sim.simulator import SimulatedStep

RowOf: TypeAlias = tuple[int, int, str, int]
"""Request, slot, `prefill` or `decode`, rows."""


class TraceStep(NamedTuple):
    """One decode call.

    Attributes:
        number: of the step, 0 for the prefill of preloaded requests.
        rows: ascending by slot.
        admitted: requests that got a slot in it, in this order.
        finished: requests that ended with it, in this order.
    """

    number: int
    rows: tuple[RowOf, ...]
    admitted: tuple[int, ...]
    finished: tuple[int, ...]

    @property
    def prefill_rows(self) -> int:
        """Prompt positions."""
        return sum(rows for _, _, kind, rows in self.rows if kind == "prefill")

    @property
    def decode_rows(self) -> int:
        """Requests that got one more token from a token of theirs."""
        return sum(kind == "decode" for _, _, kind, _ in self.rows)


@dataclass(frozen=True, slots=True)
class Trace:
    """All steps of a run, and how long each took.

    Attributes:
        durations: from the begin of each step to that of the next, in us; the last one to its end.
    """

    steps: tuple[TraceStep, ...]
    durations: tuple[Time, ...]

    @property
    def makespan(self) -> Time:
        """From the first step to the end of the last, in us."""
        return sum(self.durations)

    @property
    def admission_order(self) -> list[int]:
        """Requests in the order in which they got a slot."""
        return [request for each in self.steps for request in each.admitted]

    def admitted_in(self) -> dict[int, int]:
        """Request → the step in which it got its slot."""
        return {request: each.number for each in self.steps for request in each.admitted}

    def finished_in(self) -> dict[int, int]:
        """Request → the step in which it ended."""
        return {request: each.number for each in self.steps for request in each.finished}

    def num_steps_of(self) -> dict[int, int]:
        """Request → the steps that had a row of it."""
        found: dict[int, int] = {}
        for each in self.steps:
            for request, _, _, _ in each.rows:
                found[request] = found.get(request, 0) + 1
        return found


def live_trace(records: Sequence[StepRecord]) -> Trace:
    """Of an engine, from the steps that had rows."""
    computed = [record for record in records if record.plan.rows]
    begins = [record.began_at for record in computed]
    ends = [*begins[1:], computed[-1].ended_at] if computed else []
    return Trace(
        tuple(_trace_step(record.plan, record.events) for record in computed),
        tuple(end - begin for begin, end in zip(begins, ends, strict=True)),
    )


def simulated_trace(steps: Sequence[SimulatedStep]) -> Trace:
    """Of the simulator, from the passes that had rows; equal steps must not have been taken in one."""
    computed = [step for step in steps if step.plan.rows]
    return Trace(
        tuple(_trace_step(step.plan, step.events) for step in computed),
        tuple(step.ended_at - step.began_at for step in computed),
    )


def first_difference(one: Trace, other: Trace) -> str | None:
    """Where two traces decide otherwise, in words; None if nowhere."""
    for ours, theirs in zip(one.steps, other.steps, strict=False):
        if ours == theirs:
            continue
        for name in TraceStep._fields:
            seen, expected = getattr(ours, name), getattr(theirs, name)
            if seen != expected:
                return f"step {ours.number}: {name} {_short(seen)}, and {_short(expected)} in the other"
    ours_in_all, theirs_in_all = len(one.steps), len(other.steps)
    return None if ours_in_all == theirs_in_all else f"{ours_in_all} steps, and {theirs_in_all} in the other"


def _trace_step(plan: BatchPlan, events: Sequence[Event]) -> TraceStep:
    return TraceStep(
        number=plan.step,
        rows=tuple(
            (
                row.request.request_id,
                row.sequence_id,
                "prefill" if isinstance(row, PrefillChunk) else "decode",
                row.num_rows,
            )
            for row in plan.rows
        ),
        admitted=tuple(event.request.request_id for event in events if isinstance(event, Admitted)),
        finished=tuple(event.request.request_id for event in events if isinstance(event, Finished)),
    )


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
