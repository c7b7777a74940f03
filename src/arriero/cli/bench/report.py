"""`arriero bench report RESULT ...`: a page, Markdown or CSV of results, or of comparisons."""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from arriero.cli.progress import Progress
from arriero.cli.reports import Form, add_report_flags, draws, form_of, pictures_of, write_document
from arriero.cli.simulation.output import write_text
from arriero.cli.sources import LineParser, make_parser
from arriero.core.errors import ConfigError

if TYPE_CHECKING:
    from arriero.report.bench_reading import BenchFiles


def main(arguments: Sequence[str]) -> int:
    """Read every file, then write.

    Raises:
        ConfigError: an ending that is no form, a file that exists, results together with comparisons, definitions
            without a raw log, or matplotlib is missing. DataError: a file breaks a rule; nothing is written.
    """
    flags = _parser().parse_args(arguments)
    form = form_of(flags)
    from arriero.report.bench_reading import read_bench

    with Progress("reading the results"):
        files = read_bench([Path(name) for name in flags.files])
    if files.results and files.comparisons:
        raise ConfigError("results and comparisons do not stand on one page; give them to two commands")
    if files.comparisons:
        _report_comparisons(files, form, flags)
    else:
        _report_results(files, form, flags)
    count = len(flags.files)
    print(f"{flags.out}: {count} {'file' if count == 1 else 'files'}")
    return 0


def _report_results(files: "BenchFiles", form: Form, flags: Namespace) -> None:
    from arriero.metrics.definitions import DEFINITIONS
    from arriero.report.bench_csv import as_csv
    from arriero.report.bench_document import bench_document
    from arriero.report.bench_traits import comparison_of
    from arriero.report.bench_view import bench_views

    definitions = DEFINITIONS[flags.definitions]
    views = bench_views(files.results, definitions)
    pictures = {}
    if draws(form, flags):
        from arriero.report.bench_pictures import bench_pictures

        with Progress("drawing"):
            pictures = pictures_of(bench_pictures(views), flags)
    if form is Form.CSV:
        write_text(Path(flags.out), as_csv(views), force=flags.force)
    else:
        write_document(bench_document(views, definitions, pictures), form, flags)
    if (obstacle := comparison_of(views).obstacle) is not None:
        print(f"{obstacle}: nothing on the page compares them")


def _report_comparisons(files: "BenchFiles", form: Form, flags: Namespace) -> None:
    from arriero.report.compare_csv import as_csv
    from arriero.report.compare_document import compare_document
    from arriero.report.compare_view import compare_views

    if flags.definitions != "arriero":
        raise ConfigError(
            f"--definitions {flags.definitions}: a comparison has verdicts on arriero's own; leave it out"
        )
    views = compare_views(files.comparisons)
    pictures = {}
    if draws(form, flags):
        from arriero.report.compare_pictures import compare_pictures

        with Progress("drawing"):
            pictures = pictures_of(compare_pictures(views), flags)
    if form is Form.CSV:
        write_text(Path(flags.out), as_csv(views), force=flags.force)
    else:
        write_document(compare_document(views, pictures), form, flags)


def _parser() -> LineParser:
    from arriero.metrics.definitions import DEFINITIONS

    parser = make_parser("bench report", "A page with figures and tables of results, or Markdown, or CSV.")
    says = "results of `bench run`, or of `bench compare`"
    parser.add_argument("files", nargs="+", metavar="RESULT", help=says)
    says = f"whose words the tables follow: {', '.join(DEFINITIONS)} (default: arriero); others need the raw log"
    parser.add_argument("--definitions", choices=list(DEFINITIONS), default="arriero", metavar="NAME", help=says)
    add_report_flags(parser)
    return parser
