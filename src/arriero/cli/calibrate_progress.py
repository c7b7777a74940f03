"""How far a calibration has come: a bar on a terminal, a line now and then anywhere else."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from arriero.cli.now_and_then import now_and_then

_DRAWN_PER_S: Final = 2
"""Drawing takes time of the machine that is being measured."""


@contextmanager
def told(
    title: str, stream: TextIO, clock: Callable[[], float] = time.monotonic
) -> Generator[Callable[[float, str], None]]:
    """Give a function that takes the part of the time that is over, and what is being measured."""
    if not stream.isatty():
        say = now_and_then(stream, clock)
        yield lambda part, words: say(f"{title}: {part:.0%}, {words}")
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    shown = Progress(*columns, console=Console(file=stream), transient=True, auto_refresh=False)
    with shown:
        task = shown.add_task(title, total=1.0)
        drawn_at = clock()

        def tell(part: float, words: str) -> None:
            nonlocal drawn_at
            if clock() - drawn_at >= 1 / _DRAWN_PER_S:
                drawn_at = clock()
                shown.update(task, completed=part, description=f"{title}: {words}", refresh=True)

        yield tell
