"""`arriero bench experiment NAME`: run one published experiment and judge its acceptance statements.

An experiment is a line in the table below. Its module has `EXPERIMENT`, which is run here from its definition and
leaves an evidence package; or `main(words)`, a command of its own that leaves one too.
"""

import argparse
import sys
from argparse import Namespace
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from arriero.cli.sources import LineParser, make_parser
from arriero.core.errors import ConfigError

if TYPE_CHECKING:
    from arriero.bench.experiments.experiment import Experiment, Outcome, Table

EVIDENCE: Final = "evidence"
ARTIFACTS: Final = ".artifacts"
DEFINITIONS: Final = "definitions/experiments"


class Entry(NamedTuple):
    """One experiment."""

    number: str  # as published; another name for the first one that has it
    module: str
    says: str
    constant: str = "EXPERIMENT"  # of the module


_PREFIX_REUSE: Final = "arriero.bench.experiments.prefix_reuse"

EXPERIMENTS: Final = MappingProxyType({
    "responsiveness": Entry(
        "E1", "arriero.bench.experiments.responsiveness", "queued cancels and streams in process, in three placements"
    ),
    "end-to-end": Entry(
        "E2", "arriero.bench.experiments.end_to_end", "one client over HTTP, and a probe after each stream it leaves"
    ),
    "semantics": Entry("E3", "arriero.bench.experiments.semantics", "behaviours beside those of llama-server"),
    "interference": Entry(
        "E4", "arriero.bench.experiments.interference", "a long prompt beside a decoding request, with and without caps"
    ),
    "throughput": Entry(
        "E5", "arriero.bench.experiments.throughput", "a closed loop against llama-server, with busy slots counted"
    ),
    "occupancy": Entry("E6", "arriero.bench.experiments.occupancy", "how full the slots are under offered load"),
    "w-chat": Entry("E7", _PREFIX_REUSE, "conversations that extend their last prompt and answer", "W_CHAT"),
    "w-long-sys": Entry("E7", _PREFIX_REUSE, "one long beginning for every request", "W_LONG_SYS"),
    "w-repeat-prefix": Entry("E7", _PREFIX_REUSE, "the same sentence forty times, then a number", "W_REPEAT_PREFIX"),
    "w-control": Entry("E7", _PREFIX_REUSE, "short requests that share nothing", "W_CONTROL"),
    "shared-burst": Entry("", "arriero.bench.experiments.shared_burst", "a burst with one prefix, and a bare loop"),
    "cold-fan-out": Entry("", "arriero.bench.experiments.cold_fan_out", "one new prefix, eight times at one moment"),
    "cache-timing": Entry("", "arriero.bench.experiments.cache_timing", "whether timing tells what another key asked"),
    "holes": Entry("", "arriero.bench.experiments.holes", "few busy slots among many, and moves between them"),
    "long-prompts": Entry("", "arriero.bench.experiments.long_prompts", "streams beside long prompts, with targets"),
    "busy-neighbour": Entry("", "arriero.bench.experiments.busy_neighbour", "a server beside a busy process"),
    "goodput": Entry("", "arriero.bench.experiments.goodput", "answers within objectives, of a mixed load"),
    "fifo-pool": Entry("", "arriero.cli.bench.fifo_pool", "the context pool alone, with the published options"),
    "pool-against-engine": Entry(
        "E8", "arriero.bench.experiments.fifo_pool_against_engine", "a pool of contexts against one shared context"
    ),
    "mixed-decode": Entry(
        "E9", "arriero.bench.experiments.mixed_decode", "the same scheduler on a real and on a simulated backend"
    ),
})


def main(arguments: Sequence[str]) -> int:
    """Run one experiment; status 0 only if every statement holds.

    Raises:
        ConfigError: no such experiment, or a flag that cannot work. DataError: its definition breaks its format.
    """
    words = list(arguments)
    if not words or words[0].startswith("-"):
        _overview().parse_args(words)
        raise ConfigError("bench experiment: no name given; see arriero bench experiment --help")
    name = _name(words[0])
    module: Any = import_module(EXPERIMENTS[name].module)
    if hasattr(module, "main"):
        status: int = module.main(words[1:])
        return status
    flags = _parser(name).parse_args(words[1:])
    return _run(getattr(module, EXPERIMENTS[name].constant), flags, ["arriero", "bench", "experiment", *words])


def _run(experiment: "Experiment[Any]", flags: Namespace, command: Sequence[str]) -> int:
    from rich.console import Console

    from arriero.bench.experiments.definition import read_definition
    from arriero.bench.experiments.evidence import EvidencePackage
    from arriero.bench.experiments.experiment import Judgement
    from arriero.cli.bench.experiment_progress import told

    path = Path(flags.config) if flags.config else _definition(experiment.name)
    config = read_definition(path, experiment.config, quick=flags.quick, over=_over(experiment, flags))
    if flags.model is not None and config.model.backend == "synthetic":
        remedy = "leave out --quick or --model" if flags.quick else "leave it out"
        raise ConfigError(f"--model {flags.model}: the synthetic backend computes without one; {remedy}")
    folder = Path(flags.out) if flags.out else default_folder(experiment.name, quick=flags.quick)
    package = EvidencePackage(folder, force=flags.force)
    console = Console(highlight=False, soft_wrap=True)
    title = f"{experiment.number} {experiment.name}".strip()
    console.print(f"{title}: {experiment.decides}", markup=False)
    for word in ("metric", "comparison", "difference"):
        console.print(f"  {word}: {getattr(experiment, word)}", markup=False)
    try:
        package.begin(experiment, config, command)
        with told(experiment.name, sys.stderr) as tell:
            outcome = experiment.run(config, tell)
        package.finish(outcome)
    finally:
        package.abandon()
    _tell(console.print, outcome)
    print(f"{outcome.judgement} {experiment.name}: evidence in {folder}")
    return 0 if outcome.judgement is Judgement.HOLDS else 1


def tell_outcome(outcome: "Outcome") -> None:
    """Print the tables and the statements."""
    from rich.console import Console

    _tell(Console(highlight=False, soft_wrap=True).print, outcome)


def _tell(say: Any, outcome: "Outcome") -> None:  # noqa: ANN401 - rich's print
    from arriero.bench.experiments.evidence_page import shown

    for table in outcome.tables:
        say()
        for line in table_lines(table):
            say(line, markup=False)
    say()
    for each in outcome.statements:
        reason = "" if each.reason is None else f" ({each.reason})"
        say(f"{each.judgement:<4} {each.text}: {shown(each.measured)}, {each.bound}{reason}", markup=False)


def table_lines(table: "Table") -> list[str]:
    """A table as text, columns aligned."""
    from arriero.bench.experiments.evidence_page import shown

    cells = [list(table.heads), *([shown(value) for value in row] for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in cells]
    return [f"{table.title} [{table.label}]", *lines, *([table.note] if table.note else [])]


def _over(experiment: "Experiment[Any]", flags: Namespace) -> dict[str, Any]:
    """Values of flags that are put over the definition."""
    known = experiment.config.__struct_fields__
    over: dict[str, Any] = {}
    for flag, value in (("model", flags.model), ("peer", flags.peer)):
        if value is None:
            continue
        if flag not in known:
            raise ConfigError(f"--{flag} {value}: {experiment.name} has no {flag}; leave it out")
        over[flag] = {"reference": value} if flag == "model" else value
    return over


def _definition(name: str) -> Path:
    """The definition in the checkout that the package was loaded from, or below the working folder.

    Raises:
        ConfigError: there is none.
    """
    for root in (Path(__file__).resolve().parents[4], Path.cwd()):
        path = root / DEFINITIONS / f"{name}.toml"
        if path.is_file():
            return path
    raise ConfigError(f"{name}: no {DEFINITIONS}/{name}.toml in the checkout or here; name one with --config")


def default_folder(name: str, *, quick: bool) -> Path:
    """Where evidence goes if nobody says; that of small variants without a model below an ignored folder."""
    return Path(ARTIFACTS, EVIDENCE, name) if quick else Path(EVIDENCE, name)


def _name(word: str) -> str:
    numbers = {entry.number.lower(): name for name, entry in reversed(tuple(EXPERIMENTS.items())) if entry.number}
    name = numbers.get(word.lower(), word)
    if name in EXPERIMENTS:
        return name
    match = get_close_matches(word, EXPERIMENTS, n=1)
    remedy = f"did you mean {match[0]}?" if match else f"use {', '.join(EXPERIMENTS)}"
    raise ConfigError(f"bench experiment {word}: no such experiment; {remedy}")


def _parser(name: str) -> LineParser:
    parser = make_parser(f"bench experiment {name}", f"{EXPERIMENTS[name].says}; leaves an evidence package.")
    says = f"its definition (default: {DEFINITIONS}/{name}.toml)"
    parser.add_argument("--config", metavar="FILE", help=says)
    parser.add_argument("--quick", action="store_true", help="the small variant of the definition, without a model")
    parser.add_argument("--model", metavar="MODEL", help="another model than the definition's")
    parser.add_argument("--peer", metavar="FILE", help="the peer's program, for experiments that have one")
    parser.add_argument(
        "--out",
        metavar="DIR",
        help=f"the evidence package (default: {EVIDENCE}/{name}; with --quick {ARTIFACTS}/{EVIDENCE}/{name})",
    )
    parser.add_argument("--force", action="store_true", help="replace an evidence package that exists")
    return parser


def _overview() -> LineParser:
    width = max(map(len, EXPERIMENTS))
    return LineParser(
        prog="arriero bench experiment",
        usage="arriero bench experiment [--help | NAME ...]",
        description="Published experiments, run again: what each decides is said before it runs.",
        epilog="\n".join([
            "experiments:",
            *(f"  {name:<{width}}  {entry.number:<2}  {entry.says}" for name, entry in EXPERIMENTS.items()),
            "",
            "`arriero bench experiment NAME --help` tells the rest.",
        ]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
