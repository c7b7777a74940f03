"""What an experiment is doing: a line that changes on a terminal, a line now and then anywhere else."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final, TextIO

from rich.console import Console

EVERY_S: Final = 10.0


@contextmanager
def told(name: str, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> Generator[Callable[[str], None]]:
    """Give a function that takes what is being done now."""
    if not stream.isatty():
        yield _lines(name, stream, clock)
        return
    with Console(file=stream).status(name) as line:
        yield lambda words: line.update(f"{name}: {words}")


def _lines(name: str, stream: TextIO, clock: Callable[[], float]) -> Callable[[str], None]:
    told_at = clock() - EVERY_S

    def tell(words: str) -> None:
        nonlocal told_at
        if clock() - told_at >= EVERY_S:
            told_at = clock()
            stream.write(f"{name}: {words}\n")
            stream.flush()

    return tell
