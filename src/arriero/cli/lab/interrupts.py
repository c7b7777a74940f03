"""A polite request to end, told as Ctrl-C is, and what a run leaves that can be gone on with."""

import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from arriero.cli.lab.results import tell


@contextmanager
def ended_as_interrupt() -> Generator[None]:
    """Raise KeyboardInterrupt on SIGTERM for the length of a block.

    Programs that measure have a session of their own, so nobody else ends them: without this a measurement that was
    asked to end would leave one behind, which keeps computing beside whatever is measured next.
    """
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def resumable(folder: Path) -> Generator[None]:
    """A run that keeps what has ended in a folder: whoever interrupts it is told how it goes on."""
    with ended_as_interrupt():
        try:
            yield
        except KeyboardInterrupt:
            tell(f"stopped: what has ended is in {folder}; --resume goes on")
            raise


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
