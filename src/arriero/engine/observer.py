"""Observer: what others may see of the actor, as frozen values between two steps.

Without observers nothing is recorded and no clock is read for them. An observer that raises is reported once and then
left out; it never reaches the loop.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from arriero.core.events import CancelTarget, Event, RetainedAction, SavedRun
from arriero.core.ids import Time
from arriero.core.option_kinds import Threads
from arriero.core.plan import BatchPlan, StepOutcome
from arriero.core.request import Request
from arriero.costmodel.change import CostChange
from arriero.engine.handle import Result
from arriero.engine.thread_advisor import ThreadShift
from arriero.scheduler.views import SchedulerSnapshot

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StreamCounts:
    """Totals of token streams; opened = the three ways to close, once everything has ended."""

    opened: int = 0
    completed: int = 0
    cancelled: int = 0
    error: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineTotals:
    """Totals since the engine started.

    Attributes:
        steps: passes of the loop, with and without a decode call.
        decode_calls: calls of the model, repeats after a failure included.
        submitted: requests that reached the scheduler.
        admitted: those that got a slot after waiting; preloaded ones that started at once are not counted.
        resolved: handles that got their result.
        completed, cancelled, queued_cancelled, aborted, failed: requests by their end.
        emitted_tokens: tokens told to callers.
        prefill_rows: prompt rows computed.
        repeated_rows: positions lost by preemption; computed a second time, unless a resumed request finds them again.
        preemptions: how often a running request lost its slot.
        idle_waits: how often the loop went to sleep.
        decode_failures: decode calls that failed.
        prefix_hits: requests that started from tokens which they did not compute; resumed ones are not counted.
        cached_tokens: those tokens.
        moves: how often a running request changed its sequence id.
        interrupted_calls: decode calls that were stopped, by a cancel or since they were overdue.
        overdue_calls: those that were overdue.
        thread_shifts: how often the most threads that may compute changed, or a change was tried in vain.
        recalibrations: how often the scheduler was told of other costs.
    """

    steps: int = 0
    decode_calls: int = 0
    submitted: int = 0
    admitted: int = 0
    resolved: int = 0
    completed: int = 0
    cancelled: int = 0
    queued_cancelled: int = 0
    aborted: int = 0
    failed: int = 0
    emitted_tokens: int = 0
    prefill_rows: int = 0
    repeated_rows: int = 0
    preemptions: int = 0
    idle_waits: int = 0
    decode_failures: int = 0
    prefix_hits: int = 0
    cached_tokens: int = 0
    moves: int = 0
    interrupted_calls: int = 0
    overdue_calls: int = 0
    thread_shifts: int = 0
    recalibrations: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSnapshot:
    """Figures of one boundary between two steps.

    Published whenever a request came, started, lost its slot or ended and whenever the loop has nothing to compute, and
    else, while steps add nothing but tokens, some 20 ms apart: building them costs as much as planning.

    Attributes:
        at: when it was taken, on the engine's clock.
        has_work: whether any request was alive.
        shutting_down: whether new work is refused.
    """

    at: Time
    has_work: bool
    shutting_down: bool
    scheduler: SchedulerSnapshot
    totals: EngineTotals
    streams: StreamCounts


@dataclass(frozen=True, slots=True)
class Arrival:
    """A submission as the actor took it.

    Attributes:
        has_stream: whether its caller wants tokens as they come.
    """

    request: Request
    has_stream: bool


Seen: TypeAlias = Arrival | CancelTarget | RetainedAction | CostChange
"""A message that may change decisions, as observers may know it: no handle and no future."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One pass of the loop.

    Attributes:
        messages: what this pass took and what may change decisions, in the order in which it was applied: submissions,
            cancels, what was asked for of the retained runs, and what steps cost from now on.
        plan: what was planned; its rows may be empty.
        outcome: None if there were no rows.
        events: of messages, plan and commit, in order; KV operations included.
        began_at, ended_at: before the messages were applied, after the last event was told.
        committed_at: when the outcome was taken over; None if there were no rows.
        decode_us: inside the decode call; 0 without one.
        decode_calls: 1, or more if a call failed and was repeated in parts; 0 without rows.
        idle_us: asleep before this step.
        snapshot: the figures published last.
        adopted: what the host store held before the first request; the same in every record.
        predicted_us: what the whole step was predicted to take; None without rows or without a cost model.
        threads: that computed it; None where nobody chose them.
        shift: what changed about the threads after it, or None.
    """

    messages: tuple[Seen, ...]
    plan: BatchPlan
    outcome: StepOutcome | None
    events: tuple[Event, ...]
    began_at: Time
    ended_at: Time
    decode_us: int
    decode_calls: int
    idle_us: int
    snapshot: EngineSnapshot
    committed_at: Time | None = None
    adopted: tuple[SavedRun, ...] = ()
    predicted_us: Time | None = None
    threads: Threads | None = None
    shift: ThreadShift | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSummary:
    """The end of a run.

    Attributes:
        started_at, ended_at: on the engine's clock.
        residual_sequences: sequence ids whose KV was not empty at the end.
        crashed: one line if the loop ended by an exception.
        events: those after the last step's record, in order; empty without observers.
    """

    started_at: Time
    ended_at: Time
    residual_sequences: tuple[int, ...]
    crashed: str | None
    events: tuple[Event, ...]
    snapshot: EngineSnapshot


class Observer(Protocol):
    """Called where the actor runs, between two steps; must be quick and must not wait."""

    def on_start(self, at: Time) -> None:
        """The loop begins."""
        ...

    def on_step(self, record: StepRecord) -> None:
        """A step is over."""
        ...

    def on_end(self, result: Result) -> None:
        """A request has ended and its caller was told."""
        ...

    def on_close(self, summary: EngineSummary) -> None:
        """The loop has ended."""
        ...


class Observers:
    """Calls each observer and contains its mistakes; keeps the events that they were not told yet."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        """Keep the order."""
        self._observers = list(observers)
        self._events: list[Event] = []

    def __bool__(self) -> bool:
        """Whether anybody looks."""
        return bool(self._observers)

    def note(self, events: Iterable[Event]) -> None:
        """Keep events for the next record."""
        self._events.extend(events)

    def take_events(self) -> tuple[Event, ...]:
        """Those since the last record, in order."""
        events = tuple(self._events)
        self._events.clear()
        return events

    def start(self, at: Time) -> None:
        """The loop begins."""
        self._each(lambda observer: observer.on_start(at))

    def step(self, record: StepRecord) -> None:
        """A step is over."""
        self._each(lambda observer: observer.on_step(record))

    def end(self, result: Result) -> None:
        """A request has ended."""
        self._each(lambda observer: observer.on_end(result))

    def close(self, summary: EngineSummary) -> None:
        """The loop has ended."""
        self._each(lambda observer: observer.on_close(summary))

    def _each(self, call: Callable[[Observer], None]) -> None:
        for observer in tuple(self._observers):
            try:
                call(observer)
            except Exception:
                logger.exception("observer %s raised and is left out from now on", type(observer).__name__)
                self._observers.remove(observer)
