"""`arriero lab machine`: facts, warnings and measured ceilings of this machine."""

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from arriero.cli.quiet import busy_or_refused
from arriero.cli.simulation.output import ROOT, add_force, new_file, require_absent
from arriero.cli.sources import LineParser, make_parser
from arriero.core.errors import ConfigError
from arriero.core.option_kinds import BadValue, Numbers

if TYPE_CHECKING:
    from arriero.record.cpu_lab.machine_result import MachineResult

DEFAULT_OUT: Final = f"{ROOT}/lab/machine.json"


def main(arguments: Sequence[str]) -> int:
    """Look, measure, write, show.

    Raises:
        ConfigError: the machine is busy, a file exists already, or the programs cannot be built.
    """
    flags = _parser().parse_args(arguments)
    from arriero.cli.lab.machine_view import machine_lines
    from arriero.record.cpu_lab.machine_result import encode_machine

    out, threads = _out(flags), _threads(flags)
    result = _measure(flags, threads)
    data = encode_machine(result)
    # the one below .artifacts/ is of this machine now, so the newer one takes its place
    with new_file(out, force=flags.force or flags.out is None) as file:
        file.write(data)
    if flags.report is not None:
        _report(result, flags)
    if flags.json:
        print(data.decode(), end="")
    else:
        print("\n".join(machine_lines(result)))
    print(f"{out}: written", file=sys.stderr)
    return 0


def _measure(flags: Namespace, threads: tuple[int, ...] | None) -> "MachineResult":
    from arriero.lab.machine.survey import default_probe, survey

    remedy = "use --facts, or --busy-ok for doubtful ceilings"
    busy = None if flags.facts else busy_or_refused(remedy, busy_ok=flags.busy_ok)
    return survey(
        None if flags.facts else default_probe(),
        quick=flags.quick,
        threads=threads,
        busy=busy,
        tell=lambda line: print(f"  {line}", file=sys.stderr),
    )


def _report(result: "MachineResult", flags: Namespace) -> None:
    from arriero.report.cpu_lab.folder import write_report
    from arriero.report.cpu_lab.machine_document import machine_document

    paths = write_report(machine_document(result), (), Path(flags.report), force=flags.force)
    print(f"{paths[0]}: written", file=sys.stderr)


def _out(flags: Namespace) -> Path:
    """Where to write; refused before anything is measured."""
    if flags.out is None:
        return Path(DEFAULT_OUT)
    path = Path(flags.out)
    require_absent([path], force=flags.force)
    return path


def _threads(flags: Namespace) -> tuple[int, ...] | None:
    if flags.threads is None:
        return None
    try:
        return tuple(Numbers(1).parse(flags.threads))
    except BadValue as error:
        raise ConfigError(f"--threads {flags.threads}: {error}") from None


def _parser() -> LineParser:
    parser = make_parser(
        "lab machine",
        "Facts about this machine, warnings with their remedy, and what its memory and arithmetic can do at most. "
        "The fingerprint is the word by which results of one machine and one build are known.",
    )
    parser.add_argument("--facts", action="store_true", help="facts and warnings alone; takes a second")
    parser.add_argument("--quick", action="store_true", help="short and small, to see that it works")
    parser.add_argument(
        "--threads", metavar="LIST", help="numbers of threads, such as 1,2 (default: powers of two, all)"
    )
    parser.add_argument("--busy-ok", action="store_true", help="measure beside busy processes; the result says so")
    parser.add_argument("--out", metavar="FILE", help=f"the result as JSON (default: {DEFAULT_OUT})")
    parser.add_argument("--report", metavar="FOLDER", help="write a report there too, as Markdown and as a page")
    parser.add_argument("--json", action="store_true", help="print the result as JSON instead of tables")
    add_force(parser)
    return parser
