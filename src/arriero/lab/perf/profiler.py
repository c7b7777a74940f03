"""Profiler: a tool around a program, and what can be read afterwards."""

from pathlib import Path
from typing import NamedTuple, Protocol

from arriero.lab.perf.target import Target
from arriero.record.cpu_lab.perf import WHOLE, PerfMode
from arriero.record.cpu_lab.perf_attribution import Attribution
from arriero.record.cpu_lab.perf_counters import Counter


class Scratch(NamedTuple):
    """Where a tool may write."""

    folder: Path  # removed after the invocation
    kept: Path  # of the run; for files that a record names
    stem: str  # unique among the invocations of the run; a name for kept files

    def text(self, name: str) -> str:
        """What the tool wrote into a file of that name in its folder; nothing if it wrote none."""
        path = self.folder / name
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


class Reading(NamedTuple):
    """What a tool found out."""

    counters: tuple[Counter, ...] = ()
    attribution: Attribution | None = None
    scope: str = WHOLE  # the part of the program that the figures are about


class Profiler(Protocol):
    """One way to look at a program from outside."""

    @property
    def mode(self) -> PerfMode:
        """What is asked of the tool."""
        ...

    def command(self, target: Target, scratch: Scratch) -> tuple[str, ...]:
        """The words that start the target under the tool."""
        ...

    def wrote(self, scratch: Scratch) -> bool:
        """Whether the tool came so far as to start the target: then a failure is the target's."""
        ...

    def remedy(self, stderr: str) -> str | None:
        """What to do about a failure, if the tool's words on standard error tell."""
        ...

    def read(self, scratch: Scratch) -> Reading:
        """What it found out.

        Raises:
            DataError: what it wrote is not understood. ConfigError: a part of the tool fails.
        """
        ...
