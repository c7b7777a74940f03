"""`arriero sim summary FILE ...`: checked results, and their metrics in one of three forms."""

import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from arriero.cli.simulation.output import add_force, require_absent, write_texts
from arriero.cli.sources import LineParser, make_parser
from arriero.core.errors import ConfigError

FORMS: Final = ("json", "csv", "markdown")


class Reports(NamedTuple):
    """The texts of one set of results."""

    forms: Mapping[str, str]  # by their names, see `FORMS`
    notes: Sequence[str]


def main(arguments: Sequence[str]) -> int:
    """Print, or write to files.

    Raises:
        ConfigError: flags that do not go together, files of both formats, or a file that exists.
        DataError: a result file breaks a rule; nothing is printed.
    """
    flags = _parser().parse_args(arguments)
    asked = {name: Path(path) for name in FORMS if (path := getattr(flags, name)) is not None}
    _check(flags, asked)
    reports = read([Path(name) for name in flags.files])
    write_texts({path: reports.forms[name] for name, path in asked.items()}, force=flags.force)
    if not asked:
        sys.stdout.write(reports.forms[flags.format or "markdown"])
    for note in reports.notes:
        print(f"arriero: {note}", file=sys.stderr)
    return 0


def read(paths: Sequence[Path]) -> Reports:
    """Read and check results of one format.

    Raises:
        ConfigError: they are of both. DataError: one breaks a rule.
    """
    from arriero.record.result_kind import ResultKind, one_kind

    return _own(paths) if one_kind(paths) is ResultKind.OWN else _lab(paths)


def _own(paths: Sequence[Path]) -> Reports:
    from arriero.record.sim_file import read_sim_result
    from arriero.record.sim_report import SimSummary, as_csv, as_json, as_markdown, notes

    summaries = [SimSummary(path.as_posix(), read_sim_result(path)) for path in paths]
    forms = {"json": as_json(summaries), "csv": as_csv(summaries), "markdown": as_markdown(summaries)}
    return Reports(MappingProxyType(forms), notes(summaries))


def _lab(paths: Sequence[Path]) -> Reports:
    from arriero.record.lab_file import has_iterations, read_lab_result
    from arriero.record.lab_report import as_csv, as_json, as_markdown, notes, summarise

    results = [(path.as_posix(), read_lab_result(path, with_iterations=has_iterations(path))) for path in paths]
    summaries = [summarise(result, path) for path, result in results]
    forms = {"json": as_json(summaries), "csv": as_csv(summaries), "markdown": as_markdown(summaries)}
    return Reports(MappingProxyType(forms), notes(results))


def _check(flags: Namespace, asked: Mapping[str, Path]) -> None:
    if asked and flags.format:
        raise ConfigError("--format prints, --json, --csv and --markdown write files; use one or the others")
    places = list(asked.values())
    if len({path.absolute() for path in places}) < len(places):
        raise ConfigError("--json, --csv and --markdown name one file twice; give each its own")
    require_absent(places, force=flags.force)


def _parser() -> LineParser:
    parser = make_parser("sim summary", "Check results and show their metrics; all files must be of one format.")
    parser.add_argument("files", nargs="+", metavar="FILE", help="results of `arriero sim run` or `sim matrix`")
    parser.add_argument("--format", choices=FORMS, help="what to print (default: markdown)")
    parser.add_argument("--json", metavar="FILE", help="write the complete metrics there")
    parser.add_argument("--csv", metavar="FILE", help="write one row a result there")
    parser.add_argument("--markdown", metavar="FILE", help="write the table there")
    add_force(parser)
    return parser
