"""`arriero lab targets FOLDER...`: hot functions of recorded runs as candidates, each with the gate that rejects it."""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from arriero.cli.lab.flag_values import flag_value
from arriero.cli.sources import LineParser, make_parser
from arriero.core.errors import DataError
from arriero.core.option_kinds import Real, Whole

if TYPE_CHECKING:
    from arriero.lab.perf.run_files import PerfFolder
    from arriero.record.cpu_lab.targets import Targets

LEAST_BOUND: Final = "1.05"
"""A candidate that could gain less than 5 % of the whole is not worth a kernel."""

_BITS: Final = (("avx512f", 512), ("avx2", 256), ("avx", 256))


def main(arguments: Sequence[str]) -> int:
    """Rank, judge, and say why.

    Raises:
        ConfigError: a flag cannot work, or objdump is not there. DataError: a run cannot be read, or profiled another
            build than the one whose code would be read.
    """
    flags = _parser().parse_args(arguments)
    from arriero.cli.lab.perf_lines import target_lines
    from arriero.cli.simulation.output import require_absent, write_text
    from arriero.lab.perf.run_files import read_folders

    if flags.out is not None:
        require_absent([Path(flags.out)], force=flags.force)
    found = _targets(flags, read_folders([Path(folder) for folder in flags.folders]))
    text = "".join(each.encode().decode() for each in found)
    if flags.out is not None:
        write_text(Path(flags.out), text, force=flags.force)
    if flags.json:
        print(text, end="")
    else:
        for each in found:
            for line in target_lines(each):
                print(line)
    return 0


def _targets(flags: Namespace, folders: "Sequence[PerfFolder]") -> "list[Targets]":
    from arriero.lab.machine.environment import isa_of
    from arriero.lab.perf.comparison import compare_runs
    from arriero.lab.perf.library_folder import library_folder, library_hashes
    from arriero.lab.perf.targets import Gates
    from arriero.lab.perf.tools import find_tool

    folder = library_folder(flags.library)
    hashes = library_hashes(folder)
    for each in folders:
        _same_build(each, hashes)
    least = flag_value("--least-bound", flags.least_bound, Real(1.0))
    limit = flag_value("--top", flags.top, Whole(1))
    isa = isa_of()
    bits = next((width for name, width in _BITS if name in isa), 128)
    gates = Gates(folder=folder, objdump=find_tool("objdump"), least_bound=least, machine_bits=bits)
    cases = compare_runs(folders).hot
    if not cases:
        raise DataError("no run with samples or instructions by function; record one with `arriero lab perf record`")
    return [gates.targets_of(case, hashes, limit=limit) for case in cases]


def _same_build(folder: "PerfFolder", hashes: dict[str, str]) -> None:
    """The code of another build says nothing about these shares."""
    other = sorted(
        name for name, value in folder.settings["library"].items() if name in hashes and hashes[name] != value
    )
    if other:
        message = f"profiled another build of {', '.join(other)}; name its folder with --library, or record again"
        raise DataError(message, file=str(folder.folder))


def _parser() -> LineParser:
    parser = make_parser(
        "lab targets",
        "Rank the hot functions of recorded runs by what they could gain, say what their code does already, and at "
        "which gate each one stops: share, kind, assembly; then equal bits, microbenchmark, paired A/B.",
    )
    parser.add_argument("folders", metavar="FOLDER", nargs="+", help="of a run of `lab perf record` or `callgrind`")
    parser.add_argument("--library", metavar="FOLDER", help="of the build that was profiled (default: the one in use)")
    parser.add_argument("--top", metavar="N", default="10", help="candidates of each case (default: %(default)s)")
    parser.add_argument(
        "--least-bound", metavar="X", default=LEAST_BOUND, help="below it a candidate stops (default: %(default)s)"
    )
    parser.add_argument("--out", metavar="FILE", help="write them as JSON, one object a case")
    parser.add_argument("--force", action="store_true", help="replace an --out that exists")
    parser.add_argument("--json", action="store_true", help="print them as JSON")
    return parser
