"""StatProfiler: counters of a whole invocation, by `perf stat`."""

from collections.abc import Sequence
from typing import Final

from arriero.core.errors import ConfigError
from arriero.lab.perf.profiler import Reading, Scratch
from arriero.lab.perf.stat_csv import SEPARATOR, parse_stat
from arriero.lab.perf.target import Target
from arriero.lab.perf.tools import Tool, privileges_remedy
from arriero.record.cpu_lab.perf import PerfMode

_FILE: Final = "stat.csv"


class StatProfiler:
    """Counts some events together; more than there are hardware counters take turns, and perf says how long."""

    def __init__(self, tool: Tool, events: Sequence[str]) -> None:
        """Take perf and events that a probe found supported.

        Raises:
            ConfigError: no event.
        """
        if not events:
            raise ConfigError("no event is supported here; see `arriero lab perf probe`, or use callgrind")
        self._tool = tool
        self._events = tuple(events)

    @property
    def mode(self) -> PerfMode:
        """Counting."""
        return PerfMode.STAT

    def command(self, target: Target, scratch: Scratch) -> tuple[str, ...]:
        """`perf stat` into a file of its own, so that the target's words stay apart."""
        written = str(scratch.folder / _FILE)
        words = (self._tool.path, "stat", "-x", SEPARATOR, "-o", written, "-e", ",".join(self._events))
        return (*words, "--", *target.command)

    def wrote(self, scratch: Scratch) -> bool:
        """Whether there are lines of counters."""
        return any(line[:1] not in {"", "#"} for line in scratch.text(_FILE).splitlines())

    def remedy(self, stderr: str) -> str | None:
        """Privileges, where the kernel refuses."""
        return privileges_remedy(stderr)

    def read(self, scratch: Scratch) -> Reading:
        """All counters.

        Raises:
            DataError: see `parse_stat`.
        """
        return Reading(counters=parse_stat(scratch.text(_FILE), file="perf stat"))
