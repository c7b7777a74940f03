"""SampleProfiler: who was running, asked 99 times a second, by `perf record`.

99 and not 100, so that the samples do not fall into step with whatever happens 100 times a second. The raw file is
read three times and then removed: maps and stacks for the flame graph, rows for the attribution.
"""

from pathlib import Path
from typing import Final

from arriero.lab.perf.attribution import Label, attribution, base_names, report_parts
from arriero.lab.perf.folded import fold, nameless_callers
from arriero.lab.perf.functions import Tables, function_tables
from arriero.lab.perf.kept_stacks import keep_stacks
from arriero.lab.perf.profiler import Reading, Scratch
from arriero.lab.perf.report_text import FIELDS as REPORT_FIELDS
from arriero.lab.perf.report_text import SEPARATOR, parse_report
from arriero.lab.perf.script_text import FIELDS as SCRIPT_FIELDS
from arriero.lab.perf.script_text import parse_script
from arriero.lab.perf.target import Target
from arriero.lab.perf.tools import Tool, ask, privileges_remedy
from arriero.record.cpu_lab.perf import PerfMode
from arriero.record.cpu_lab.perf_attribution import CallGraph, Measure

FREQUENCY_HZ: Final = 99
_FILE: Final = "perf.data"
_PATIENCE_S: Final = 600.0
_CLOCK_NOTE: Final = (
    "cpu-clock samples, since this machine has no counter of cycles for us: shares of time by the kernel's timer, "
    "blind inside of code that runs with interrupts off"
)


class SampleProfiler:
    """Samples by cycles where the machine counts them, by the kernel's clock elsewhere."""

    def __init__(self, tool: Tool, objdump: Tool | None, measure: Measure, call_graph: CallGraph) -> None:
        """Take perf, a reader of nameless functions or None, and what to sample by."""
        self._tool = tool
        self._objdump = objdump
        note = "" if measure is Measure.CYCLES else _CLOCK_NOTE
        self._label = Label(measure, call_graph, note)

    @property
    def mode(self) -> PerfMode:
        """Sampling."""
        return PerfMode.RECORD

    def command(self, target: Target, scratch: Scratch) -> tuple[str, ...]:
        """`perf record`, without its cache of files below the home folder."""
        graph = self._label.call_graph
        stacks = () if graph is CallGraph.NONE else ("--call-graph", graph.value)
        words = (self._tool.path, "record", "-N", "-F", str(FREQUENCY_HZ), "-e", self._label.measure.value, *stacks)
        return (*words, "-o", str(_written(scratch)), "--", *target.command)

    def wrote(self, scratch: Scratch) -> bool:
        """Whether there is a file of samples."""
        path = _written(scratch)
        return path.is_file() and path.stat().st_size > 0

    def remedy(self, stderr: str) -> str | None:
        """Privileges, where the kernel refuses."""
        return privileges_remedy(stderr)

    def read(self, scratch: Scratch) -> Reading:
        """Rows and stacks.

        Raises:
            DataError: what perf prints is not understood. ConfigError: perf cannot read its own file.
        """
        data = str(_written(scratch))
        common = ("--no-inline", "-i", data)
        told = ask(
            (self._tool.path, "script", *common, "--show-mmap-events", "-F", SCRIPT_FIELDS), timeout_s=_PATIENCE_S
        )
        script = parse_script(told, file="perf script")
        paths = {name: Path(path) for name, path in base_names(script.files).items()}
        tables: Tables = function_tables(self._objdump, paths)
        # without a limit: many small rows may belong to one nameless function
        options = ("--stdio", "--no-children", "--percent-limit", "0", "-g", "none", "-t", SEPARATOR)
        rows = ask((self._tool.path, "report", *common, *options, "-F", REPORT_FIELDS), timeout_s=_PATIENCE_S)
        report = parse_report(rows, file="perf report")
        stacks = None if self._label.call_graph is CallGraph.NONE else fold(script.stacks, tables)
        kept = None if stacks is None else keep_stacks(stacks, scratch)
        found = attribution(
            report_parts(report, tables),
            self._label,
            total=report.samples,
            lost=report.lost,
            stacks=kept,
            callers={} if stacks is None else nameless_callers(stacks),
        )
        return Reading(attribution=found)


def _written(scratch: Scratch) -> Path:
    return scratch.folder / _FILE
