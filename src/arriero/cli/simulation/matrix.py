"""`arriero sim matrix FILE`: every configuration of a list, then their comparisons."""

import json
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from arriero.cli.simulation.numbers import positive
from arriero.cli.simulation.output import ROOT, add_force, require_absent, write_texts
from arriero.cli.sources import LineParser, make_parser
from arriero.record.lab_matrix import MOST_RUNS, LabMatrix

DEFAULT_OUT: Final = f"{ROOT}/sim"


def main(arguments: Sequence[str]) -> int:
    """Run what was selected, in the order of the list; the first that fails ends it.

    Raises:
        ConfigError: too many runs, an unknown name, results that exist. DataError: a file cannot be used.
    """
    from arriero.record.lab_comparisons import check_words
    from arriero.record.lab_matrix import locate, read_matrix, select

    flags = _parser().parse_args(arguments)
    path, root = Path(flags.matrix), Path(flags.root)
    matrix = read_matrix(path)
    check_words(matrix, str(path))
    chosen = locate(select(matrix, flags.only, flags.max_runs), root, file=str(path))
    results = {config: Path(flags.out) / "raw" / f"{found.stem}.jsonl" for config, found in chosen.items()}
    if flags.dry_run:
        for config, found in chosen.items():
            print(f"{config}: {found} -> {results[config]}")
        return 0
    return _run_all(flags, matrix, chosen, results)


def _run_all(flags: Namespace, matrix: LabMatrix, chosen: dict[str, Path], results: dict[str, Path]) -> int:
    from arriero.cli.simulation.lab import Files, load, run_lab
    from arriero.record.lab_comparisons import comparisons_markdown
    from arriero.record.lab_config import read_lab_config
    from arriero.record.lab_file import LabResult
    from arriero.record.lab_report import as_csv, as_json, as_markdown, summarise
    from arriero.sim.runs import run_serving_lab

    out = Path(flags.out)
    reports = {name: out / name for name in ("command_manifest.json", "summary.json", "summary.csv", "report.md")}
    require_absent([*results.values(), *reports.values()], force=flags.force)
    inputs = {
        config: load(read_lab_config(found), Files(found, None, None, Path(flags.root)))
        for config, found in chosen.items()
    }
    done: dict[str, LabResult] = {}
    for config, each in inputs.items():
        command = ["arriero", "sim", "run", "--preset", "serving-lab", "--config", config]
        done[chosen[config].stem] = run_lab(
            each, results[config], run_serving_lab, command, force=flags.force, with_iterations=True
        )
        print(f"{results[config]}: {each.config.name}, {done[chosen[config].stem].summary.run_status}")
    summaries = [
        summarise(result, results[config].as_posix()) for config, result in zip(results, done.values(), strict=True)
    ]
    runs = [{"config": config, "result": path.relative_to(out).as_posix()} for config, path in results.items()]
    listing = {"evidence_type": "SIMULATED", "matrix": Path(flags.matrix).name, "runs": runs}
    text = f"{as_markdown(summaries)}\n{comparisons_markdown(matrix, done)}"
    texts = {
        "command_manifest.json": f"{json.dumps(listing, indent=2, sort_keys=True)}\n",
        "summary.json": as_json(summaries),
        "summary.csv": as_csv(summaries),
        "report.md": text,
    }
    write_texts({reports[name]: text for name, text in texts.items()}, force=flags.force)
    sys.stdout.write(text)
    return 0


def _parser() -> LineParser:
    parser = make_parser("sim matrix", "Simulate every configuration of a matrix, then print its comparisons.")
    parser.add_argument("matrix", metavar="FILE", help="of the format serving-matrix-v1")
    parser.add_argument("--root", metavar="DIR", default=".", help="where the paths inside start (default: .)")
    parser.add_argument("--only", metavar="NAME", action="append", default=[], help="run this one; may be repeated")
    parser.add_argument("--dry-run", action="store_true", help="check everything and print what would be run")
    says = f"refuse to start more runs than this (default: {MOST_RUNS})"
    parser.add_argument("--max-runs", metavar="N", type=positive, default=MOST_RUNS, help=says)
    parser.add_argument("--out", metavar="DIR", default=DEFAULT_OUT, help=f"output folder (default: {DEFAULT_OUT})")
    add_force(parser)
    return parser
