"""A little process that starts one server and makes sure of its end: `python -m arriero.bench.servers_guard ...`.

Whoever measures may die without a word: killed, out of memory, its terminal closed. A server that is its child would
stay, hold the port and the memory, and spoil the next measurement. So the server is the child of this process, which
holds the reading end of a pipe whose other end only the measurer has. The pipe closes when the measurer asks for it
and when it is gone, whatever the reason, and then the server's whole process group is stopped: by SIGTERM, and after
a time of grace by SIGKILL.

Both processes lead groups of their own, so Ctrl-C in a terminal reaches the measurer alone, which then ends them in
order. Only POSIX has process groups.

    arguments: LOG GRACE_S WORD...
    standard input: the pipe; nothing is ever written to it
    standard output: one JSON line at the start, `{"pid": N}` or `{"error": TEXT}`, and one at the end,
        `{"how": HOW, "status": N}` with a negative number for a signal
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Final

EXIT_OK: Final = 0
EXIT_NOT_STARTED: Final = 127
_PIPE: Final = 0


class HowEnded(StrEnum):
    """Why a server is gone."""

    EXITED = "exited"  # by itself, which nobody asked for
    TERMINATED = "terminated"  # as asked, by SIGTERM
    KILLED = "killed"  # it did not obey in time


class Guarded:
    """A running server and the one way to end it; `wait` belongs to the main thread, `stop` to any other."""

    def __init__(self, process: "subprocess.Popen[bytes]", grace_s: float) -> None:
        """Guard a process that leads a group of its own."""
        self._process = process
        self._grace_s = grace_s
        self._is_over = threading.Event()
        self.how = HowEnded.EXITED

    def pass_on(self, number: int) -> None:
        """Send the whole group a signal; nothing happens if it is gone."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def stop(self) -> None:
        """SIGTERM, then SIGKILL; returns when the server is gone or was killed."""
        self.how = HowEnded.TERMINATED
        self.pass_on(signal.SIGTERM)
        if not self._is_over.wait(self._grace_s):
            self.how = HowEnded.KILLED
            self.pass_on(signal.SIGKILL)

    def wait(self) -> int:
        """Wait for the end; what the server left behind in its group ends with it."""
        status = self._process.wait()
        self._is_over.set()
        self.pass_on(signal.SIGKILL)
        return status


def main(arguments: Sequence[str]) -> int:
    """Start, guard, tell."""
    log, grace_s, *words = arguments
    try:
        process = _start(Path(log), words)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        _tell(error=reason)
        return EXIT_NOT_STARTED
    guarded = Guarded(process, float(grace_s))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda which, _frame: guarded.pass_on(which))
    _tell(pid=process.pid)
    threading.Thread(target=_stop_at_the_end_of_the_pipe, args=(guarded,), daemon=True).start()
    status = guarded.wait()
    _tell(how=guarded.how, status=status)
    return EXIT_OK


def _start(log: Path, words: Sequence[str]) -> "subprocess.Popen[bytes]":
    with log.open("ab") as out:
        return subprocess.Popen(  # noqa: S603 - the words are the user's own command
            words, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )


def _stop_at_the_end_of_the_pipe(guarded: Guarded) -> None:
    # os.read and not sys.stdin: a daemon thread inside a buffered reader upsets the interpreter at its end.
    while os.read(_PIPE, 1):
        continue
    guarded.stop()


def _tell(**what: str | int) -> None:
    # The measurer may be gone already; then nobody wants to know.
    with suppress(OSError):
        os.write(1, json.dumps(what, sort_keys=True).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
