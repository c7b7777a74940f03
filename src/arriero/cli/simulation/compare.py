"""`arriero sim compare A B`, or `A:B` pairs: two results of one workload side by side."""

import sys
from collections.abc import Sequence
from pathlib import Path

from arriero.cli.sources import make_parser
from arriero.core.errors import ConfigError


def main(arguments: Sequence[str]) -> int:
    """Print one table a pair.

    Raises:
        ConfigError: the runs differ in workload, seed, backend or objectives. DataError: a file breaks a rule.
    """
    from arriero.record.lab_compare import as_markdown, compare
    from arriero.record.lab_file import read_lab_result

    parser = make_parser("sim compare", "Compare results that share workload, seed, backend and objectives.")
    parser.add_argument("files", nargs="+", metavar="A B | A:B", help="two results, or pairs joined by a colon")
    flags = parser.parse_args(arguments)
    tables: list[str] = []
    for first, second in pairs(flags.files):
        ours, theirs = read_lab_result(first), read_lab_result(second)
        names = ours.config.name, theirs.config.name
        tables.append(as_markdown(*names, compare(ours, theirs)))
    sys.stdout.write("\n".join(tables))
    return 0


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
