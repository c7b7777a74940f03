"""What an experiment is doing: a line that changes on a terminal, a line now and then anywhere else."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console

from arriero.cli.now_and_then import now_and_then


@contextmanager
def told(name: str, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> Generator[Callable[[str], None]]:
    """Give a function that takes what is being done now."""
    if not stream.isatty():
        say = now_and_then(stream, clock)
        yield lambda words: say(f"{name}: {words}")
        return
    with Console(file=stream).status(name) as line:
        yield lambda words: line.update(f"{name}: {words}")
