"""LineWriter: lines of text into a file or standard error, from a thread of its own.

Whoever puts something in never waits for the disk, and does not even pay for making the text: what is queued is a
function that gives the lines. The queue is bounded. When it is full, entries are dropped and counted, and a gap line
says so at their place, so that a reader knows what the figures around it are worth.
"""

import logging
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Protocol, Self, TypeAlias

from arriero.core.errors import ConfigError

logger = logging.getLogger(__name__)

STANDARD_ERROR: Final = "-"
"""The path that means standard error."""

DEFAULT_CAPACITY: Final = 4096
"""Entries that may wait to be written."""

Render: TypeAlias = Callable[[], Iterable[bytes]]
"""Gives lines without their line ends; called at most once, on the writer's thread."""


class LineSink(Protocol):
    """Where lines go."""

    def put(self, render: Render, *, keep: bool = False) -> bool:
        """Take lines to be made later, in order; False if they were dropped. Never waits.

        Args:
            render: makes them.
            keep: do not drop these because the queue is full; for the few that a reader cannot do without.
        """
        ...


class LineList:
    """Keeps lines in memory; makes them at once, on the caller's thread."""

    def __init__(self) -> None:
        """Start empty."""
        self.lines: list[bytes] = []

    def put(self, render: Render, *, keep: bool = False) -> bool:
        """Make the lines and keep them."""
        del keep  # nothing is ever dropped here
        self.lines.extend(render())
        return True


@dataclass(frozen=True, slots=True)
class LineCounts:
    """How a writer was used.

    Attributes:
        written: lines handed to the file, gap lines included.
        dropped: entries that came when the queue was full, or after the end.
        failed: entries whose lines could not be made or not be written.
    """

    written: int
    dropped: int
    failed: int


class LineWriter:
    """Many producers on any thread, one writing thread."""

    def __init__(
        self,
        file: BinaryIO,
        gap_line: Callable[[int], bytes],
        *,
        capacity: int = DEFAULT_CAPACITY,
        close_file: bool = True,
    ) -> None:
        """Start the thread; the file belongs to it from now on.

        Args:
            file: open for writing.
            gap_line: the line that says how many entries are missing.
            capacity: entries that may wait, at least 1.
            close_file: close the file at the end.
        """
        self._file = file
        self._gap_line = gap_line
        self._capacity = capacity
        self._close_file = close_file
        self._changed = threading.Condition()
        self._queue: deque[Render] = deque()
        self._num_missing = 0  # dropped since the last gap line
        self._is_closed = False
        self._is_broken = False
        self._counts = {"written": 0, "dropped": 0, "failed": 0}
        # a daemon: a process that ends without `close` loses the last lines and does not hang
        self._thread = threading.Thread(target=self._run, name="arriero-lines", daemon=True)
        self._thread.start()

    @classmethod
    def to_path(cls, path: str, gap_line: Callable[[int], bytes], *, option: str) -> Self:
        """Append to a file, or write to standard error for `-`.

        Raises:
            ConfigError: the file cannot be written; names `option`, the flag that named it.
        """
        if path == STANDARD_ERROR:
            return cls(sys.stderr.buffer, gap_line, close_file=False)
        try:
            torn = _ends_within_a_line(Path(path))
            file = Path(path).open("ab")  # noqa: SIM115 - the writing thread closes it
        except OSError as error:
            message = f"{option} {path}: cannot be written ({error.strerror}); name a file in a folder that exists"
            raise ConfigError(message) from error
        if torn:
            file.write(b"\n")
        return cls(file, gap_line)

    @property
    def counts(self) -> LineCounts:
        """How it was used so far."""
        with self._changed:
            return LineCounts(**self._counts)

    def put(self, render: Render, *, keep: bool = False) -> bool:
        """Take lines to be made later, in order; False if they were dropped. Never waits for the file."""
        with self._changed:
            is_full = len(self._queue) >= self._capacity and not keep
            if self._is_closed or is_full:
                self._counts["dropped"] += 1
                self._num_missing += 1
                return False
            self._note_gap()
            self._queue.append(render)
            self._changed.notify()
            return True

    def close(self) -> None:
        """Write what was taken, flush, and end the thread; closing again does nothing."""
        with self._changed:
            if not self._is_closed:
                self._note_gap()
            self._is_closed = True
            self._changed.notify()
        self._thread.join()

    def __enter__(self) -> Self:
        """Write for the length of a block."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """Close."""
        self.close()

    def _note_gap(self) -> None:
        """Say where entries are missing; the lock is held."""
        if self._num_missing:
            self._queue.append(partial(_one_line, self._gap_line, self._num_missing))
            self._num_missing = 0

    # ── the writing thread ──────────────────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        while (render := self._take()) is not None:
            lines = self._make(render)
            self._write(b"".join(line + b"\n" for line in lines), len(lines))
        if self._close_file:
            self._guard(self._file.close)

    def _take(self) -> Render | None:
        """The next entry; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._queue) or self._is_closed)
            return self._queue.popleft() if self._queue else None

    def _make(self, render: Render) -> list[bytes]:
        try:
            return list(render())
        except Exception:
            if not self._counts["failed"]:
                logger.exception("lines of a record could not be made and are left out; later ones are only counted")
            self._count(failed=1)
            return []

    def _write(self, data: bytes, num_lines: int) -> None:
        if not data:
            return
        if not self._is_broken:
            self._guard(partial(self._file.write, data))
        if not self._is_broken and not self._queue:
            self._guard(self._file.flush)  # whoever follows the file sees it as soon as there is nothing better to do
        self._count(**({"failed": 1} if self._is_broken else {"written": num_lines}))

    def _guard(self, act: Callable[[], object]) -> None:
        """Do something with the file; after the first error it is left alone."""
        try:
            act()
        except (OSError, ValueError) as error:  # ValueError: closed by somebody else
            self._is_broken = True
            logger.error("records cannot be written any more: %s", error)  # noqa: TRY400 - a full disk needs no trace

    def _count(self, **more: int) -> None:
        with self._changed:
            for name, number in more.items():
                self._counts[name] += number


def _one_line(make: Callable[[int], bytes], number: int) -> tuple[bytes]:
    return (make(number),)


def _ends_within_a_line(path: Path) -> bool:
    """Whether an earlier process died while it wrote the last line."""
    if not path.is_file() or not path.stat().st_size:
        return False
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read(1) != b"\n"
