"""survey: facts, warnings and ceilings of this machine in one result."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from arriero.backend.cpu_features import FEATURES, FeatureDifference, compare_features, features_of_cpu
from arriero.lab.compile import find_compilers
from arriero.lab.machine.ceilings import Measured, Probe, Tell, plan_ceilings
from arriero.lab.machine.compiled_probe import CompiledProbe
from arriero.lab.machine.details import machine_details
from arriero.lab.machine.environment import lab_environment
from arriero.lab.machine.load_samples import sample_conditions
from arriero.lab.machine.numpy_probe import NumpyProbe
from arriero.lab.machine.warnings import Seen, find_warnings
from arriero.record.cpu_lab.environment import LibraryFacts
from arriero.record.cpu_lab.machine_result import MachineResult
from arriero.record.machine import ROOT

WATCH_S: Final = 1.0
"""How long the machine is watched before it is judged."""


def default_probe() -> Probe:
    """C programs where there is a compiler, numpy where there is none."""
    compiler = next(iter(find_compilers().values()), None)
    return NumpyProbe() if compiler is None else CompiledProbe(compiler=compiler)


def survey(
    probe: Probe | None,
    *,
    quick: bool = False,
    threads: Sequence[int] | None = None,
    busy: str | None = None,
    tell: Tell = lambda _line: None,
    root: Path = ROOT,
) -> MachineResult:
    """Look, measure, look again.

    Args:
        probe: measures the ceilings; None for facts and warnings alone.
        quick: see `plan_ceilings`.
        threads: numbers of them to measure at.
        busy: the line that says what keeps the machine busy, for the result.
        tell: hears what is measured next.
        root: where `proc` and `sys` are.

    Raises:
        ConfigError: the compiler cannot build the programs.
    """
    environment, details = lab_environment(root=root), machine_details(root)
    before = sample_conditions(WATCH_S, root=root)
    difference = feature_difference(environment.library, root)
    seen = Seen(environment, details, before, difference.unused_by_build, difference.lacking_in_cpu)
    plan = plan_ceilings(details, environment.isa, quick=quick, threads=threads)
    nothing = Measured((), {"ceilings": "not asked for"})
    measured = nothing if probe is None else probe.measure(plan, tell)
    return MachineResult(
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        environment=environment,
        details=details,
        warnings=find_warnings(seen),
        ceilings=measured.ceilings,
        method=None if probe is None else probe.method,
        array_bytes=None if probe is None else plan.array_bytes,
        quick=quick,
        busy=busy,
        before=before,
        after=sample_conditions(root=root),
        reasons=measured.reasons,
    )


def feature_difference(library: LibraryFacts | None, root: Path = ROOT) -> FeatureDifference:
    """Instruction sets that a build needs beyond this CPU, and those that it leaves unused."""
    if library is None or not FEATURES.keys() & set(library.features):  # not x86: the build chooses at run time
        return FeatureDifference((), ())
    return compare_features(frozenset(library.features), features_of_cpu(root / "proc/cpuinfo"))
