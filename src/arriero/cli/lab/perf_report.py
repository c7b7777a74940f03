"""`arriero lab perf report FOLDER...`: tables, figures and flame graphs of runs, made from their records alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from arriero.cli.sources import LineParser, make_parser
from arriero.core.errors import ConfigError

if TYPE_CHECKING:
    from arriero.lab.perf.run_files import PerfFolder
    from arriero.record.cpu_lab.folded_stacks import FoldedStacks
    from arriero.record.cpu_lab.perf_comparison import PerfComparison
    from arriero.report.cpu_lab.perf_view import PerfView


def main(arguments: Sequence[str]) -> int:
    """Read runs, and write a report.

    Raises:
        ConfigError: the report exists, or a flag cannot work. DataError: a run cannot be read.
    """
    flags = _parser().parse_args(arguments)
    from arriero.cli.lab.perf_lines import comparison_lines
    from arriero.lab.perf.comparison import compare_runs
    from arriero.lab.perf.run_files import read_folders

    folders = read_folders([Path(folder) for folder in flags.folders])
    found = compare_runs(folders, flags.reference)
    if flags.json:
        print(found.encode().decode(), end="")
    elif flags.out is None:
        for line in comparison_lines(found):
            print(line)
    if flags.out is not None:
        for path in _write(found, folders, Path(flags.out), force=flags.force):
            print(path)
    return 0 if found.counters or found.hot else 1


def _write(found: "PerfComparison", folders: "Sequence[PerfFolder]", out: Path, *, force: bool) -> tuple[Path, ...]:
    try:
        from arriero.report.cpu_lab.folder import pictures_by_key, write_report
        from arriero.report.cpu_lab.perf_pictures import flame_graphs, flame_pictures, perf_pictures
    except ImportError:
        message = "figures need matplotlib, which is not here; pip install 'arriero[report]', or leave --out out"
        raise ConfigError(message) from None
    from arriero.report.cpu_lab.perf_document import perf_document

    view = _view(found, folders)
    drawn, graphs = list(perf_pictures(view)), flame_graphs(view)
    pictures = {**pictures_by_key(drawn), **flame_pictures(view, graphs)}
    return write_report(perf_document(view, pictures), drawn, out, force=force, svgs=graphs)


def _view(found: "PerfComparison", folders: "Sequence[PerfFolder]") -> "PerfView":
    from arriero.report.cpu_lab.perf_view import PerfView, case_key

    by_run = {folder.run.manifest.run_id: folder for folder in folders}
    stacks: dict[str, FoldedStacks] = {}
    for case in found.hot:
        file = case.attribution.stacks
        if file is not None:
            stacks[case_key(case)] = by_run[case.run_id].stacks(file)
    return PerfView(found, stacks)


def _parser() -> LineParser:
    parser = make_parser(
        "lab perf report",
        "Show what runs of `lab perf` say together. With --out a folder with README.md, figures, flame graphs and one "
        "page is written.",
    )
    parser.add_argument("folders", metavar="FOLDER", nargs="+", help="of a run of stat, record or callgrind")
    parser.add_argument(
        "--reference", metavar="MODEL", help="below the line of ratios (default: an F16 file, or the first)"
    )
    parser.add_argument("--out", metavar="FOLDER", help="write a report there")
    parser.add_argument("--force", action="store_true", help="replace a report that exists")
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON")
    return parser
