"""The third loop: the verbs and the times of a journal, fed to a fresh scheduler.

    messages → plan → the journal's outcome → commit, and again        compare after each verb

It stops at the first decision that differs. Tokens are synthetic, in the shape that the journal gives.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

from arriero.core.errors import BadJournal, ConfigError, InvariantViolation, ReplayDiverged
from arriero.core.events import CancelWaiting, Event, SavedRun, harmed_sequence
from arriero.core.ids import SavedKey, SequenceId, Time, TokenId
from arriero.core.plan import (
    BatchPlan,
    Counted,
    Failed,
    Interrupted,
    NoRoom,
    Sampled,
    SequenceFailure,
    SimulatedOutcome,
)
from arriero.kv.cells import CellManager
from arriero.record.journal_parts import (
    AdoptedRow,
    MessageRow,
    OutcomeRow,
    RecalibrateRow,
    RetainedRow,
    SubmitRow,
)
from arriero.record.journal_reader import JournalLine, read_journal
from arriero.record.journal_schema import EndRecord, GapRecord, StartRecord, StepRecord
from arriero.scheduler.invariants import check_scheduler
from arriero.sim.comparison import Comparison
from arriero.sim.composition import Memory, num_sequence_ids, recorded_memory, recorded_scheduler
from arriero.sim.journal_values import change_from, op_from, request_from, target_from
from arriero.sim.recorded_answers import RecordedAnswers
from arriero.sim.synthetic_runs import END, FILLER, SyntheticRuns


@dataclass(slots=True)
class ReplayReport:
    """What was repeated, with identical decisions.

    Attributes:
        runs: lives of an engine or simulator in the file.
        steps: passes of the loop.
        requests: submissions.
        cancels: cancels of any kind.
        unfinished: runs without an end record.
    """

    runs: int = 0
    steps: int = 0
    requests: int = 0
    cancels: int = 0
    unfinished: int = 0


def replay_journal(path: Path, *, check: bool = False) -> ReplayReport:
    """Replay a file.

    Raises:
        BadJournal: it cannot be replayed. ReplayDiverged: a decision differs.
    """
    try:
        return replay(read_journal(path), check=check)
    except (BadJournal, ReplayDiverged) as error:
        error.file = str(path)
        raise


def replay(lines: Iterable[JournalLine], *, check: bool = False) -> ReplayReport:
    """Replay records; with `check`, every invariant is verified after every step.

    Raises:
        BadJournal, ReplayDiverged: see `replay_journal`.
    """
    report = ReplayReport()
    run: _Replay | None = None
    for number, record in lines:
        try:
            if isinstance(record, StartRecord):
                run = _Replay(record, check=check)
                report.runs += 1
                report.unfinished += 1
                continue
            assert run is not None, "the reader lets nothing come before a start"
            run.follow(record, number)
        except BadJournal as error:
            raise BadJournal(f"line {number}: {error}", line=number, field=error.field) from None
        match record:
            case StepRecord(messages=messages):
                report.steps += 1
                num_submitted = sum(isinstance(message, SubmitRow) for message in messages)
                report.requests += num_submitted
                num_changes = sum(isinstance(message, RecalibrateRow) for message in messages)
                report.cancels += len(messages) - num_submitted - num_changes
            case EndRecord():
                report.unfinished -= 1
            case GapRecord():
                pass
    return report


class _Replay:
    """One run."""

    def __init__(self, start: StartRecord, *, check: bool) -> None:
        self._runs = SyntheticRuns(start.kept_runs, start.kept_tokens)
        self._answers = RecordedAnswers(self._runs)
        memory = recorded_memory(start.setup)
        self._adopt(memory, start.adopted)
        self._scheduler = recorded_scheduler(start.setup, memory, self._answers.progress)
        self._num_sequences = num_sequence_ids(start.setup)
        self._check = check
        self._num_submitted = len(start.adopted)

    def follow(self, record: StepRecord | GapRecord | EndRecord, line: int) -> None:
        """Do what the record says was done, and compare what comes of it."""
        match record:
            case StepRecord():
                try:
                    self._step(record, Comparison(record.plan.step, record.events, line))
                except InvariantViolation as error:
                    raise BadJournal(f"step {record.plan.step} cannot have been: {error}") from error
            case GapRecord(dropped=dropped):
                raise BadJournal(f"{dropped} records are missing here, so nothing that follows can be replayed")
            case EndRecord():
                self._end(record, line)

    def _step(self, record: StepRecord, comparison: "Comparison") -> None:
        self._answers.begin_step(record.answers)
        for message in record.messages:
            comparison.events(self._apply(message, record.began_at))
        plan = self._scheduler.plan(record.began_at)
        comparison.plan(record.plan, plan)
        comparison.events(plan.events)
        if record.outcome is not None and record.committed_at is not None:
            outcome = self._outcome(record.outcome, plan)
            comparison.events(self._scheduler.commit(outcome, record.committed_at))
        comparison.end()
        self._answers.end_step()
        if self._check:
            check_scheduler(self._scheduler)

    def _end(self, record: EndRecord, line: int) -> None:
        if record.crashed is not None:
            return  # in the middle of a step that has no record, so what it did is not known
        comparison = Comparison(self._scheduler.snapshot().step, record.events, line)
        if record.given_up_at is not None:
            comparison.events(self._scheduler.cancel(CancelWaiting(), record.given_up_at))
            comparison.events(self._scheduler.close(record.given_up_at))
        comparison.end()

    def _adopt(self, memory: Memory, rows: tuple[AdoptedRow, ...]) -> None:
        """What the host store held; its numbers come before those of the submissions."""
        found = [
            SavedRun(SavedKey(row.key), str(row.scope), self._runs.prompt(number, row.shape))
            for number, row in enumerate(rows, start=1)
        ]
        if found:
            if not isinstance(memory, CellManager):
                raise BadJournal("only cells have a host store", field="adopted")
            memory.adopt(found)

    def _apply(self, message: MessageRow, now: Time) -> tuple[Event, ...]:
        if isinstance(message, RetainedRow):
            return self._scheduler.tend(message.action, now).events
        if isinstance(message, RecalibrateRow):
            return self._recalibrate(message, now)
        if not isinstance(message, SubmitRow):
            return self._scheduler.cancel(target_from(message), now)
        self._num_submitted += 1
        if message.number != self._num_submitted:
            raise BadJournal(
                f"submission {message.number} comes after {self._num_submitted - 1}; restore the file", field="number"
            )
        self._answers.number = message.number
        return self._scheduler.submit(request_from(message, self._runs), now)

    def _recalibrate(self, message: RecalibrateRow, now: Time) -> tuple[Event, ...]:
        try:
            return self._scheduler.recalibrate(change_from(message), now)
        except ConfigError as error:
            raise BadJournal(f"{error}; restore the file", field="messages") from None

    def _outcome(self, row: OutcomeRow, plan: BatchPlan) -> SimulatedOutcome:
        failures = tuple(
            SequenceFailure(self._sequence(failure.sequence), failure.code, "as it was recorded")
            for failure in row.failures
        )
        refused = tuple(op_from(op, self._sequence) for op in row.refused)
        match row.came:
            case "sampled":
                ends = frozenset(row.ends)
                left_out = {*(each.sequence_id for each in failures), *map(harmed_sequence, refused)}
                return Sampled(tokens=self._tokens(plan, ends, left_out), failures=failures, refused=refused)
            case "failed":
                return Failed(failures=failures, refused=refused)
            case "no_room":
                return NoRoom(refused=refused)
            case "interrupted":
                return Interrupted(refused=refused)
            case "counted":
                return Counted(row.times)
            case _:
                assert_never(row.came)

    def _tokens(
        self, plan: BatchPlan, ends: frozenset[int], left_out: set[SequenceId | None]
    ) -> dict[SequenceId, TokenId]:
        tokens = {
            row.sequence_id: END if row.sequence_id in ends else FILLER
            for row in plan.rows
            if row.wants_logits and row.sequence_id not in left_out
        }
        if not ends <= tokens.keys():
            raise BadJournal("a sequence without a token is said to have got an end token", field="ends")
        return tokens

    def _sequence(self, number: int) -> SequenceId:
        if number >= self._num_sequences:
            raise BadJournal(f"sequence {number} of {self._num_sequences} is no sequence id", field="outcome")
        return SequenceId(number)
