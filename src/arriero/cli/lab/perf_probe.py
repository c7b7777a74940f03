"""`arriero lab perf probe`: which of the events this machine can count, each tried alone with a trivial program."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from arriero.cli.lab.flag_values import flag_value
from arriero.cli.sources import LineParser, make_parser
from arriero.core.errors import ConfigError
from arriero.core.option_kinds import Whole

_QUICK_TRIES: Final = 1


def main(arguments: Sequence[str]) -> int:
    """Probe, and say what each event can do.

    Raises:
        ConfigError: a flag cannot work, or the result exists already.
    """
    flags = _parser().parse_args(arguments)
    from arriero.cli.lab.perf_lines import probe_lines
    from arriero.cli.simulation.output import require_absent, write_text
    from arriero.lab.perf.events import EVENTS
    from arriero.lab.perf.probe import probe_events
    from arriero.lab.perf.tools import find_tool, perf_event_paranoid
    from arriero.record.cpu_lab.perf_counters import Probe

    if flags.out is not None:
        require_absent([Path(flags.out)], force=flags.force)
    tries = _QUICK_TRIES if flags.quick else flag_value("--tries", flags.tries, Whole(1, 100))
    events = tuple(dict.fromkeys(flags.events.split(","))) if flags.events else EVENTS
    try:
        probe = probe_events(find_tool("perf", flags.perf), events, tries=tries)
    except ConfigError as error:  # no perf is an answer too
        probe = Probe(tool=None, paranoid=perf_event_paranoid(), events=(), reason=str(error))
    text = (msgspec.json.format(msgspec.json.encode(probe), indent=2) + b"\n").decode()
    if flags.out is not None:
        write_text(Path(flags.out), text, force=flags.force)
    for line in text.splitlines() if flags.json else probe_lines(probe):
        print(line)
    return 0 if probe.supported else 1


def _parser() -> LineParser:
    parser = make_parser(
        "lab perf probe",
        "Try every event alone with a trivial program: supported, unsupported, permission denied, unavailable, or "
        "noisy or unreliable. Status 1: none is supported.",
    )
    parser.add_argument("--events", metavar="LIST", help="names of perf's, with commas between (default: the usual 19)")
    parser.add_argument("--tries", metavar="N", default="3", help="of each event (default: %(default)s)")
    parser.add_argument("--perf", metavar="PROGRAM", help="take this perf")
    parser.add_argument("--out", metavar="FILE", help="write the result as JSON")
    parser.add_argument("--force", action="store_true", help="replace an --out that exists")
    parser.add_argument("--quick", action="store_true", help="one try of each")
    parser.add_argument("--json", action="store_true", help="print it as JSON")
    return parser
