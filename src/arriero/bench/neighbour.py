"""BusyNeighbour: a process that keeps one CPU busy beside a server, as somebody else's program would.

It is gone when it is told to go, and when whoever started it is gone: its standard input is a pipe whose other end
only the starter has.
"""

import subprocess
import sys
import time
from typing import Final, NamedTuple

from arriero.bench.servers_usage import usage_of

_PROGRAM: Final = """
import os, sys, threading
def leave():
    sys.stdin.read()
    os._exit(0)
threading.Thread(target=leave, daemon=True).start()
while True:
    pass
"""


class Visit(NamedTuple):
    """One stretch of being busy."""

    seconds: float
    cpu_s: float | None  # that it got; None where the system does not say

    @property
    def cores(self) -> float | None:
        """CPUs that it had on average; below 1 where others wanted the same."""
        return None if self.cpu_s is None or self.seconds <= 0 else self.cpu_s / self.seconds


class BusyNeighbour:
    """One process at a time, started and stopped as often as wanted; whoever starts it stops it."""

    def __init__(self) -> None:
        """Nothing runs yet."""
        self._process: subprocess.Popen[bytes] | None = None
        self._began_at = 0.0

    def start(self) -> None:
        """Be busy from now on; nothing happens if it is already."""
        if self._process is not None:
            return
        self._began_at = time.monotonic()
        self._process = subprocess.Popen(  # noqa: S603 - fixed words
            [sys.executable, "-I", "-S", "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C reaches whoever measures, which then ends it
        )

    def stop(self) -> Visit | None:
        """Be busy no longer, and say how it went; None if it was not."""
        process, self._process = self._process, None
        if process is None:
            return None
        assert process.stdin is not None, "it is a pipe"
        usage = usage_of(process.pid)
        seconds = time.monotonic() - self._began_at
        process.kill()
        process.stdin.close()
        process.wait()
        return Visit(seconds, None if usage is None else usage.cpu_s)
