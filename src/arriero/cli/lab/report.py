"""`arriero lab report RUN_FOLDER ...`: tables and plots of what matrices measured, as a folder."""

import hashlib
from argparse import Namespace
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from arriero.cli.progress import Progress
from arriero.cli.simulation.output import ROOT, new_file, refuse_links, require_absent
from arriero.cli.sources import LineParser, make_parser
from arriero.core.errors import ConfigError

if TYPE_CHECKING:
    from arriero.lab.analysis.matrix_analysis import KnownQuality, NamedRun
    from arriero.record.cpu_lab.analysis import MatrixAnalysis

DEFAULT_OUT: Final = f"{ROOT}/lab/report"
JSON_FILE: Final = "analysis.json"


def main(arguments: Sequence[str]) -> int:
    """Read every folder, analyse, write.

    Raises:
        ConfigError: the report exists, cannot be written, or matplotlib is missing. DataError: a folder holds no run,
            a line is bad, or nothing was measured; nothing is written.
    """
    flags = _parser().parse_args(arguments)
    out = Path(flags.out)
    require_matplotlib()
    require_absent([out / JSON_FILE, out / "README.md", out / "index.html"], force=flags.force)
    from arriero.lab.analysis.matrix_analysis import analyse

    with Progress("reading the runs"):
        runs = [read_named(Path(name)) for name in flags.folders]
        quality = None if flags.quality is None else _quality(Path(flags.quality))
    analysis = analyse(runs, quality, flags.reference)
    with Progress("drawing"):
        files = _write(analysis, out, flags)
    if flags.json:
        print(msgspec.json.encode(analysis).decode())
    else:
        for line in analysis.warnings:
            print(f"warning: {line}")
        print(f"{files[0]}: {len(analysis.groups)} settings, {len(files) - 3} figures")
    return 0


def require_matplotlib() -> None:
    """Refuse before anything is done what could not be drawn at its end.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        import_module("matplotlib")
    except ImportError:
        message = "figures need matplotlib, which is not here; pip install 'arriero[report]'"
        raise ConfigError(message) from None


def read_named(folder: Path) -> "NamedRun":
    """A run of a matrix with the hash of its log.

    Raises:
        DataError: see `read_run`.
    """
    from arriero.lab.analysis.matrix_analysis import NamedRun
    from arriero.record.cpu_lab.matrix import MatrixRecord
    from arriero.record.cpu_lab.run_log import LINES, read_run

    run = read_run(folder, MatrixRecord)
    path = folder / LINES
    digest = hashlib.sha256(path.read_bytes() if path.exists() else b"").hexdigest()
    return NamedRun(name=folder.resolve().name, sha256=digest, run=run)


def _quality(path: Path) -> "KnownQuality":
    from arriero.lab.analysis.matrix_analysis import KnownQuality
    from arriero.lab.analysis.qualities import qualities_of, source_of
    from arriero.record.cpu_lab.quality import read_quality

    result = read_quality(path)
    return KnownQuality(of=qualities_of(result), source=source_of(result, path.name))


def _write(analysis: "MatrixAnalysis", out: Path, flags: Namespace) -> tuple[Path, ...]:
    from arriero.report.cpu_lab.folder import pictures_by_key, write_report
    from arriero.report.cpu_lab.matrix_document import all_keys, matrix_document
    from arriero.report.cpu_lab.matrix_pictures import matrix_pictures

    refuse_links(out)
    drawn = list(matrix_pictures(analysis, all_keys(analysis)))
    document = matrix_document(analysis, pictures_by_key(drawn), flags.title)
    files = write_report(document, drawn, out, force=flags.force)
    with new_file(out / JSON_FILE, force=flags.force) as file:
        file.write(msgspec.json.format(msgspec.json.encode(analysis), indent=2) + b"\n")
    return (*files, out / JSON_FILE)


def _parser() -> LineParser:
    parser = make_parser(
        "lab report",
        "Tables and plots of runs of `lab bench`: threads, lengths, model files, KV types and contexts, as far as "
        "the records allow; a folder with README.md, index.html, a file a figure, and analysis.json.",
    )
    parser.add_argument("folders", nargs="+", metavar="RUN_FOLDER", help="output folders of `lab bench`")
    says = "the file of `lab quality`, for the quality of the model files"
    parser.add_argument("--quality", metavar="FILE", help=says)
    says = "the format, or the model, that files are compared with (default: F16)"
    parser.add_argument("--reference", metavar="NAME", default="F16", help=says)
    parser.add_argument("--title", metavar="TEXT", default="CPU matrix", help="of the page (default: CPU matrix)")
    parser.add_argument("--out", metavar="FOLDER", default=DEFAULT_OUT, help=f"the report (default: {DEFAULT_OUT})")
    parser.add_argument("--force", action="store_true", help="replace a report that exists")
    parser.add_argument("--json", action="store_true", help="print the analysis as JSON")
    return parser
