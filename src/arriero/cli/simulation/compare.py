"""`arriero sim compare A B`, or `A:B` pairs: two results of one workload side by side."""

import sys
from collections.abc import Sequence
from pathlib import Path

from arriero.cli.sources import make_parser
from arriero.core.errors import ConfigError


def main(arguments: Sequence[str]) -> int:
    """Print one table a pair.

    Raises:
        ConfigError: two files are of different formats; or they are of serving-lab's, and the runs differ in workload,
            seed, backend or objectives. DataError: a file breaks a rule.
    """
    from arriero.record.result_kind import ResultKind, one_kind

    parser = make_parser("sim compare", "Put two results side by side, and say what else differs between the runs.")
    parser.add_argument("files", nargs="+", metavar="A B | A:B", help="two results, or pairs joined by a colon")
    flags = parser.parse_args(arguments)
    tables = [
        _own(first, second) if one_kind([first, second]) is ResultKind.OWN else _lab(first, second)
        for first, second in pairs(flags.files)
    ]
    sys.stdout.write("\n".join(tables))
    return 0


def _own(first: Path, second: Path) -> str:
    from arriero.record.sim_compare import as_markdown
    from arriero.record.sim_file import read_sim_result
    from arriero.record.sim_report import SimSummary

    ours, theirs = (SimSummary(path.as_posix(), read_sim_result(path)) for path in (first, second))
    return as_markdown(ours, theirs)


def _lab(first: Path, second: Path) -> str:
    from arriero.record.lab_compare import as_markdown, compare
    from arriero.record.lab_file import has_iterations, read_lab_result

    ours, theirs = (read_lab_result(path, with_iterations=has_iterations(path)) for path in (first, second))
    return as_markdown(ours.config.name, theirs.config.name, compare(ours, theirs))


def pairs(words: Sequence[str]) -> list[tuple[Path, Path]]:
    """Which files are compared.

    Raises:
        ConfigError: the words are neither two files nor pairs.
    """
    found: list[tuple[Path, Path]] = []
    if len(words) == 2 and not any(_is_pair(word) for word in words):
        return [(Path(words[0]), Path(words[1]))]
    for word in words:
        first, colon, second = word.partition(":")
        if not (colon and first and second):
            raise ConfigError(f"{word}: no pair; give two files, or pairs such as a.jsonl:b.jsonl")
        found.append((Path(first), Path(second)))
    return found


def _is_pair(word: str) -> bool:
    return ":" in word and not Path(word).exists()
