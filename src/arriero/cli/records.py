"""What is written down while a server runs: diagnostics rows, journal and lifecycle trace, each only if asked for."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from arriero.backend.protocol import BackendLimits
from arriero.core.config import ServeConfig
from arriero.engine.diagnostics import Diagnostics
from arriero.engine.journal import Journal
from arriero.engine.observer import Observer
from arriero.engine.options import EngineOptions
from arriero.engine.trace import Tracer
from arriero.http.request_log import RequestLog
from arriero.record.diagnostics import RequestRows, gap_line
from arriero.record.journal import JournalLines
from arriero.record.lines import STANDARD_ERROR, LineWriter
from arriero.record.trace import trace_gap_line


@dataclass(frozen=True, slots=True)
class Records:
    """Who writes; nobody, if nothing was asked for.

    Attributes:
        observers: of the engine.
        request_log: of HTTP.
    """

    observers: tuple[Observer, ...] = ()
    request_log: RequestLog | None = None


@contextmanager
def open_records(config: ServeConfig, limits: BackendLimits, options: EngineOptions) -> Generator[Records]:
    """Open what the configuration asks for; everything is on disk when the block ends. The engine must end inside it.

    The trace goes to standard error. `limits` are those of the engine's backend, `options` its own.

    Raises:
        ConfigError: a file cannot be written.
    """
    observers: list[Observer] = []
    request_log: RequestLog | None = None
    with ExitStack() as writers:
        if config.diagnostics is not None:
            rows = writers.enter_context(LineWriter.to_path(config.diagnostics, gap_line, option="--diagnostics"))
            observers.append(Diagnostics(rows))
            request_log = RequestRows(rows)
        if config.journal is not None:
            journal = JournalLines()
            sink = writers.enter_context(LineWriter.to_path(config.journal, journal.gap, option="--journal"))
            observers.append(Journal(sink, journal, limits, options))
        if config.trace:
            lines = writers.enter_context(LineWriter.to_path(STANDARD_ERROR, trace_gap_line, option="--trace"))
            observers.append(Tracer(lines, pool=config.placement.value, checks_siblings=config.check))
        yield Records(tuple(observers), request_log)
