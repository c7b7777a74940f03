"""Executor: KV operations and rows on the backend, then sampling.

Whatever a decode call does, the memory is back at the last committed position of every sequence afterwards, and one
bad row ends one request and no other: a failed call is repeated in halves until the sequences that fail alone stand
apart.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from arriero.backend.protocol import Backend, DecodeError, DecodeInterrupted, KvExhausted
from arriero.core.errors import InvariantViolation
from arriero.core.events import DropSequence, Event, Finished, KvOp, MoveSequence, TrimSequence, harmed_sequence
from arriero.core.ids import SequenceId, TokenId
from arriero.core.option_kinds import Threads
from arriero.core.plan import BatchPlan, Failed, Interrupted, NoRoom, Row, Sampled, SequenceFailure, StepOutcome
from arriero.engine.interrupter import Interrupter, InterruptibleCall, Interruption
from arriero.engine.step_control import AS_IT_IS, StepCall
from arriero.sampling.sampler import SamplerPool


@dataclass(frozen=True, slots=True)
class ClearReport:
    """What clearing a sequence found.

    Attributes:
        pos_max: the highest position before, None if it was empty.
        cleared: whether it read empty afterwards.
    """

    pos_max: int | None
    cleared: bool


@dataclass(slots=True)
class ExecutorCounts:
    """Written where the backend runs, read between two steps."""

    decode_calls: int = 0
    decode_failures: int = 0
    interrupted_calls: int = 0
    overdue_calls: int = 0  # of these
    decode_ns: int = 0  # of the last `run`
    calls_of_step: int = 0  # of the last `run`


class Executor:
    """Runs plans, verbatim; owned by the actor and called in one place at a time."""

    def __init__(self, backend: Backend, *, check: bool = False, interrupter: Interrupter | None = None) -> None:
        """With `check` the positions of bystanders are compared around every clearing; the interrupter is shared."""
        self._backend = backend
        self._samplers = SamplerPool(backend.sampler)
        self._check = check
        self._interrupter = interrupter
        self._threads: Threads | None = None  # None: those that the backend was made with
        self._refused: list[KvOp] = []
        self.counts = ExecutorCounts()

    def settle(self, events: Iterable[Event]) -> dict[SequenceId, ClearReport]:
        """Apply the KV operations among these events, and forget the samplers of requests that ended.

        An operation that memory refuses is reported with the next outcome.
        """
        reports: dict[SequenceId, ClearReport] = {}
        for event in events:
            match event:
                case DropSequence(sequence_id):
                    reports[sequence_id] = self._drop(event)
                case Finished(request=request):
                    self._samplers.forget(request.request_id)
                case _ if isinstance(event, KvOp):
                    self._apply(event)
                case _:
                    pass
        return reports

    def run(self, plan: BatchPlan, call: StepCall = AS_IT_IS) -> StepOutcome:
        """Compute the rows of a plan and sample; sequences that a refused operation harmed are left out.

        Only the first decode call can be interrupted, not its repeats after a failure.
        """
        rows: Sequence[Row] = plan.rows
        if refused := self._take_refused():
            harmed = {harmed_sequence(op) for op in refused}
            rows = [row for row in rows if row.sequence_id not in harmed]
        self.counts.decode_ns = 0
        self.counts.calls_of_step = 0
        self._compute_with(call.threads)
        try:
            tokens, failures = self._decode_first(rows, call.interruptible)
        except KvExhausted:
            self._repair(rows)
            return NoRoom(refused=(*refused, *self._take_refused()))
        except DecodeInterrupted:
            self._repair(rows)
            return Interrupted(refused=(*refused, *self._take_refused()))
        except DecodeError as error:
            tokens, failures, num_computed = self._apart(self._repair(rows), error)
            if not num_computed:
                return Failed(failures=tuple(failures), refused=(*refused, *self._take_refused()))
        return Sampled(tokens=tokens, failures=tuple(failures), refused=(*refused, *self._take_refused()))

    def close(self) -> tuple[SequenceId, ...]:
        """Free all samplers; returns the sequence ids whose KV is not empty. The backend stays its owner's."""
        self._samplers.close()
        return tuple(sequence_id for sequence_id, span in self._spans().items() if span is not None)

    def _compute_with(self, threads: Threads | None) -> None:
        if threads is not None and threads != self._threads:
            self._backend.set_threads(threads)
            self._threads = threads

    def _decode_first(
        self, rows: Sequence[Row], call: InterruptibleCall | None
    ) -> tuple[dict[SequenceId, TokenId], list[SequenceFailure]]:
        if call is None or self._interrupter is None:
            return self._decode(rows)
        self._interrupter.enter(call)
        try:
            return self._decode(rows)
        finally:
            self._interrupter.leave()

    def _decode(self, rows: Sequence[Row]) -> tuple[dict[SequenceId, TokenId], list[SequenceFailure]]:
        if not any(row.num_rows for row in rows):
            return {}, []
        began = time.perf_counter_ns()
        self.counts.decode_calls += 1
        self.counts.calls_of_step += 1
        try:
            logits = self._backend.decode(rows)
        except DecodeInterrupted:
            self.counts.interrupted_calls += 1
            self.counts.overdue_calls += (
                self._interrupter is not None and self._interrupter.last is Interruption.OVERDUE
            )
            raise
        except DecodeError:
            self.counts.decode_failures += 1
            raise
        finally:
            self.counts.decode_ns += time.perf_counter_ns() - began
        return self._samplers.choose(rows, logits)

    def _apart(
        self, rows: Sequence[Row], error: DecodeError
    ) -> tuple[dict[SequenceId, TokenId], list[SequenceFailure], int]:
        """Repeat failed rows in halves; returns tokens, failures and how many sequences were computed."""
        if len(rows) <= 1:
            return {}, [SequenceFailure(row.sequence_id, "decode_failed", str(error)) for row in rows], 0
        tokens: dict[SequenceId, TokenId] = {}
        failures: list[SequenceFailure] = []
        num_computed = 0
        middle = len(rows) // 2
        for half in (rows[:middle], rows[middle:]):
            try:
                half_tokens, half_failures = self._decode(half)
                half_computed = len(half)
            except DecodeError as again:
                half_tokens, half_failures, half_computed = self._apart(self._repair(half), again)
            tokens |= half_tokens
            failures += half_failures
            num_computed += half_computed
        return tokens, failures, num_computed

    def _repair(self, rows: Sequence[Row]) -> list[Row]:
        """Back to the last committed position; returns the rows whose sequences are there.

        The others are reported as refused: their requests start again on another sequence.
        """
        sound: list[Row] = []
        for row in rows:
            trim = TrimSequence(row.sequence_id, row.start)
            expected = row.start - 1 if row.start else None
            span = self._backend.positions(row.sequence_id) if self._backend.apply(trim) else None
            if (None if span is None else span[1]) == expected:
                sound.append(row)
            else:
                self._refused.append(trim)
        return sound

    def _drop(self, op: DropSequence) -> ClearReport:
        before = self._backend.positions(op.sequence_id)
        cleared = self._apply(op)
        return ClearReport(None if before is None else before[1], cleared)

    def _spans(self) -> dict[SequenceId, tuple[int, int] | None]:
        every_id = map(SequenceId, range(self._backend.limits.num_sequences))
        return {sequence_id: self._backend.positions(sequence_id) for sequence_id in every_id}

    def _apply(self, op: KvOp) -> bool:
        """Apply once, and a clearing once more if refused; then leave it to the next outcome."""
        bystanders = self._spans() if self._check else {}
        done = self._backend.apply(op) or (isinstance(op, DropSequence | TrimSequence) and self._backend.apply(op))
        if not done:
            self._refused.append(op)
        if self._check:
            self._check_bystanders(op, bystanders)
        return done

    def _check_bystanders(self, op: KvOp, before: dict[SequenceId, tuple[int, int] | None]) -> None:
        """Nobody else's positions may have moved."""
        changed = {op.source, op.sequence_id} if isinstance(op, MoveSequence) else {harmed_sequence(op)}
        after = self._spans()
        moved = [each for each, span in before.items() if each not in changed and after[each] != span]
        if moved:
            message = f"{op} changed the positions of {moved}"
            raise InvariantViolation(message)

    def _take_refused(self) -> tuple[KvOp, ...]:
        if not self._refused:
            return ()
        refused = tuple(self._refused)
        self._refused.clear()
        return refused
