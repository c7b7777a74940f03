"""`arriero sim run`: one configuration, in arriero's own mode or as the published lab runs it."""

import json
import sys
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from arriero.cli.simulation.journals import add_journal, check_journal, opened_journal
from arriero.cli.simulation.output import ROOT, add_force, require_absent
from arriero.cli.sources import LineParser, make_parser
from arriero.core.errors import ConfigError

LAB: Final = "serving-lab"


def main(arguments: Sequence[str]) -> int:
    """Simulate and write the rows.

    Raises:
        ConfigError: flags that do not go together, or a result that exists. DataError: a file cannot be used.
    """
    flags = _parser().parse_args(arguments)
    command = ["arriero", "sim", "run", *arguments]
    return _run_lab(flags, command) if flags.preset == LAB else _run_own(flags, command)


def _run_lab(flags: Namespace, command: Sequence[str]) -> int:
    from arriero.cli.simulation.lab import Files, load, run_lab
    from arriero.record.lab_config import read_lab_config
    from arriero.record.lab_report import as_markdown, summarise
    from arriero.sim.runs import run_serving_lab

    if flags.json:
        raise ConfigError("--json: goes without --preset; use `arriero sim summary FILE --format json` afterwards")
    if flags.trace == "counts":
        raise ConfigError("--trace counts: the published format lists everybody or nothing; use full or off")
    path = Path(flags.config)
    config = read_lab_config(path)
    out = Path(flags.out) if flags.out is not None else Path(ROOT) / config.output_path
    require_absent([out], force=flags.force)
    journal_path = Path(flags.journal) if flags.journal else None
    check_journal(journal_path, out, force=flags.force)
    workload = Path(flags.workload) if flags.workload else None
    manifest = Path(flags.manifest) if flags.manifest else None
    inputs = load(config, Files(path, workload, manifest, Path(flags.root or ".")))
    with_iterations = flags.trace != "off"
    with opened_journal(journal_path, force=flags.force) as journal:
        simulate = partial(run_serving_lab, journal=journal)
        result = run_lab(inputs, out, simulate, command, force=flags.force, with_iterations=with_iterations)
    sys.stdout.write(as_markdown([summarise(result, out.as_posix())]))
    print(f"{out}: {len(result.requests):,} requests, {result.summary.run_status}")
    return 0


def _run_own(flags: Namespace, command: Sequence[str]) -> int:
    from arriero.cli.simulation.own import OwnFiles, run_own
    from arriero.cli.simulation.own_view import show
    from arriero.record.simulation_config import read_simulation_config

    path = Path(flags.config)
    config = read_simulation_config(path)
    if flags.manifest or flags.workload or flags.root:
        message = "--workload, --manifest and --root go with --preset; here the configuration names its workload"
        raise ConfigError(message)
    if flags.out is None and (Path(config.name).name != config.name or not config.name.isprintable()):
        raise ConfigError(f"{path}: name: {config.name!a} is no name for a file; mend it or say --out")
    out = Path(flags.out) if flags.out is not None else Path(ROOT) / "sim" / f"{config.name}.jsonl"
    files = OwnFiles(path, out, Path(flags.journal) if flags.journal else None)
    summary = run_own(config, files, command, force=flags.force, trace=flags.trace)
    if flags.json:
        print(json.dumps(summary, indent=2, sort_keys=True))
    else:
        show(config.name, summary)
    print(f"{out}: written", file=sys.stderr)
    return 0


def _parser() -> LineParser:
    parser = make_parser("sim run", "Simulate one configuration and write its rows.")
    parser.add_argument("--config", metavar="FILE", required=True, help="arriero-simulation-v1, or that of the preset")
    parser.add_argument("--preset", choices=[LAB], help="run as the published lab does, and write its format")
    parser.add_argument("--workload", metavar="FILE", help="with --preset: instead of the one in the configuration")
    parser.add_argument("--manifest", metavar="FILE", help="with --preset: of the workload (default: beside it)")
    parser.add_argument("--root", metavar="DIR", help="with --preset: where its paths start (default: .)")
    parser.add_argument("--trace", choices=["off", "counts", "full"], help="step rows (default: as configured)")
    parser.add_argument("--out", metavar="FILE", help=f"the result (default: below {ROOT})")
    add_journal(parser)
    parser.add_argument("--json", action="store_true", help="without --preset: print the whole summary")
    add_force(parser)
    return parser
