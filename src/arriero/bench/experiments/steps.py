"""StepLog: an observer that keeps every step of one engine, and lets an experiment act between two of them."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from arriero.core.events import TokenEmitted
from arriero.core.ids import RequestId, Time
from arriero.core.plan import PrefillChunk
from arriero.engine.handle import Result
from arriero.engine.observer import EngineSummary, StepRecord

AfterStep: TypeAlias = Callable[[StepRecord], None]


class StepLog:
    """Keeps what it is told; read it when the engine has ended, or between two of its steps.

    Attributes:
        records: every pass of the loop, with rows or without.
        problems: what a callback raised, in words.
    """

    def __init__(self, after_step: AfterStep | None = None) -> None:
        """`after_step` is called where the engine runs, before the next step takes its messages."""
        self.records: list[StepRecord] = []
        self.problems: list[str] = []
        self._after_step = after_step

    def on_start(self, at: Time) -> None:
        """The loop begins."""

    def on_step(self, record: StepRecord) -> None:
        """Keep a step, then let the experiment act."""
        self.records.append(record)
        if self._after_step is None:
            return
        try:
            self._after_step(record)
        except Exception as problem:  # noqa: BLE001 - it becomes part of the outcome; the engine would only leave us out
            self.problems.append(f"{type(problem).__name__}: {problem}")

    def on_end(self, result: Result) -> None:
        """Its caller keeps the result."""

    def on_close(self, summary: EngineSummary) -> None:
        """The engine's owner has the summary."""

    def computed(self) -> list[StepRecord]:
        """The steps that had rows."""
        return [record for record in self.records if record.plan.rows]


def shape_of(records: Iterable[StepRecord], request_id: RequestId) -> tuple[tuple[int, ...], ...]:
    """In which company a request was computed: rows by kind of each step that had a row of it.

    Two answers may be compared bit by bit only if this is the same for both.
    """
    return tuple(
        (shape.decode_rows, shape.prefill_rows, shape.prefill_chunks)
        for record in records
        if any(row.request.request_id == request_id for row in record.plan.rows)
        for shape in (record.plan.shape,)
    )


def speaks(record: StepRecord, request_id: RequestId) -> bool:
    """Whether a request got a token in this step."""
    return any(isinstance(event, TokenEmitted) and event.request_id == request_id for event in record.events)


def chunk_rows(record: StepRecord) -> dict[RequestId, int]:
    """Prompt rows of each request in this step."""
    return {row.request.request_id: row.num_rows for row in record.plan.rows if isinstance(row, PrefillChunk)}


def decode_step_us(records: Iterable[StepRecord], num_rows: int = 1) -> list[int]:
    """How long the decode calls took that had so many decode rows and nothing else."""
    return [
        record.decode_us
        for record in records
        if record.plan.shape.decode_rows == num_rows and not record.plan.shape.prefill_rows and record.decode_calls == 1
    ]
