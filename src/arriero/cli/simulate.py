"""`arriero sim VERB ...`: finds the verb and imports nothing else."""

import argparse
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from types import MappingProxyType
from typing import Final, NamedTuple

from arriero.cli.sources import LineParser
from arriero.core.errors import ConfigError


class Verb(NamedTuple):
    """One word after `arriero sim`."""

    module: str  # below arriero.cli.simulation; has `main(arguments) -> int`
    says: str


VERBS: Final = MappingProxyType({
    "run": Verb("run", "simulate one configuration and write its rows"),
    "matrix": Verb("matrix", "simulate every configuration of a list, and compare"),
    "compare": Verb("compare", "put two results of one workload side by side"),
    "summary": Verb("summary", "check result files and print their metrics as JSON, CSV or Markdown"),
    "report": Verb("report", "a page with figures, Markdown or CSV of results and journals"),
    "mixed-decode": Verb("mixed_decode", "the published simulator of rows and slots, and its table"),
    "demo": Verb("demo", "what continuous batching and prefix caching change, in seconds and without a model"),
    "verify": Verb("verify", "run the repository's own definitions again and compare with their references"),
    "replay": Verb("replay", "repeat the decisions of a journal, or print the first that differs"),
    "whatif": Verb("whatif", "the requests of a journal through another configuration, old and new side by side"),
    "validate": Verb("validate", "held-out loads on the real engine and simulated, errors beside the noise"),
})


def main(arguments: Sequence[str]) -> int:
    """Run one verb.

    Raises:
        ConfigError: no such verb, or a flag that cannot work. DataError: a file that cannot be used.
    """
    words = list(arguments)
    if words and words[0] in VERBS:
        status: int = import_module(f"arriero.cli.simulation.{VERBS[words[0]].module}").main(words[1:])
        return status
    if words and not words[0].startswith("-"):
        match = get_close_matches(words[0], VERBS, n=1)
        remedy = f"did you mean {match[0]}?" if match else f"use {', '.join(VERBS)}"
        raise ConfigError(f"sim {words[0]}: no such verb; {remedy}")
    _overview().parse_args(words)
    raise ConfigError("sim: no verb given; see arriero sim --help")


def _overview() -> LineParser:
    width = max(map(len, VERBS))
    return LineParser(
        prog="arriero sim",
        usage="arriero sim [--help | VERB ...]",
        description="The scheduler that serves, driven by a virtual clock: no model, no waiting.",
        epilog="\n".join([
            "verbs:",
            *(f"  {name:<{width}}  {verb.says}" for name, verb in VERBS.items()),
            "",
            "`arriero sim VERB --help` tells the rest; results go below .artifacts/ unless a flag says otherwise.",
        ]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
