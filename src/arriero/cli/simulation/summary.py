"""`arriero sim summary FILE ...`: checked results, and their metrics in one of three forms."""

import sys
from collections.abc import Sequence
from pathlib import Path

from arriero.cli.simulation.output import add_force, write_text
from arriero.cli.sources import LineParser, make_parser
from arriero.core.errors import ConfigError


def main(arguments: Sequence[str]) -> int:
    """Print, or write to files.

    Raises:
        DataError: a result file breaks a rule; nothing is printed.
    """
    from arriero.record.lab_file import read_lab_result
    from arriero.record.lab_report import as_csv, as_json, as_markdown, summarise

    flags = _parser().parse_args(arguments)
    summaries = [summarise(read_lab_result(Path(name)), Path(name).as_posix()) for name in flags.files]
    forms = {"json": as_json, "csv": as_csv, "markdown": as_markdown}
    asked = {name: Path(path) for name in forms if (path := getattr(flags, name)) is not None}
    if asked and flags.format:
        raise ConfigError("--format prints, --json, --csv and --markdown write files; use one or the others")
    for name, path in asked.items():
        write_text(path, forms[name](summaries), force=flags.force)
    if not asked:
        sys.stdout.write(forms[flags.format or "markdown"](summaries))
    return 0


def _parser() -> LineParser:
    parser = make_parser("sim summary", "Check results in the published format and show their metrics.")
    parser.add_argument("files", nargs="+", metavar="FILE", help="results of `sim run --preset serving-lab`")
    parser.add_argument("--format", choices=["json", "csv", "markdown"], help="what to print (default: markdown)")
    parser.add_argument("--json", metavar="FILE", help="write the complete metrics there")
    parser.add_argument("--csv", metavar="FILE", help="write one row a result there")
    parser.add_argument("--markdown", metavar="FILE", help="write the table there")
    add_force(parser)
    return parser
