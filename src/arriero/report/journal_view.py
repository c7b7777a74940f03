"""The runs of a journal as RunViews.

A journal says what the scheduler was told and what it decided; requests are put together from that. Whether its times
were measured follows from them: only a simulator spends every step inside the decode call, to the microsecond.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from arriero.metrics.steps import StepTally
from arriero.record.journal_parts import AdmittedRow, Dropped, EventRow, OutcomeRow, PlannedRow, SubmitRow, Trimmed
from arriero.record.journal_reader import read_journal
from arriero.record.journal_schema import EndRecord, GapRecord, JournalRecord, StartRecord, StepRecord, TimeLine
from arriero.record.journal_setup import BlocksSetup, CellsSetup, Setup
from arriero.record.sim_file import file_sha256
from arriero.report.columns import StepTable
from arriero.report.journal_lives import JournalLives
from arriero.report.own_run import as_text
from arriero.report.run_view import LIMITS, MEMORY, OBJECTIVES, PLANNER, WORKLOAD, Fact, RunLimits, RunView

NO_CELLS: Final = "KV occupancy over time is drawn for cells only; this run kept its KV in another way."
NO_END: Final = "The run has no end record: its process died, or was still running when the file was read."

_US: Final = {TimeLine.MICROSECONDS: 1.0, TimeLine.MILLISECONDS: 1_000.0}
_COMPUTED: Final = frozenset({"sampled", "counted"})


def read_journal_runs(path: Path) -> list[RunView]:
    """Every run of a file, in its order.

    Raises:
        BadJournal: it is damaged; names file and line.
    """
    runs: list[_Run] = []
    for line in read_journal(path):
        if isinstance(line.record, StartRecord):
            runs.append(_Run(line.record, path.stem))
        else:
            runs[-1].follow(line.record)
    sha256 = file_sha256(path)
    return [run.view(path.name, sha256, number if len(runs) > 1 else None) for number, run in enumerate(runs, start=1)]


class _Run:
    """One run, while it is read."""

    def __init__(self, start: StartRecord, name: str) -> None:
        setup = start.setup
        pool = setup.kv.num_cells if isinstance(setup.kv, CellsSetup) else 0
        self._start = start
        self._name = name
        self._us = _US[start.time_line]
        self._cells = _Cells()
        self._lives = JournalLives()
        self._steps = StepTable()
        self._tally = StepTally(setup.limits.num_rows, pool)
        self._origin: float | None = None
        self._ended_at = 0.0
        self._is_measured = False
        self._notes = {NO_END: True}

    def follow(self, record: JournalRecord) -> None:
        """Take the next record."""
        match record:
            case StepRecord():
                self._add_step(record)
            case GapRecord(dropped=dropped):
                self._notes[f"{dropped} records are missing in the journal: figures cover what is left."] = True
            case EndRecord():
                self._notes.pop(NO_END, None)
                self._lives.end(record.events, self._at(record.ended_at))
            case StartRecord():
                raise AssertionError("a start begins another run")

    def view(self, file: str, sha256: str, number: int | None) -> RunView:
        """Everything; `number` tells it from other runs of the file."""
        setup, steps = self._start.setup, self._steps.columns()
        name = self._name if number is None else f"{self._name} #{number}"
        evidence = "MEASURED" if self._is_measured else "SIMULATED"
        has_cells = isinstance(setup.kv, CellsSetup)
        notes = (*self._notes, *(() if has_cells else (NO_CELLS,)))
        return RunView(
            name=name,
            evidence=evidence,
            facts=_facts(self._start, file, sha256, evidence),
            traits=_traits(setup, self._lives.workload_sha256()),
            limits=_limits(setup),
            objectives={},
            steps=steps,
            requests=self._lives.columns(),
            ended_at=self._ended_at,
            step_figures=self._tally.figures(),
            evictions=None,
            notes=notes,
        )

    def _at(self, time: float) -> float:
        """Microseconds from the first moment of the run."""
        origin = time if self._origin is None else self._origin
        return round((time - origin) * self._us)

    def _add_step(self, record: StepRecord) -> None:
        if self._origin is None:
            self._origin = min([record.began_at, *_arrivals(record)])
        began_at, ended_at = self._at(record.began_at), self._at(record.ended_at)
        if began_at > self._ended_at:
            self._tally.idle(int(began_at - self._ended_at))
        self._lives.add(record, self._at)
        self._ended_at = ended_at
        if record.outcome is None:
            self._cells.free(record.events, frozenset())
            return
        self._is_measured |= record.decode_time != record.ended_at - record.began_at
        for event in record.events:
            if isinstance(event, AdmittedRow):
                self._cells.start(event.sequence, self._lives.num_known(event.request))
        planned = frozenset(row.sequence for row in record.plan.rows)
        self._cells.free(record.events, planned)  # what was given back before the rows ran
        self._cells.fill(record.plan.rows, record.outcome)
        held = self._cells.held
        self._cells.free(record.events, frozenset())
        self._count(record, began_at, ended_at, held)

    def _count(self, record: StepRecord, began_at: float, ended_at: float, held: int) -> None:
        shape, waiting = record.plan.shape, record.plan.num_waiting
        values = {
            "prefill_rows": shape.prefill_rows,
            "decode_rows": shape.decode_rows,
            "num_running": shape.num_running,
            "num_waiting": waiting,
            "kv_held": self._cells.held,
        }
        self._steps.add(began_at, ended_at, values)
        self._tally.step(
            int(ended_at - began_at),
            rows=shape.decode_rows + shape.prefill_rows,
            sequences=len(record.plan.rows),
            waiting=waiting,
            kv_held=held,
            kv_tokens=held,
        )


class _Cells:
    """How many cells sequences hold, from admissions, rows and KV operations.

    A sequence that starts takes the places of its whole prompt, and of its answer so far if it is resumed.
    """

    def __init__(self) -> None:
        self.held = 0
        self._lengths: dict[int, int] = {}

    def start(self, sequence: int, num_tokens: int) -> None:
        """A sequence was handed out."""
        self._set(sequence, num_tokens)

    def fill(self, rows: tuple[PlannedRow, ...], outcome: OutcomeRow) -> None:
        """Rows were computed; those of a step that gave nothing are not."""
        if outcome.came not in _COMPUTED:
            return
        failed = {failure.sequence for failure in outcome.failures}
        for row in rows:
            if row.sequence not in failed:
                reached = row.start + row.length + outcome.times - 1
                self._set(row.sequence, max(reached, self._lengths.get(row.sequence, 0)))

    def free(self, events: tuple[EventRow, ...], kept: frozenset[int]) -> None:
        """Take back what a step's events clear; a sequence that is handed out again after that keeps its places.

        Args:
            events: of the step.
            kept: sequences that are left alone.
        """
        lengths: dict[int, int] = {}
        for event in events:
            match event:
                case Dropped(sequence=sequence):
                    lengths[sequence] = 0
                case Trimmed(sequence=sequence, length=length):
                    lengths[sequence] = length
                case AdmittedRow(sequence=sequence):
                    lengths.pop(sequence, None)
                case _:
                    pass
        for sequence, length in lengths.items():
            if sequence not in kept:
                self._set(sequence, min(length, self._lengths.get(sequence, 0)))

    def _set(self, sequence: int, length: int) -> None:
        self.held += length - self._lengths.get(sequence, 0)
        self._lengths[sequence] = length


def _arrivals(record: StepRecord) -> Iterator[float]:
    return (message.arrival_at for message in record.messages if isinstance(message, SubmitRow))


def _facts(start: StartRecord, file: str, sha256: str, evidence: str) -> tuple[Fact, ...]:
    return (
        Fact("journal", file),
        Fact("sha256 of the file", sha256),
        Fact("format", f"journal, schema {start.schema}"),
        Fact("evidence", evidence),
        Fact("written by", start.written_by),
        Fact("time line", start.time_line.value),
    )


def _traits(setup: Setup, workload_sha256: str) -> dict[str, str | None]:
    return {
        WORKLOAD: workload_sha256,
        OBJECTIVES: None,
        LIMITS: as_text(setup.limits),
        MEMORY: as_text(setup.kv),
        PLANNER: f"{as_text(setup.planner)}, {as_text(setup.policy)}",
    }


def _limits(setup: Setup) -> RunLimits:
    rows = setup.limits.num_rows
    match setup.kv:
        case CellsSetup(num_cells=num_cells, num_sequences=num_sequences):
            return RunLimits(rows, num_sequences, num_cells, "cells")
        case BlocksSetup(num_sequences=num_sequences):
            return RunLimits(rows, num_sequences, None, "blocks")
        case _:
            return RunLimits(rows, setup.kv.num_sequences, None, "places")
