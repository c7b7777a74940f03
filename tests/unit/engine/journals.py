"""Engines that keep a journal, for tests of what comes of it."""

import io
from collections.abc import Callable, Iterable, Sequence

from arriero.backend.protocol import Backend
from arriero.engine.engine import Engine
from arriero.engine.journal import Journal
from arriero.engine.observer import Observer, StepRecord
from arriero.engine.options import EngineOptions
from arriero.metrics.explain_shares import Shares
from arriero.record.journal import JournalLines, JournalStep
from arriero.record.journal_reader import read_lines
from arriero.record.journal_schema import StartRecord
from arriero.record.lines import LineWriter, Render
from arriero.report.explain_journal import ExplainedRun, JournalFold, shares_of
from tests.unit.engine.driving import StepLog


class KeptFile(io.BytesIO):
    """A file whose bytes can be read after it was closed."""

    content = b""

    def close(self) -> None:
        if not self.closed:
            self.content = self.getvalue()
        super().close()


class JournalFile:
    """A journal in memory, written by a thread as for a server."""

    def __init__(self, backend: Backend, options: EngineOptions, *, capacity: int = 100_000) -> None:
        self._lines = lines = JournalLines()
        self._file = KeptFile()
        self._writer = LineWriter(self._file, lines.gap, capacity=capacity)
        self.observer = Journal(self._writer, lines, backend.limits, options)

    def put(self, render: Render) -> None:
        """Give the writer something else to do."""
        assert self._writer.put(render, keep=True)

    def break_once(self) -> None:
        """The first step's line cannot be made."""
        whole = self._lines.step

        def step(step: JournalStep, *, missing: int = 0) -> list[bytes]:
            self._lines.step = whole  # type: ignore[method-assign] # put back what was there
            raise ZeroDivisionError(f"{step.began_at} {missing}")

        self._lines.step = step  # type: ignore[method-assign] # a mistake of ours, made on purpose

    def lines(self) -> list[bytes]:
        """Everything, once the engine has ended."""
        self._writer.close()
        return self._file.content.splitlines(keepends=True)


class AtEachStep(StepLog):
    """An observer that does something at the end of each step, where the engine runs.

    Attributes:
        cancel: how to cancel a request, for those who need an engine that is made after its observers.
    """

    def __init__(self, act: Callable[[StepRecord], None]) -> None:
        super().__init__()
        self._act = act
        self.cancel: Callable[[int], None] = _cancel_nobody

    def on_step(self, record: StepRecord) -> None:
        self._act(record)


def explained(lines: Iterable[bytes], shares: Shares | None = None) -> ExplainedRun:
    """The requests of a journal of one run; `shares` divide its steps, or what the journal says of costs."""
    records = (line.record for line in read_lines(lines))
    start = next(records)
    assert isinstance(start, StartRecord)
    fold = JournalFold(start.time_line, shares_of(start) if shares is None else shares)
    for record in records:
        fold.follow(record)
    return fold.explained("live")


def _cancel_nobody(request_id: int) -> None:
    del request_id


def engine_with_journal(
    backend: Backend, options: EngineOptions, observers: Sequence[Observer] = ()
) -> tuple[Engine, JournalFile]:
    """An engine that was not started yet, and its journal."""
    journal = JournalFile(backend, options)
    return Engine(backend, options, observers=[journal.observer, *observers]), journal
