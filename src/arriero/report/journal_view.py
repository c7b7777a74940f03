"""The runs of a journal as RunViews.

A journal says what the scheduler was told and what it decided; requests are put together from that. Whether its times
were measured follows from them: only a simulator spends every step inside the decode call, to the microsecond.
"""

import sys
from pathlib import Path
from typing import Final

from arriero.metrics.steps import StepTally
from arriero.record.journal_parts import AdmittedRow
from arriero.record.journal_reader import read_journal
from arriero.record.journal_schema import EndRecord, GapRecord, JournalRecord, StartRecord, StepRecord
from arriero.record.journal_setup import BlocksSetup, CellsSetup, Setup
from arriero.record.sim_file import file_sha256
from arriero.report.columns import STEP_FIELDS, StepTable
from arriero.report.journal_cells import HeldCells
from arriero.report.journal_lives import JournalLives
from arriero.report.journal_times import JournalTimes, StepTimes
from arriero.report.own_run import as_text
from arriero.report.run_view import LIMITS, MEMORY, OBJECTIVES, PLANNER, WORKLOAD, Fact, RunLimits, RunView

NO_CELLS: Final = "KV occupancy over time is drawn for cells only; this run kept its KV in another way."
NO_END: Final = "The run has no end record: its process died, or was still running when the file was read."

_HELD: Final = "kv_held"


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
        has_cells = isinstance(setup.kv, CellsSetup)
        self._start = start
        self._name = name
        self._times = JournalTimes(start.time_line)
        self._cells = HeldCells()
        self._lives = JournalLives(self._times.at)
        self._steps = StepTable(STEP_FIELDS if has_cells else [name for name in STEP_FIELDS if name != _HELD])
        self._tally = StepTally(_limits(setup).rows or 0, _limits(setup).kv_places or 0)
        self._ended_at = 0
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
                self._lives.end(record.events, self._times.at(record.ended_at))
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

    def _add_step(self, record: StepRecord) -> None:
        times = self._times.of(record)
        if times.began_at > self._ended_at:
            self._tally.idle(times.began_at - self._ended_at)
        self._lives.add(record, times)
        self._ended_at = times.ended_at
        if record.outcome is None:
            self._cells.free(record.events)
            return
        self._is_measured |= record.decode_time != record.ended_at - record.began_at
        for event in record.events:
            if isinstance(event, AdmittedRow):
                self._cells.start(event.sequence, self._lives.num_known(event.request))
        planned = frozenset(row.sequence for row in record.plan.rows)
        self._cells.free(record.events, planned)  # what was given back before the rows ran
        held = self._cells.fill(record.plan.rows, record.outcome)
        self._cells.free(record.events)
        self._count(record, times, held)

    def _count(self, record: StepRecord, times: StepTimes, held: range) -> None:
        """Count the equal steps of a record, in which nothing but time and memory moves.

        Args:
            record: with rows.
            times: of the record.
            held: cells while each of these steps ran.
        """
        shape, waiting, ends = record.plan.shape, record.plan.num_waiting, times.ends
        values = {
            "prefill_rows": shape.prefill_rows,
            "decode_rows": shape.decode_rows,
            "num_running": shape.num_running,
            "num_waiting": waiting,
        }
        # Of the last one the table holds what is left when everything is told.
        self._steps.add_equal(times.began_at, ends, values, {_HELD: (*held[:-1], self._cells.held)})
        before = times.began_at
        for end, num_held in zip(ends, held, strict=True):
            self._tally.step(
                end - before,
                rows=shape.decode_rows + shape.prefill_rows,
                sequences=len(record.plan.rows),
                waiting=waiting,
                kv_held=num_held,
                kv_tokens=num_held,
            )
            before = end


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
    rows = None if setup.limits.num_rows == sys.maxsize else setup.limits.num_rows  # that is what no bound looks like
    match setup.kv:
        case CellsSetup(num_cells=num_cells, num_sequences=num_sequences):
            return RunLimits(rows, num_sequences, num_cells, "cells")
        case BlocksSetup(num_sequences=num_sequences):
            return RunLimits(rows, num_sequences, None, "blocks")
        case _:
            return RunLimits(rows, setup.kv.num_sequences, None, "places")
