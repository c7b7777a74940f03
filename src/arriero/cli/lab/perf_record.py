"""`arriero lab perf record`: samples by function of whole invocations, and stacks for a flame graph."""

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from arriero.cli.lab.perf_flags import run_parser, split_command
from arriero.cli.sources import LineParser
from arriero.core.errors import ConfigError

if TYPE_CHECKING:
    from arriero.lab.perf.tools import Tool
    from arriero.record.cpu_lab.perf_attribution import Measure

_AUTO: Final = "auto"


def main(arguments: Sequence[str]) -> int:
    """Sample, and say where the time went.

    Raises:
        ConfigError: perf is not there, it may not sample, or a flag cannot work. DataError: see `run_profiler`.
    """
    words, command = split_command(arguments)
    flags = _parser().parse_args(words)
    from arriero.cli.lab.perf_run import prepare, run_profiler
    from arriero.cli.lab.results import tell
    from arriero.lab.perf.sample_profiler import FREQUENCY_HZ, SampleProfiler
    from arriero.lab.perf.tools import find_tool
    from arriero.record.cpu_lab.perf import PerfMode
    from arriero.record.cpu_lab.perf_attribution import CallGraph

    tool = find_tool("perf", flags.perf)
    prepared = prepare(flags, command, PerfMode.RECORD, tool)
    measure = _measure(flags, tool)
    objdump = _objdump()
    if objdump is None:
        tell("objdump is not there: functions without a name stay unresolved; install binutils")
    graph = CallGraph(flags.call_graph)
    settings = {"event": measure.value, "call_graph": graph.value, "frequency_hz": FREQUENCY_HZ}
    return run_profiler(flags, prepared, SampleProfiler(tool, objdump, measure, graph), settings)


def _measure(flags: Namespace, tool: "Tool") -> "Measure":
    """Cycles where the machine counts them, the kernel's clock elsewhere."""
    from arriero.lab.perf.probe import probe_events
    from arriero.record.cpu_lab.perf_attribution import Measure

    choices = (Measure.CYCLES, Measure.CPU_CLOCK) if flags.event == _AUTO else (Measure(flags.event),)
    probe = probe_events(tool, choices)
    if not probe.supported:
        reasons = "; ".join(f"{each.event} is {each.kind} ({each.reason})" for each in probe.events)
        raise ConfigError(f"{reasons}; see docs/lab/profiling-setup.md, or use `arriero lab perf callgrind`")
    return Measure(probe.supported[0])


def _objdump() -> "Tool | None":
    from arriero.lab.perf.tools import find_tool

    try:
        return find_tool("objdump")
    except ConfigError:
        return None


def _parser() -> LineParser:
    says = (
        "Sample who is running, 99 times a second, with stacks: by cycles where the machine counts them, by the "
        "kernel's clock elsewhere."
    )
    parser = run_parser("record", says, repetitions=1)
    tool = parser.add_argument_group("tool")
    tool.add_argument("--event", choices=[_AUTO, "cycles", "cpu-clock"], default=_AUTO, help="(default: %(default)s)")
    tool.add_argument(
        "--call-graph", choices=["dwarf", "fp", "none"], default="dwarf",
        help="how callers are found; fp needs libraries with frame pointers (default: %(default)s)",
    )  # fmt: skip
    tool.add_argument("--perf", metavar="PROGRAM", help="take this perf")
    return parser
