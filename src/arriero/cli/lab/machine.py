"""`arriero lab machine`: facts, warnings and measured ceilings of this machine."""

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from arriero.cli.lab.flag_values import flag_value
from arriero.cli.lab.results import TEXT, require_no_report, tell, write_folder
from arriero.cli.quiet import busy_or_refused
from arriero.cli.simulation.output import ROOT, add_force, new_file, require_absent
from arriero.cli.sources import LineParser, make_parser
from arriero.core.errors import ConfigError
from arriero.core.option_kinds import Numbers

if TYPE_CHECKING:
    from arriero.record.cpu_lab.machine_result import MachineResult

DEFAULT_OUT: Final = f"{ROOT}/lab/machine.json"


def main(arguments: Sequence[str]) -> int:
    """Look, measure, write, show; or show and report what an earlier file says.

    Raises:
        ConfigError: the machine is busy, a file exists already, or the programs cannot be built. DataError: a damaged
            `--from`.
    """
    flags = _parser().parse_args(arguments)
    from arriero.cli.lab.machine_view import machine_lines
    from arriero.record.cpu_lab.machine_result import encode_machine

    if flags.report is not None:
        require_no_report(Path(flags.report), force=flags.force)
    result = _measured(flags) if flags.source is None else _read(flags)
    if flags.report is not None:
        _report(result, Path(flags.report), force=flags.force)
    if flags.json:
        print(encode_machine(result).decode(), end="")
    else:
        print("\n".join(machine_lines(result)))
    return 0


def _measured(flags: Namespace) -> "MachineResult":
    """The result, which is in its file too."""
    from arriero.lab.machine.survey import default_probe, survey
    from arriero.record.cpu_lab.machine_result import encode_machine

    out = _out(flags)
    threads = None if flags.threads is None else flag_value("--threads", flags.threads, Numbers(1))
    remedy = "use --facts, or --busy-ok for doubtful ceilings"
    busy = None if flags.facts else busy_or_refused(remedy, busy_ok=flags.busy_ok)
    result = survey(None if flags.facts else default_probe(), quick=flags.quick, threads=threads, busy=busy, tell=tell)
    # the one below .artifacts/ is of this machine now, so the newer one takes its place
    with new_file(out, force=flags.force or flags.out is None) as file:
        file.write(encode_machine(result))
    print(f"{out}: written", file=sys.stderr)
    return result


def _read(flags: Namespace) -> "MachineResult":
    from arriero.record.cpu_lab.machine_result import read_machine

    if flags.out is not None:
        raise ConfigError("--out: nothing is measured with --from, so there is no file to write; leave it out")
    return read_machine(Path(flags.source))


def _report(result: "MachineResult", folder: Path, *, force: bool) -> None:
    from arriero.report.cpu_lab.machine_document import machine_document

    document = machine_document(result)
    write_folder(folder, lambda: document, lambda: (document, ()), force=force)
    print(f"{folder / TEXT}: written", file=sys.stderr)


def _out(flags: Namespace) -> Path:
    """Where to write; refused before anything is measured."""
    if flags.out is None:
        return Path(DEFAULT_OUT)
    path = Path(flags.out)
    require_absent([path], force=flags.force)
    return path


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
    says = "measure nothing: show, or report on, an earlier result"
    parser.add_argument("--from", dest="source", metavar="FILE", help=says)
    parser.add_argument("--report", metavar="FOLDER", help="write a report there too, as Markdown and as a page")
    parser.add_argument("--json", action="store_true", help="print the result as JSON instead of tables")
    add_force(parser)
    return parser
