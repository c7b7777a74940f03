"""VerbTable: the words after `arriero bench`, `arriero sim`, `arriero lab`; finds a verb and imports nothing else."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import NamedTuple

from arriero.cli.sources import LineParser
from arriero.core.errors import ConfigError

_PLACE = "results go below .artifacts/ unless a flag says otherwise."


class Verb(NamedTuple):
    """One word after the command's own."""

    module: str  # below the table's package; has `main(arguments) -> int`
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VerbTable:
    """The verbs of one command.

    Attributes:
        command: the word after `arriero`.
        package: whose modules the verbs are.
        description: what `--help` says first.
        verbs: by word, in the order in which they are told.
    """

    command: str
    package: str
    description: str
    verbs: Mapping[str, Verb]

    def main(self, arguments: Sequence[str]) -> int:
        """Run one verb.

        Raises:
            ConfigError: no such verb, or a flag that cannot work. DataError: a file that cannot be used.
        """
        words = list(arguments)
        if words and words[0] in self.verbs:
            status: int = import_module(f"{self.package}.{self.verbs[words[0]].module}").main(words[1:])
            return status
        if words and not words[0].startswith("-"):
            match = get_close_matches(words[0], self.verbs, n=1)
            remedy = f"did you mean {match[0]}?" if match else f"use {', '.join(self.verbs)}"
            raise ConfigError(f"{self.command} {words[0]}: no such verb; {remedy}")
        self._overview().parse_args(words)
        raise ConfigError(f"{self.command}: no verb given; see arriero {self.command} --help")

    def _overview(self) -> LineParser:
        width = max(map(len, self.verbs))
        return LineParser(
            prog=f"arriero {self.command}",
            usage=f"arriero {self.command} [--help | VERB ...]",
            description=self.description,
            epilog="\n".join([
                "verbs:",
                *(f"  {name:<{width}}  {verb.says}" for name, verb in self.verbs.items()),
                "",
                f"`arriero {self.command} VERB --help` tells the rest; {_PLACE}",
            ]),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
