"""`arriero sim report RESULT ...`: a page, Markdown or CSV of results and journals."""

from collections.abc import Sequence
from pathlib import Path

from arriero.cli.progress import Progress
from arriero.cli.reports import Form, add_report_flags, draws, form_of, pictures_of, write_document
from arriero.cli.simulation.output import write_text
from arriero.cli.sources import LineParser, make_parser


def main(arguments: Sequence[str]) -> int:
    """Read every result, then write.

    Raises:
        ConfigError: an ending that is no form, a file that exists, or matplotlib is missing. DataError: a file breaks
            a rule; nothing is written.
    """
    flags = _parser().parse_args(arguments)
    form = form_of(flags)
    from arriero.report.latencies import measured
    from arriero.report.reading import read_runs
    from arriero.report.sim_csv import as_csv
    from arriero.report.sim_document import comparison_of, sim_document

    with Progress("reading the results"):
        runs = read_runs([Path(name) for name in flags.files])
        every = [measured(run) for run in runs]
    pictures = {}
    if draws(form, flags):
        from arriero.report.sim_pictures import sim_pictures

        with Progress("drawing"):
            pictures = pictures_of(sim_pictures(runs), flags)
    if form is Form.CSV:
        write_text(Path(flags.out), as_csv(every), force=flags.force)
    else:
        write_document(sim_document(every, pictures), form, flags)
    print(f"{flags.out}: {len(runs)} {'run' if len(runs) == 1 else 'runs'}")
    if len(runs) > 1 and not comparison_of(runs).is_fair:
        print("their workloads differ, or cannot be shown to be the same: nothing on the page compares them")
    return 0


def _parser() -> LineParser:
    parser = make_parser("sim report", "A page with figures and tables of results, or Markdown, or CSV.")
    says = "results of `sim run` or `sim matrix`, and journals"
    parser.add_argument("files", nargs="+", metavar="RESULT", help=says)
    add_report_flags(parser)
    return parser
