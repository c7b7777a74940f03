"""`arriero bench VERB ...`: finds the verb and imports nothing else."""

import argparse
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from types import MappingProxyType
from typing import Final, NamedTuple

from arriero.cli.sources import LineParser
from arriero.core.errors import ConfigError


class Verb(NamedTuple):
    """One word after `arriero bench`."""

    module: str  # below arriero.cli.bench; has `main(arguments) -> int`
    says: str


VERBS: Final = MappingProxyType({
    "run": Verb("run", "measure a server, the engine in this process, or the simulator"),
    "compare": Verb("compare", "compare two servers in interleaved rounds, against their noise floor"),
    "report": Verb("report", "a page with figures, Markdown or CSV of results and comparisons"),
    "experiment": Verb("experiment", "run a published experiment and judge its acceptance statements"),
    "soak": Verb("soak", "put a server under everything at once for half an hour, and balance its books"),
})


def main(arguments: Sequence[str]) -> int:
    """Run one verb.

    Raises:
        ConfigError: no such verb, or a flag that cannot work. DataError: a file that cannot be used.
    """
    words = list(arguments)
    if words and words[0] in VERBS:
        status: int = import_module(f"arriero.cli.bench.{VERBS[words[0]].module}").main(words[1:])
        return status
    if words and not words[0].startswith("-"):
        match = get_close_matches(words[0], VERBS, n=1)
        remedy = f"did you mean {match[0]}?" if match else f"use {', '.join(VERBS)}"
        raise ConfigError(f"bench {words[0]}: no such verb; {remedy}")
    _overview().parse_args(words)
    raise ConfigError("bench: no verb given; see arriero bench --help")


def _overview() -> LineParser:
    width = max(map(len, VERBS))
    return LineParser(
        prog="arriero bench",
        usage="arriero bench [--help | VERB ...]",
        description="Measure servers: what they do under a load that is fixed beforehand, and how sure that is.",
        epilog="\n".join([
            "verbs:",
            *(f"  {name:<{width}}  {verb.says}" for name, verb in VERBS.items()),
            "",
            "`arriero bench VERB --help` tells the rest; results go below .artifacts/ unless a flag says otherwise.",
        ]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
