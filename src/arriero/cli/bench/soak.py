"""`arriero bench soak`: a server under everything at once, for half an hour, in a folder from which it can go on.

The state is on disk after each leg. A soak that was stopped or killed goes on with the same command and `--resume`.
"""

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from arriero.cli.sources import LineParser, make_parser
from arriero.core.errors import ConfigError

if TYPE_CHECKING:
    from arriero.bench.soak.settings import SoakSettings
    from arriero.bench.soak.state import StateFile

DEFINITION: Final = "definitions/soak.toml"
_SETTINGS: Final = ("minutes", "model", "itl_target", "seed", "config", "quick")


def main(arguments: Sequence[str]) -> int:
    """Run a soak, or go on with one; status 0 only if every statement holds.

    Raises:
        ConfigError: a soak is there already, other settings than its own are given, or the server cannot be had.
        DataError: the definition or the state breaks its format.
    """
    flags = _parser().parse_args(arguments)
    from arriero.bench.client_loop import run as run_on_loop
    from arriero.bench.experiments.experiment import Judgement
    from arriero.bench.soak.report import outcome_of, write_report
    from arriero.bench.soak.run import run_soak
    from arriero.cli.bench.experiment import tell_outcome

    folder = Path(flags.out)
    file = _state_of(flags, folder)
    try:
        run_on_loop(run_soak(file, folder, lambda line: print(line, file=sys.stderr, flush=True)))
    except KeyboardInterrupt:
        print(f"arriero: stopped after {len(file.state.legs)} legs; --resume goes on", file=sys.stderr)
        raise
    outcome = outcome_of(file.state)
    write_report(folder, outcome)
    tell_outcome(outcome)
    print(f"{outcome.judgement} soak: report in {folder}")
    return 0 if outcome.judgement is Judgement.HOLDS else 1


def _state_of(flags: Namespace, folder: Path) -> "StateFile":
    """The state to go on from, on disk.

    Raises:
        ConfigError: there is one and nobody wants to resume it, or it has other settings.
    """
    from msgspec.structs import replace

    from arriero.bench.soak.state import SoakState, StateFile, read_state

    found = read_state(folder)
    if found is not None and not flags.resume:
        raise ConfigError(f"{folder}: holds a soak already; go on with --resume, or name another folder with --out")
    given = (getattr(flags, name) for name in _SETTINGS)
    says = any(value is not None and value is not False for value in given)  # 0 is a value
    settings = _settings(flags) if found is None or says else found.settings
    if found is None:
        file = StateFile(folder, SoakState(settings=settings))
        file.put(file.state)
        return file
    if settings != found.settings:
        raise ConfigError(
            f"{folder}: holds a soak with another {_difference(settings, found.settings)}; repeat its own"
        )
    file = StateFile(folder, found)
    if not found.is_over:
        file.put(replace(found, num_resumed=found.num_resumed + 1))
    return file


def _difference(given: "SoakSettings", kept: "SoakSettings") -> str:
    """The name of the first setting in which they differ."""
    return next(name for name in given.__struct_fields__ if getattr(given, name) != getattr(kept, name))


def _settings(flags: Namespace) -> "SoakSettings":
    from arriero.bench.experiments.definition import read_definition
    from arriero.bench.soak.settings import SoakSettings

    given = {
        "minutes": flags.minutes,
        "model": flags.model,
        "itl_target_ms": flags.itl_target,
        "seed": flags.seed,
    }
    over: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    path = Path(flags.config) if flags.config else _definition()
    settings = read_definition(path, SoakSettings, quick=flags.quick, over=over)
    if flags.model is not None and settings.backend == "synthetic":
        raise ConfigError(f"--model {flags.model}: the synthetic backend computes without one; leave out one of them")
    settings.check()
    return settings


def _definition() -> Path:
    """The definition in the checkout that the package was loaded from, or below the working folder.

    Raises:
        ConfigError: there is none.
    """
    for root in (Path(__file__).resolve().parents[4], Path.cwd()):
        if (path := root / DEFINITION).is_file():
            return path
    raise ConfigError(f"no {DEFINITION} in the checkout or here; name one with --config")


def _parser() -> LineParser:
    from arriero.cli.simulation.numbers import amount, count

    parser = make_parser(
        "bench soak",
        "Put a server under overload, cancels, long prompts, slow readers and a busy neighbour, and balance its books.",
    )
    parser.add_argument("--minutes", metavar="N", type=amount, help="how long (default: as its definition says, 30)")
    parser.add_argument("--model", metavar="MODEL", help="another model than the definition's")
    parser.add_argument("--itl-target", metavar="MS", type=count, help="between tokens; 0: none (default: 100)")
    parser.add_argument("--seed", metavar="N", type=int, help="of everything that comes (default: 1)")
    parser.add_argument("--out", metavar="DIR", required=True, help="where its state, logs and report are")
    parser.add_argument("--resume", action="store_true", help="go on with the soak in DIR; begins one if there is none")
    parser.add_argument("--config", metavar="FILE", help=f"its definition (default: {DEFINITION})")
    parser.add_argument("--quick", action="store_true", help="the small variant of the definition, without a model")
    return parser
