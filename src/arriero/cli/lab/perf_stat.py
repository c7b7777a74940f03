"""`arriero lab perf stat`: counters of whole invocations, those that a probe finds supported."""

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from arriero.cli.lab.perf_flags import run_parser, split_command
from arriero.cli.sources import LineParser
from arriero.core.errors import ConfigError

if TYPE_CHECKING:
    from arriero.lab.perf.tools import Tool
    from arriero.record.cpu_lab.perf_counters import Probe


def main(arguments: Sequence[str]) -> int:
    """Probe, count, and say what was counted.

    Raises:
        ConfigError: perf is not there, no event is supported, or a flag cannot work. DataError: see `run_profiler`.
    """
    words, command = split_command(arguments)
    flags = _parser().parse_args(words)
    from arriero.cli.lab.perf_run import prepare, run_profiler
    from arriero.lab.perf.stat_profiler import StatProfiler
    from arriero.lab.perf.tools import find_tool
    from arriero.record.cpu_lab.perf import PerfMode

    tool = find_tool("perf", flags.perf)
    prepared = prepare(flags, command, PerfMode.STAT, tool)
    probe = _probe(flags, tool)
    events = _wanted(flags, probe)
    settings = {"events": list(events), "left_out": _left_out(probe)}
    return run_profiler(flags, prepared, StatProfiler(tool, events), settings)


def _probe(flags: Namespace, tool: "Tool") -> "Probe":
    from arriero.cli.lab.results import tell
    from arriero.lab.perf.events import EVENTS
    from arriero.lab.perf.probe import probe_events

    events = tuple(dict.fromkeys(flags.events.split(","))) if flags.events else EVENTS
    tell(f"probing {len(events)} events")
    return probe_events(tool, events)


def _wanted(flags: Namespace, probe: "Probe") -> tuple[str, ...]:
    """Those that are supported; one that was asked for by name and is not is refused."""
    refused = [f"{each.event} is {each.kind} ({each.reason})" for each in probe.events if each.reason is not None]
    if flags.events and refused:
        raise ConfigError(f"--events: {'; '.join(refused)}; leave it out")
    return probe.supported


def _left_out(probe: "Probe") -> dict[str, str]:
    return {each.event: each.kind.value for each in probe.events if each.reason is not None}


def _parser() -> LineParser:
    says = (
        "Count events of whole invocations: start, loading, prefill and decode together. One warm-up without perf, "
        "then repetitions; whatever is not supported here is left out."
    )
    parser = run_parser("stat", says, repetitions=3)
    tool = parser.add_argument_group("tool")
    tool.add_argument("--events", metavar="LIST", help="only these (default: all that are supported of the usual 19)")
    tool.add_argument("--perf", metavar="PROGRAM", help="take this perf")
    return parser
