"""Actor: the live loop, written once for every placement.

    messages → plan → events → rows → outcome → events, and again

The loop is a generator. It yields what it needs from the outside world, `Wait` for messages or `Run` something where
the backend lives, and is resumed with the answer. `engine/placement.py` holds the two drivers: one blocks a thread,
the other awaits on an event loop and hands each `Run` to one worker.

    phase                       published control plane's step
    1  take                     pump, drain cancels, drain arrivals
    2  apply                    apply queued cancels, submit
    3  plan                     observe cancels, admit, build the batch
    4  settle                   clear sequences, then tell what planning caused
    5  run                      decode once, sample
    6  commit, settle           publish, finalise
    7  record                   observers, snapshot
"""

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar, assert_never, get_args

from arriero.core.errors import ArrieroError, Draining, EngineDied
from arriero.core.events import CancelWaiting, Event, Finished, KvOp, SavedRun
from arriero.core.ids import SequenceId, Time
from arriero.core.plan import BatchPlan, Failed, StepOutcome
from arriero.core.request import CancelReason
from arriero.engine.executor import ClearReport, Executor
from arriero.engine.inbox import (
    AT_ONCE,
    Cancel,
    Inbox,
    Message,
    Recalibrate,
    Shutdown,
    Submit,
    TakePicture,
    TakeSnapshot,
    Tend,
    Until,
)
from arriero.engine.observer import Arrival, EngineSnapshot, EngineSummary, Observers, Seen, StepRecord
from arriero.engine.open_requests import OpenRequests
from arriero.engine.step_control import AS_IT_IS, Foreseen, Measured, StepCall, StepControl
from arriero.engine.thread_advisor import ThreadShift
from arriero.engine.totals import Totals
from arriero.scheduler.invariants import check_scheduler
from arriero.scheduler.scheduler import Scheduler

PHASES: Final = ("take", "apply", "plan", "settle", "run", "commit", "settle", "record")
"""The order of one pass; a test compares it with what a pass really does."""

PUBLISH_EVERY_US: Final = 20_000
"""How old the published figures may be while nothing but tokens is added to them."""

UNHEALTHY_AFTER: Final = 2
"""Decode calls in a row in which every sequence failed alone, after which the engine takes no new work."""

NEEDS_BACKEND: Final = frozenset({*get_args(KvOp), Finished})
"""Events that have to reach the place where the backend lives before others are told."""

Clock: TypeAlias = Callable[[], Time]
T = TypeVar("T")


def monotonic_us() -> int:
    """Whole microseconds of the process's monotonic clock."""
    return time.monotonic_ns() // 1000


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait for messages until then, and come back with all of them."""

    until: Until


@dataclass(frozen=True, slots=True)
class Settle:
    """Apply the KV operations among these events where the backend lives; come back with the reports."""

    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """Run a plan where the backend lives; come back with its outcome."""

    plan: BatchPlan
    call: StepCall = AS_IT_IS


Need: TypeAlias = Wait | Settle | Run
Answer: TypeAlias = list[Message] | dict[SequenceId, ClearReport] | StepOutcome
Steps: TypeAlias = Generator[Need, Answer | None, None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorOptions:
    """How a run begins and ends.

    Attributes:
        keep_alive: sleep when idle; else end when nothing is left to do.
        check: verify every invariant after every step.
        adopted: what the host store held; for records.
    """

    keep_alive: bool = True
    check: bool = False
    adopted: tuple[SavedRun, ...] = ()


class Actor:
    """One scheduler, one backend, one loop."""

    def __init__(
        self,
        scheduler: Scheduler,
        executor: Executor,
        inbox: Inbox,
        *,
        options: ActorOptions,
        requests: OpenRequests,
        observers: Observers,
        clock: Clock,
        control: StepControl,
    ) -> None:
        """All of them belong to the actor from now on; inbox and control are shared with producers."""
        self.scheduler = scheduler
        self.executor = executor
        self.inbox = inbox
        self.control = control
        self._options = options
        self._requests = requests
        self._observers = observers
        self._clock = clock
        self._totals = Totals()
        self._shutting_down = False
        self._failed_in_a_row = 0
        self.snapshot = self._take_snapshot(clock())

    def loop(self) -> Steps:
        """The loop; ends after a shutdown, or, without `keep_alive`, when nothing is left."""
        self._observers.start(self._clock())
        until: Until = AT_ONCE
        while True:
            idle_from = self._clock() if self._observers and until is not AT_ONCE else None
            if until is not AT_ONCE:
                self.control.sleep()
            messages = yield Wait(until)
            assert isinstance(messages, list), "Wait is answered with messages"
            began_at = self._clock()
            self.control.wake(began_at)
            for message in messages:
                yield from self._apply(message, began_at)
            plan = self.scheduler.plan(began_at)
            yield from self._settle(plan.events)
            foreseen, outcome, committed_at = Foreseen(began_at), None, None
            if plan.rows:
                call, foreseen = self.control.begin(plan, began_at, self._clock())
                answer = yield Run(plan, call)
                assert answer is not None, "Run is answered with an outcome"
                assert not isinstance(answer, list | dict), "Run is answered with an outcome"
                outcome, committed_at = answer, self._clock()
                self._watch(outcome)  # before callers are told: who sees the failure finds the door already closed
                yield from self._settle(self.scheduler.commit(outcome, committed_at))
            idle_us = 0 if idle_from is None else int(began_at - idle_from)
            self._record(messages, plan, outcome, foreseen, committed_at, idle_us)
            until = self._next(plan)
            if until is None and self._must_end():
                yield from self._end()
                return

    # ── one pass, in order ──────────────────────────────────────────────────────────────────────────────────────────

    def _apply(self, message: Message, now: Time) -> Steps:
        match message:
            case Submit(request=request):
                self._totals.add("submitted")
                events = self.scheduler.submit(request, now)
                self._requests.open(message, events)
                yield from self._settle(events)
            case Cancel(target):
                yield from self._settle(self.scheduler.cancel(target, now))
            case Shutdown():
                self._shutting_down = True
            case TakeSnapshot(answer):
                _answer(answer, self._take_snapshot(now))
            case TakePicture(answer):
                _answer(answer, self.scheduler.picture())
            case Tend(action, answer):
                tended = self.scheduler.tend(action, now)
                yield from self._settle(tended.events)
                _answer(answer, tended.report)
            case Recalibrate(change):
                self.control.apply(change)
                self._totals.add("recalibrations")
                yield from self._settle(self.scheduler.recalibrate(change, now))
            case _:
                assert_never(message)

    def _settle(self, events: tuple[Event, ...]) -> Steps:
        """Memory first, then callers: a sequence is cleared before the end of its request is told."""
        if not events:
            return
        reports: dict[SequenceId, ClearReport] = {}
        if not NEEDS_BACKEND.isdisjoint(map(type, events)):
            answer = yield Settle(events)
            assert isinstance(answer, dict)
            reports = answer
            self.control.see(events)
        self._requests.tell(events, reports)
        self._totals.count(events)
        if self._observers:
            self._observers.note(events)

    def _record(
        self,
        messages: list[Message],
        plan: BatchPlan,
        outcome: StepOutcome | None,
        foreseen: Foreseen,
        committed_at: Time | None,
        idle_us: int,
    ) -> None:
        if self._options.check:
            check_scheduler(self.scheduler)
        self._totals.add("steps")
        self._totals.add("prefill_rows", plan.shape.prefill_rows)
        ended_at = self._clock()
        self._totals.has_news |= not plan.rows
        shift = self._learn(plan, outcome, foreseen, ended_at)
        self._end_of_step(ended_at)
        if self._observers:
            self._observers.step(
                StepRecord(
                    messages=tuple(_seen(messages)),
                    plan=plan,
                    outcome=outcome,
                    events=self._observers.take_events(),
                    began_at=foreseen.began_at,
                    ended_at=ended_at,
                    committed_at=committed_at,
                    decode_us=self.executor.counts.decode_ns // 1000 if plan.rows else 0,
                    decode_calls=self.executor.counts.calls_of_step if plan.rows else 0,
                    idle_us=idle_us,
                    snapshot=self.snapshot,
                    adopted=self._options.adopted,
                    predicted_us=foreseen.predicted,
                    threads=foreseen.threads,
                    shift=shift,
                )
            )

    def _learn(
        self, plan: BatchPlan, outcome: StepOutcome | None, foreseen: Foreseen, ended_at: Time
    ) -> ThreadShift | None:
        """What the step says about the machine; the scheduler hears of it at the next boundary."""
        if outcome is None:
            self.control.idle(ended_at)
            return None
        counts = self.executor.counts
        measured = Measured(plan, outcome, ended_at, counts.decode_ns // 1000, counts.calls_of_step)
        shift = self.control.end(foreseen, measured)
        if shift is not None:
            self._totals.add("thread_shifts")
        change = self.control.due(ended_at)
        if change is not None:
            self.inbox.post(Recalibrate(change))
        return shift

    def _end(self) -> Steps:
        """After the last step: what still waits can never be admitted, and nobody will start from what is retained."""
        yield from self._settle(self.scheduler.cancel(CancelWaiting(), self._clock()))
        yield from self._settle(self.scheduler.close(self._clock()))
        self._end_of_step(self._clock())

    def _end_of_step(self, now: Time) -> None:
        self._requests.wake()
        for handle in self._requests.lagging():
            handle.cancel(CancelReason.SLOW_CONSUMER)
        for result in self._requests.take_ended():
            self._observers.end(result)
        if self._totals.has_news or now - self.snapshot.at >= PUBLISH_EVERY_US:
            self._totals.has_news = False
            self.snapshot = self._take_snapshot(now)

    def _next(self, plan: BatchPlan) -> Until:
        """When to go on: at once after rows, else at the plan's word, else (None) when a message comes."""
        if plan.rows or len(self.inbox):
            return AT_ONCE
        if plan.wake_at is not None and plan.wake_at <= self._clock():
            return AT_ONCE
        if self._must_end():
            return None
        self._totals.add("idle_waits")
        return plan.wake_at

    def _must_end(self) -> bool:
        """Whether the loop ends when it has nothing left to compute."""
        return self._shutting_down or not self._options.keep_alive

    # ── the end, called by the driver ───────────────────────────────────────────────────────────────────────────────

    def close(self, started_at: Time, residual: Sequence[SequenceId], error: BaseException | None) -> EngineSummary:
        """Resolve what is left and tell the observers; the loop is not resumed after it."""
        reason: ArrieroError = Draining("the engine has shut down; start another one")
        if error is not None:
            reason = EngineDied(f"the engine crashed: {type(error).__name__}: {error}", code="engine_died")
        self.inbox.refuse(reason)
        self.inbox.close()
        for message in self.inbox.take():
            self._turn_away(message, reason)
        self._requests.fail_all(reason)
        now = self._clock()
        self.snapshot = self._take_snapshot(now)
        crashed = None if error is None else f"{type(error).__name__}: {error}"
        summary = EngineSummary(
            started_at=started_at,
            ended_at=now,
            residual_sequences=tuple(residual),
            crashed=crashed,
            events=self._observers.take_events(),
            snapshot=self.snapshot,
        )
        for result in self._requests.take_ended():  # of a step that did not come to its end
            self._observers.end(result)
        self._observers.close(summary)
        return summary

    # ── figures ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _turn_away(self, message: Message, reason: ArrieroError) -> None:
        match message:
            case Submit(handle=handle):
                handle.fail(reason)
            case TakeSnapshot(answer):
                _answer(answer, self.snapshot)
            case TakePicture(answer):
                _refuse(answer, reason)
            case Tend(_, answer):
                _refuse(answer, reason)
            case Cancel() | Shutdown() | Recalibrate():
                pass
            case _:
                assert_never(message)

    def _watch(self, outcome: StepOutcome) -> None:
        """One step in which every sequence fails alone may be chance; two in a row are the engine's own illness."""
        self._failed_in_a_row = self._failed_in_a_row + 1 if isinstance(outcome, Failed) else 0
        if self._failed_in_a_row == UNHEALTHY_AFTER:
            self.inbox.refuse(Draining(f"{UNHEALTHY_AFTER} decode calls in a row failed for every sequence"))

    def _take_snapshot(self, now: Time) -> EngineSnapshot:
        return EngineSnapshot(
            at=now,
            has_work=self.scheduler.has_work,
            shutting_down=self._shutting_down,
            scheduler=self.scheduler.snapshot(),
            totals=self._totals.read(self.executor.counts),
            streams=self._requests.stream_counts,
        )


def _answer(answer: Future[T], value: T) -> None:
    """Answer whoever still asks."""
    if answer.set_running_or_notify_cancel():
        answer.set_result(value)


def _refuse(answer: Future[T], reason: ArrieroError) -> None:
    """Tell whoever still asks that there will be no answer."""
    if answer.set_running_or_notify_cancel():
        answer.set_exception(reason)


def _seen(messages: list[Message]) -> Iterator[Seen]:
    """What observers may know of the messages: no handle and no future."""
    for message in messages:
        match message:
            case Submit(request=request, handle=handle):
                yield Arrival(request, handle.stream is not None)
            case Cancel(target):
                yield target
            case Tend(action):
                yield action
            case Recalibrate(change):
                yield change
            case _:
                pass
