"""What watches and steers a run, between two steps and on the engine's side: no clock decides anything.

StepLog       keeps every step, every result and the summary
CancelPlan    posts a cancel when a request has come so far, so the next step observes it
ArrivalPlan   releases a submitter thread when a step ends, and waits until it has acknowledged
"""

import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Final, Self, TypeVar

from arriero.core.events import Event, TokenEmitted
from arriero.core.ids import StepNumber, Time
from arriero.core.plan import DecodeRow, Failed, Interrupted, NoRoom, PrefillChunk, Row
from arriero.engine.handle import Result
from arriero.engine.observer import EngineSummary, StepRecord

EventT = TypeVar("EventT", bound=Event)

AfterStep = Callable[[StepRecord], None]

ACKNOWLEDGE_WITHIN_S: Final = 10.0


class StepLog:
    """An observer that keeps everything; read it after the end.

    Attributes:
        records: one for each pass of the loop.
        results: in the order in which requests ended.
        summary: there once the loop has ended.
        problems: what went wrong inside the callbacks.
        uncomputed: steps whose rows were not computed, for want of room or by a failure of all.
    """

    def __init__(self) -> None:
        """Start with nothing."""
        self.records: list[StepRecord] = []
        self.results: list[Result] = []
        self.summary: EngineSummary | None = None
        self.problems: list[str] = []
        self.uncomputed: set[StepNumber] = set()
        self._after_step: list[AfterStep] = []
        self._rows: dict[int, list[tuple[StepNumber, Row]]] = {}

    def after_step(self, callback: AfterStep) -> None:
        """Call this when a step is over, before the next one takes its messages."""
        self._after_step.append(callback)

    def on_start(self, at: Time) -> None:
        """The loop begins."""

    def on_step(self, record: StepRecord) -> None:
        """Keep a step, then let the callbacks act on it."""
        self.records.append(record)
        if isinstance(record.outcome, NoRoom | Interrupted | Failed):
            self.uncomputed.add(record.plan.step)
        for row in record.plan.rows:
            self._rows.setdefault(row.request.request_id, []).append((record.plan.step, row))
        for callback in self._after_step:
            try:
                callback(record)
            except Exception as problem:  # noqa: BLE001 - told as a finding; the engine would only leave us out
                self.problems.append(f"{type(problem).__name__}: {problem}")

    def on_end(self, result: Result) -> None:
        """Keep a result."""
        self.results.append(result)

    def on_close(self, summary: EngineSummary) -> None:
        """Keep the summary."""
        self.summary = summary

    @property
    def reuses(self) -> bool:
        """Whether the engine kept runs for others; known after the end."""
        return self.summary is not None and self.summary.snapshot.scheduler.reuse is not None

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def events(self, kind: type[EventT]) -> list[EventT]:
        """Every event of one kind, in order."""
        return [event for record in self.records for event in record.events if isinstance(event, kind)]

    def computed(self) -> list[StepRecord]:
        """The steps that had a decode call."""
        return [record for record in self.records if record.plan.rows]

    def at(self, step: StepNumber) -> StepRecord:
        """The record of one step.

        Raises:
            LookupError: there was no such step.
        """
        for record in self.records:
            if record.plan.step == step:
                return record
        message = f"there was no step {step}"
        raise LookupError(message)

    def rows_of(self, request_id: int) -> list[tuple[StepNumber, Row]]:
        """Steps and rows of one request, of all its lives."""
        return self._rows.get(request_id, [])

    def chunks_of(self, request_id: int) -> list[int]:
        """Lengths of the prompt chunks of one request, in order."""
        return [row.num_rows for _, row in self.rows_of(request_id) if isinstance(row, PrefillChunk)]

    def decode_rows_of(self, request_id: int) -> int:
        """Decode rows of one request."""
        return sum(isinstance(row, DecodeRow) for _, row in self.rows_of(request_id))

    def waiting_depths(self) -> list[int]:
        """Requests that wait after the admissions of each step with a decode call, from step 1 on."""
        return [record.plan.num_waiting for record in self.computed() if record.plan.step > 0]


class CancelPlan:
    """Posts a cancel once a request has emitted so many tokens, or has computed so many prompt chunks."""

    def __init__(
        self,
        cancel: Callable[[int], None],
        *,
        after_tokens: Mapping[int, int] | None = None,
        after_chunks: Mapping[int, int] | None = None,
    ) -> None:
        """`cancel` is the engine's; both maps go from a request id to a number of tokens or chunks."""
        self._cancel = cancel
        self._tokens_left = dict(after_tokens or {})
        self._chunks_left = dict(after_chunks or {})

    def __call__(self, record: StepRecord) -> None:
        """Count what this step did; post what is due."""
        for event in record.events:
            if isinstance(event, TokenEmitted):
                self._count(self._tokens_left, event.request_id)
        for row in record.plan.rows:
            if isinstance(row, PrefillChunk):
                self._count(self._chunks_left, row.request.request_id)

    def _count(self, left: dict[int, int], request_id: int) -> None:
        if request_id in left:
            left[request_id] -= 1
            if left[request_id] == 0:
                del left[request_id]
                self._cancel(request_id)


class ArrivalPlan:
    """Requests from another thread, released when a step ends and acknowledged before the next one begins.

    Used as a context manager around the run; its thread ends with it.

    Attributes:
        fired: how often the release was given.
        acknowledged: how often the submitter said that it was done.
    """

    def __init__(self, release_step: StepNumber, submit: Callable[[], object]) -> None:
        """`submit` runs once, on a thread of its own."""
        self.fired = 0
        self.acknowledged = 0
        self._release_step = release_step
        self._submit = submit
        self._release = threading.Event()
        self._done = threading.Event()
        self._problem: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="gate-submitter", daemon=True)

    def __enter__(self) -> Self:
        """Start the submitter, which waits for its release."""
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """Let the submitter go, released or not."""
        self._release.set()
        self._thread.join()

    def __call__(self, record: StepRecord) -> None:
        """Give the release at its step; returns when it was acknowledged.

        Raises:
            TimeoutError: it was not acknowledged; or whatever the submitter raised.
        """
        if record.plan.step != self._release_step or self.fired:
            return
        self.fired += 1
        self._release.set()
        if not self._done.wait(ACKNOWLEDGE_WITHIN_S):
            message = f"the submitter did not acknowledge within {ACKNOWLEDGE_WITHIN_S} s"
            raise TimeoutError(message)
        if self._problem is not None:
            raise self._problem
        self.acknowledged += 1

    def _run(self) -> None:
        self._release.wait()
        try:
            if self.fired:
                self._submit()
        except Exception as problem:  # noqa: BLE001 - raised again where the gate sees it
            self._problem = problem
        finally:
            self._done.set()
