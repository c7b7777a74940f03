"""ThreadLog: an observer that logs each change of the threads that compute, on the event loop."""

import asyncio
import logging

from arriero.core.ids import Time
from arriero.engine.handle import Result
from arriero.engine.observer import EngineSummary, StepRecord
from arriero.engine.thread_advisor import ShiftCause, ThreadShift

logger = logging.getLogger(__name__)


class ThreadLog:
    """One line a change; the engine's own thread formats and writes nothing."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Log on this loop."""
        self._loop = loop

    def on_start(self, at: Time) -> None:
        """Nothing has changed."""

    def on_step(self, record: StepRecord) -> None:
        """Tell what has changed, if anything has."""
        if record.shift is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(_tell, record.shift)

    def on_end(self, result: Result) -> None:
        """Nothing: requests do not choose threads."""

    def on_close(self, summary: EngineSummary) -> None:
        """Nothing more will change."""


def _tell(shift: ThreadShift) -> None:
    level = logging.INFO if shift.cause is ShiftCause.RETURNED else logging.WARNING
    logger.log(level, "threads: %s", shift.words)
