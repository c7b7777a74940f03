"""What runs that take long show: how much of the simulated time has passed, or at least that they are alive."""

import sys
from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from typing import Final, TypeVar

from arriero.cli.progress import Progress

T = TypeVar("T")
PATIENCE_S: Final = 2.0
_EVERY: Final = 512  # rows between two looks at the clock


def watched(rows: Iterable[T], what: str) -> Iterator[T]:
    """Pass rows on; from the third second on, say that something happens, whether rows come or not.

    For runs that say nothing before their end.
    """
    with Progress(f"simulating {what}"):
        yield from rows


def tracked(rows: Iterable[T], what: str, total_us: int, time_of: Callable[[T], int | None]) -> Iterator[T]:
    """Pass rows on; after two seconds show how far the virtual clock has come.

    Args:
        rows: anything.
        what: the name of the run.
        total_us: about when the simulated time ends.
        time_of: where the clock stands at a row, or None.
    """
    began_at = monotonic()
    bar: _Bar | None = None
    reached = 0
    try:
        for number, row in enumerate(rows):
            yield row
            reached = max(reached, time_of(row) or 0)
            if number % _EVERY or not sys.stderr.isatty():
                continue
            if bar is None and monotonic() - began_at > PATIENCE_S:
                bar = _Bar(what, total_us)
            if bar is not None:
                bar.move(min(reached, total_us))
    finally:
        if bar is not None:
            bar.stop()


class _Bar:
    """A bar on standard error that is wiped at the end."""

    def __init__(self, what: str, total: int) -> None:
        from rich.console import Console
        from rich.progress import Progress

        self._progress = Progress(console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task(what, total=total)
        self._progress.start()

    def move(self, reached: int) -> None:
        self._progress.update(self._task, completed=reached)

    def stop(self) -> None:
        self._progress.stop()
