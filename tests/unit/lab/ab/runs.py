"""Runs of small commands for tests: a program that prints figures, with noise that follows from a counter in a file."""

from collections.abc import Sequence
from pathlib import Path

from arriero.lab.ab.plan import AbPlan, manifest_for
from arriero.lab.ab.runner import AbSetup
from arriero.lab.ab.session import SessionOptions, run_ab
from arriero.lab.ab.variants import Program, Variant
from arriero.record.cpu_lab.ab import AbResult
from arriero.record.cpu_lab.ab_run import MetricFacts
from arriero.record.cpu_lab.environment import LabEnvironment
from arriero.record.machine import machine_facts

RATE = MetricFacts(name="rate", higher_is_better=True)

SCRIPT = """
set -eu
level=$1 counter=$(dirname "$0")/counter
n=$(cat "$counter" 2>/dev/null || echo 0)
echo $((n + 1)) > "$counter"
echo "some words before"
echo "{\\"rate\\": $level.$(( (n * 37) % 100 + 100 )), \\"list\\": [{\\"x\\": 2}]}"
"""


def environment() -> LabEnvironment:
    return LabEnvironment(
        machine=machine_facts(),
        isa=(),
        compilers={},
        library=None,
        version="0",
        revision=None,
        is_dirty=True,
        fingerprint="0" * 64,
        reasons={"library": "not looked for", "revision": "not looked for"},
    )


def program(folder: Path, level: int, *, script: str = SCRIPT, keys: Sequence[str] = ("rate",)) -> Variant:
    """A side whose rate is `level` and a little more."""
    path = folder / "print.sh"
    path.write_text(script)
    words = ("/bin/sh", str(path), str(level))
    return Variant(name=f"level {level}", target=Program(words=words, keys=tuple(keys)))


def setup(a: Variant, b: Variant, plan: AbPlan | None = None) -> AbSetup:
    own = plan or AbPlan(num_pairs=8, num_aa_pairs=3, num_warm_ups=1, metrics=(RATE,), timeout_s=20)
    where = environment()
    return AbSetup(
        manifest=manifest_for(own, {"a": a, "b": b}, where),
        variants={"a": a, "b": b},
        environment=where,
        command=("arriero", "lab", "ab"),
        sample=None,
    )


def made_result(folder: Path, plan: AbPlan | None = None, *, levels: tuple[int, int] = (50, 60)) -> AbResult:
    """A whole run of two programs, B faster than A."""
    sides = program(folder, levels[0]), program(folder, levels[1])
    return run_ab(setup(*sides, plan), folder / "run", lambda _: None, SessionOptions())
