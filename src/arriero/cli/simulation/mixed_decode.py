"""`arriero sim mixed-decode`: the published simulator of rows and slots."""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from arriero.cli.simulation.journals import add_journal, check_journal, opened_journal
from arriero.cli.simulation.mixed_tables import HEADINGS, classes, figures_line, gains, grid, sweep
from arriero.cli.simulation.numbers import amount, count, positive
from arriero.cli.simulation.output import ROOT, add_force, require_absent, write_texts
from arriero.cli.sources import LineParser, make_parser
from arriero.core.errors import ConfigError
from arriero.metrics.mixed_decode import MixedCost, MixedFigures, MixedPolicy, MixedRun, mixed_figures
from arriero.sim.journal import SimulationJournal
from arriero.sim.mixed_decode import run_mixed_decode
from arriero.sim.mixed_workloads import NAMES, REALISTIC, SIZES, mixed_workload

_LETTERS: Final = dict(zip("ABCDEFM", NAMES, strict=True))
REALISTIC_SEED: Final = 7
DEFAULT_SEED: Final = 42


def main(arguments: Sequence[str]) -> int:
    """Print the table of every workload, or of one; write its CSV files if a folder is named.

    Raises:
        ConfigError: an option that cannot work. InvariantViolation: a rule of the simulator was broken.
    """
    flags = _parser().parse_args(arguments)
    policies = [MixedPolicy(name) for name in dict.fromkeys(flags.policy or [each.value for each in MixedPolicy])]
    cost = MixedCost(
        base=flags.base_ms,
        prompt_token=flags.prompt_token_ms,
        decode_token=flags.decode_token_ms,
        active_slot=flags.active_slot_ms,
        stream_emit=flags.stream_emit_ms,
    )
    if flags.workload is None and flags.out is not None:
        raise ConfigError("--out: needs one --workload, since a folder holds the files of one; name it")
    asked: str | None = flags.workload
    names = list(NAMES) if asked is None else [_LETTERS.get(asked, asked)]
    journal_path = _journal_path(flags, policies)
    found: dict[str, dict[MixedPolicy, MixedFigures]] = {}
    for name in names:
        with opened_journal(journal_path, force=flags.force) as journal:
            runs = _run(name, flags, policies, cost, journal)
        if not found:
            print(HEADINGS)
        found[name] = {policy: mixed_figures(run) for policy, run in runs.items()}
        for policy, figures in found[name].items():
            print(figures_line(name, policy, figures))
        if flags.out is not None:
            _write(name, flags, cost, runs)
    if asked is None and len(policies) == len(MixedPolicy):
        _print_more(found, flags, cost)
    return 0


def _print_more(found: dict[str, dict[MixedPolicy, MixedFigures]], flags: Namespace, cost: MixedCost) -> None:
    """What the whole table says, and how it depends on slots and rows."""

    def ask(name: str, slots: int, n_batch: int, policies: tuple[MixedPolicy, ...]) -> dict[MixedPolicy, MixedFigures]:
        changed = Namespace(**{**vars(flags), "slots": slots, "n_batch": n_batch})
        return {policy: mixed_figures(run) for policy, run in _run(name, changed, policies, cost).items()}

    decode_only = _LETTERS["C"]
    parts = (
        gains(found),
        classes(decode_only, found[decode_only], SIZES),
        sweep(_LETTERS["B"], ask),
        grid(_LETTERS["A"], ask),
    )
    for part in parts:
        print()
        for line in part:
            print(line)


def _journal_path(flags: Namespace, policies: Sequence[MixedPolicy]) -> Path | None:
    """Where the journal goes, if one was asked for.

    Raises:
        ConfigError: there are several runs, or the file exists.
    """
    if flags.journal is None:
        return None
    if flags.workload is None or len(policies) > 1:
        raise ConfigError("--journal: holds one run here; name one --workload and one --policy")
    check_journal(Path(flags.journal), None, force=flags.force)
    return Path(flags.journal)


def _run(
    name: str,
    flags: Namespace,
    policies: Sequence[MixedPolicy],
    cost: MixedCost,
    journal: SimulationJournal | None = None,
) -> dict[MixedPolicy, MixedRun]:
    requests = mixed_workload(name, cap=flags.cap, seed=_seed(name, flags))
    return {
        policy: run_mixed_decode(
            policy, requests, num_slots=flags.slots, n_batch=flags.n_batch, cost=cost, journal=journal
        )
        for policy in policies
    }


def _seed(name: str, flags: Namespace) -> int:
    if flags.seed is not None:
        return int(flags.seed)
    return REALISTIC_SEED if name == REALISTIC else DEFAULT_SEED


def _write(name: str, flags: Namespace, cost: MixedCost, runs: dict[MixedPolicy, MixedRun]) -> None:
    from arriero.record.mixed_csv import MixedSetup, iterations_csv, requests_csv, run_id, summary_csv

    setup = MixedSetup(name, flags.cap, flags.slots, flags.n_batch, _seed(name, flags), cost)
    folder = Path(flags.out) / run_id(setup, runs)
    files: dict[Path, str] = {folder / "summary.csv": summary_csv(setup, runs)}
    for policy, run in runs.items():
        files[folder / f"{policy}_requests.csv"] = requests_csv(run)
        files[folder / f"{policy}_iterations.csv"] = iterations_csv(run)
    require_absent(list(files), force=flags.force)
    write_texts(files, force=flags.force)
    print(f"{folder}: {len(files)} files")


def _parser() -> LineParser:
    parser = make_parser("sim mixed-decode", "Three policies on rows and slots, in float milliseconds.")
    names = ", ".join(f"{letter} {name}" for letter, name in _LETTERS.items())
    parser.add_argument("--workload", metavar="NAME", help=f"one of {names} (default: all of them)")
    parser.add_argument("--policy", action="append", choices=[each.value for each in MixedPolicy], help="only this one")
    parser.add_argument("--slots", type=positive, default=4, metavar="N", help="slots (default: 4)")
    parser.add_argument("--n-batch", type=positive, default=128, metavar="N", help="rows of a call (default: 128)")
    parser.add_argument("--cap", type=positive, metavar="N", help="requests at most")
    says = f"for {REALISTIC} (default: {REALISTIC_SEED}; of the others only the id of the run, {DEFAULT_SEED})"
    parser.add_argument("--seed", type=count, metavar="N", help=says)
    for name, value in (("base", 1.0), ("prompt-token", 0.05), ("decode-token", 0.5), ("active-slot", 0.0),
                        ("stream-emit", 0.0)):  # fmt: skip
        parser.add_argument(f"--{name}-ms", type=amount, default=value, metavar="MS", help=f"cost (default: {value})")
    add_journal(parser)
    example = f"{ROOT}/mixed-decode"
    parser.add_argument("--out", metavar="DIR", help=f"write the CSV files into a folder below it, such as {example}")
    add_force(parser)
    return parser
