"""`arriero calibrate`: measures what steps cost on this machine with this model, and writes a profile."""

import os
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from arriero.cli.calibrate_flags import CALIBRATED
from arriero.cli.logs import set_up_logs
from arriero.cli.machine import available_cores
from arriero.cli.quiet import busy_or_refused
from arriero.cli.sources import LineParser, add_options, configure, make_parser
from arriero.core.config import OPTIONS, BackendKind, ServeConfig
from arriero.core.errors import ConfigError
from arriero.core.option_kinds import BadValue, Numbers, Real, Threads
from arriero.core.version import VERSION

if TYPE_CHECKING:
    from arriero.cli.calibrate_backends import Opened
    from arriero.lab.calibration import Calibration
    from arriero.record.cost_profile import CostProfile, Measuring
    from arriero.record.machine_load import CpuSnapshot

SECONDS: Final = 100.0
QUIET_CORES: Final = 0.25
"""Cores that others may keep busy meanwhile before the profile says so."""

# As the server has them, so that a calibration without flags fits a server without flags.
MACHINE: Final = ServeConfig(reuse=False)
_TAKEN: Final = (*CALIBRATED, "log_level", "log_format")
MACHINE_OPTIONS: Final = tuple(
    replace(option, default=getattr(MACHINE, option.name)) for option in OPTIONS if option.name in _TAKEN
)


def main(arguments: Sequence[str]) -> int:
    """Measure, fit, write, and say how well it fits.

    Raises:
        ConfigError: the machine is busy, the profile exists already, or the context is too small.
    """
    flags = _parser().parse_args(arguments)
    counts, seconds = _counts(flags), _seconds(flags)
    config = replace(configure(flags, os.environ, MACHINE_OPTIONS, MACHINE), threads=Threads(counts[-1], counts[-1]))
    set_up_logs(config.log_level, config.log_format)
    profile, path = _measure(config, counts, seconds, flags)
    for line in summary_lines(profile):
        print(line)
    finds = "" if flags.out is not None else "; a server of this model with the same flags finds it there"
    print(f"profile: {path}{finds}")
    return 0


def _measure(
    config: ServeConfig, counts: Sequence[int], seconds: float, flags: Namespace
) -> tuple["CostProfile", Path]:
    """The profile, and where it was written."""
    from arriero.cli.calibrate_progress import told
    from arriero.cli.cost_profiles import kept_folder, kept_path
    from arriero.cli.simulation.output import new_file, require_absent
    from arriero.lab.calibration import calibrate
    from arriero.record.cost_profile import encode_cost_profile, profile_of
    from arriero.record.machine import machine_facts
    from arriero.record.machine_load import take_snapshot

    if flags.out is not None:
        require_absent([Path(flags.out)], force=flags.force)
    busy = busy_or_refused("or use --busy-ok for a doubtful profile", busy_ok=flags.busy_ok)
    machine = machine_facts()
    with _open(config, counts) as opened, told(f"calibrating {opened.name}", sys.stderr) as tell:
        before = take_snapshot()
        threads = Threads(counts[-1], counts[-1])
        found = calibrate(opened.backends, threads, seconds=seconds, tell=tell, clock=opened.clock)
        measuring = _measuring(found, opened, before, busy)
        profile = profile_of(
            found.cost,
            name=opened.name,
            fingerprint=opened.fingerprint,
            residuals=found.residuals,
            measuring=measuring,
            machine=machine,
        )
    kept = kept_path(kept_folder(os.environ), profile.name, profile.fingerprint)
    path = kept if flags.out is None else Path(flags.out)
    # one that is kept was measured under the same flags, so the newer one takes its place
    with new_file(path, force=flags.force or flags.out is None) as file:
        file.write(encode_cost_profile(profile))
    return profile, path


def _measuring(found: "Calibration", opened: "Opened", before: "CpuSnapshot", busy: str | None) -> "Measuring":
    from arriero.record.cost_profile import Measuring
    from arriero.record.machine_load import load_between, take_snapshot

    load = load_between(before, take_snapshot())
    if busy is None and load.other_cores is not None and load.other_cores > QUIET_CORES:
        busy = f"others kept {load.other_cores:.2f} cores busy meanwhile; calibrate again on a quiet machine"
    return Measuring(
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=round(found.seconds, 3),
        num_rounds=found.num_rounds,
        num_samples=found.num_samples,
        load=load,
        busy=busy,
        version=VERSION,
        library=opened.library,
        late=float(f"{found.late:.4g}"),
    )


def summary_lines(profile: "CostProfile") -> Iterator[str]:
    """What a person wants to know about a profile: how far it reaches, and how far it errs."""
    valid, host, measuring = profile.valid, profile.host, profile.measuring
    yield (
        f"{profile.name}: {measuring.num_samples} steps in {measuring.seconds:.0f} s, "
        f"{measuring.num_rounds} rounds, {measuring.library}"
    )
    yield (
        f"valid for passes of up to {valid.rows} rows, {valid.sequences} sequences, {valid.context} tokens of context"
        + (f", {valid.pool} cells in use" if profile.rules.unified else "")
    )
    yield (
        f"host: {host.step_us:.0f} us a step, {host.entry_us:.1f} a sequence, {host.token_us:.1f} to choose a token, "
        f"{host.delivery_us:.1f} to hand it over"
    )
    heads = "".join(f"{word:>8}" for word in ("bias", "typical", "p90", "worst", "noise"))
    yield f"{'threads':>7} {'steps':<8} {'shapes':<9} {'n':>5}{heads}"
    for each in profile.residuals:
        shapes = f"{each.num_shapes} {'new' if each.held_out else 'fitted'}"
        yield (
            f"{each.threads:>7} {each.kind:<8} {shapes:<9} {each.num_samples:>5}{each.bias:>+8.1%}"
            f"{each.typical:>8.1%}{each.p90:>8.1%}{each.worst:>8.1%}{each.noise:>8.1%}"
        )
    if measuring.late > 0:
        yield f"speed: for one second in twenty everything took {measuring.late:.1%} longer than usual, or more"
    if measuring.busy is not None:
        yield f"doubtful: {measuring.busy}"


def _open(config: ServeConfig, counts: Sequence[int]) -> AbstractContextManager["Opened"]:
    """Backends as the configuration says, one for each number of threads."""
    name = "llama" if config.backend is BackendKind.LLAMA else "backends"
    opened: AbstractContextManager[Opened] = import_module(f"arriero.cli.calibrate_{name}").open_backends(
        config, counts
    )
    return opened


def _counts(flags: Namespace) -> tuple[int, ...]:
    """Numbers of threads, ascending; without the flag powers of two and all cores."""
    cores = available_cores()
    if flags.threads is None:
        powers = (2**power for power in range(cores.bit_length()))
        return tuple(sorted({*powers, cores}))
    try:
        return tuple(sorted(set(Numbers(1).parse(flags.threads))))
    except BadValue as error:
        raise ConfigError(f"--threads {flags.threads}: {error}") from None


def _seconds(flags: Namespace) -> float:
    try:
        return Real(0.001).parse(flags.seconds)
    except BadValue as error:
        raise ConfigError(f"--seconds {flags.seconds}: {error}") from None


def _parser() -> LineParser:
    parser = make_parser(
        "calibrate",
        "Measure what steps cost on this machine, and write a profile that predicts them. Give the flags that the "
        "server gets; --ctx-size decides how long the contexts are that the profile is valid for.",
    )
    parser.add_argument(
        "--threads",
        metavar="LIST",
        help="numbers of threads to measure, such as 1,2 (default: powers of two, all cores)",
    )
    parser.add_argument(
        "--seconds", metavar="S", default=str(SECONDS), help=f"how long to measure (default: {SECONDS:g})"
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        help="the profile (default: where a server of this model finds it, below ~/.cache/arriero/cost)",
    )
    parser.add_argument("--force", action="store_true", help="replace an --out that exists")
    parser.add_argument("--busy-ok", action="store_true", help="measure beside busy processes; the profile says so")
    add_options(parser, MACHINE_OPTIONS)
    return parser
