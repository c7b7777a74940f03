"""The workbench: builds the kernels with each compiler and takes each candidate from gate to gate.

    built  →  gates of correctness  →  other instructions than the baseline  →  faster at every size

A candidate stops at its first failed gate; what it would have cost to go on is not spent.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from arriero.core.errors import ConfigError
from arriero.lab.code_difference import compare_code
from arriero.lab.compile import Compiler
from arriero.lab.file_hash import file_sha256
from arriero.lab.kernels.experiment import SEED, Experiment
from arriero.lab.kernels.library import KernelLibrary
from arriero.lab.kernels.timing import timed_size
from arriero.lab.kernels.toolchain import FLAGS, build_kernels
from arriero.lab.object_code import missing_tool, symbol_codes
from arriero.metrics.kernel_times import RESAMPLES
from arriero.record.cpu_lab.code_difference import CodeDifference
from arriero.record.cpu_lab.kernels import CandidateResult, GateRow, TimedSize

Tell = Callable[[str], None]


class Setting(NamedTuple):
    """What a run works with."""

    folder: Path  # where libraries are built
    flags: tuple[str, ...] = FLAGS
    skip: str | None = None  # why this machine cannot run the kernels
    without_ggml: str | None = None  # why ggml's own kernels are not timed beside them
    seed: int = SEED
    resamples: int = RESAMPLES


class _Built(NamedTuple):
    compiler: Compiler
    library: KernelLibrary


def run_workbench(
    experiments: Sequence[Experiment],
    compilers: Mapping[str, Compiler],
    names: Sequence[str],
    setting: Setting,
    tell: Tell,
) -> Iterator[CandidateResult]:
    """Every candidate by every compiler that was asked for.

    Args:
        experiments: in their order.
        compilers: that are there, by name.
        names: of compilers that were asked for; one that is not there gives a skipped result with the reason.
        setting: see there.
        tell: is told what begins.

    Raises:
        ConfigError: a compiler refuses the sources or flags, or its library cannot be loaded.
    """
    for name in names:
        compiler = compilers.get(name)
        reason = setting.skip or (None if compiler else f"{name} is not on this machine")
        if compiler is None or reason is not None:
            yield from (_skipped(each, name, compiler, setting, reason or "") for each in experiments)
            continue
        tell(f"{name}: building the kernels")
        built = _Built(compiler, _opened(build_kernels(compiler, setting.folder, setting.flags)))
        for each in experiments:
            yield _candidate(each, built, setting, tell)


def _candidate(experiment: Experiment, built: _Built, setting: Setting, tell: Tell) -> CandidateResult:
    gates: list[GateRow] = []
    sizes: tuple[TimedSize, ...] = ()
    reasons: dict[str, str] = {}
    for gate in experiment.gates(built.library):
        tell(f"{built.compiler.name} {experiment.name}: {gate.name}: {'passed' if gate.passed else 'FAILED'}")
        gates.append(gate)
        if not gate.passed:
            break
    in_library = tuple(experiment.library_gates(built.library)) if gates[-1].passed else ()
    code, reason = _code(experiment, built.library.path)
    if reason is not None:
        reasons["code"] = reason
    if gates[-1].passed and code is not None:
        gates.append(code_gate(code))
    if gates[-1].passed:
        tell(f"{built.compiler.name} {experiment.name}: timing")
        sizes = tuple(_timed(experiment, built.library, setting))
        gates.append(time_gate(sizes, experiment.unit))
        if setting.without_ggml is not None:
            reasons["ggml"] = setting.without_ggml
    else:
        reasons["sizes"] = f"not timed: the gate before failed ({gates[-1].name})"
    return CandidateResult(
        experiment=experiment.name,
        says=experiment.says,
        compiler=built.compiler.version,
        compiler_name=built.compiler.name,
        flags=setting.flags,
        library_sha256=file_sha256(built.library.path),
        skipped=None,
        gates=tuple(gates),
        in_library=in_library,
        code=code,
        sizes=sizes,
        reasons=reasons,
    )


def code_gate(code: CodeDifference) -> GateRow:
    """Whether the compiler made anything else of the candidate than of the baseline."""
    if code.is_equal:
        says = "the compiler makes the same instructions of both: there is nothing to gain"
        return GateRow(name="instructions", passed=False, says=says)
    assert code.before is not None, "both symbols are in the library"
    assert code.after is not None, "same"
    says = f"{code.before.instructions} instructions become {code.after.instructions}"
    changes = [f"{count} fewer {name}" for name, count in code.removed.items()]
    changes += [f"{count} more {name}" for name, count in code.added.items()]
    return GateRow(name="instructions", passed=True, says="; ".join([says, *changes]))


def time_gate(sizes: Sequence[TimedSize], unit: str) -> GateRow:
    """Faster at every size, by the interval and not by the median alone."""
    slow = [size for size in sizes if size.ratio.low <= 1]
    shown = "; ".join(
        f"{unit} {each.size}: {each.ratio.value:.3f} [{each.ratio.low:.3f}, {each.ratio.high:.3f}]"
        for each in slow or sizes
    )
    says = f"not faster everywhere: {shown}" if slow else f"faster at every size: {shown}"
    return GateRow(name="time", passed=not slow, says=says)


def _timed(experiment: Experiment, library: KernelLibrary, setting: Setting) -> Iterator[TimedSize]:
    for size, turns in experiment.sizes():
        bout = experiment.bout(library, size)
        yield timed_size(
            bout.contestants, turns, size=size, magnitude=bout.magnitude, seed=setting.seed, resamples=setting.resamples
        )


def _code(experiment: Experiment, path: Path) -> tuple[CodeDifference | None, str | None]:
    missing = missing_tool()
    if missing is not None:
        return None, missing
    codes = symbol_codes(path, experiment.symbols)
    before, after = (codes.get(symbol) for symbol in experiment.symbols)
    if before is None or after is None:
        return None, "objdump does not find the kernels in the library"
    return compare_code(" / ".join(experiment.symbols), before, after), None


def _opened(path: Path) -> KernelLibrary:
    try:
        return KernelLibrary(path)
    except OSError as problem:
        raise ConfigError(f"{path.name}: cannot be loaded ({problem}); use other --flags") from None


def _skipped(
    experiment: Experiment, name: str, compiler: Compiler | None, setting: Setting, reason: str
) -> CandidateResult:
    return CandidateResult(
        experiment=experiment.name,
        says=experiment.says,
        compiler=compiler.version if compiler else None,
        compiler_name=name,
        flags=setting.flags,
        library_sha256=None,
        skipped=reason,
        gates=(),
        in_library=(),
        code=None,
        sizes=(),
        reasons=dict.fromkeys(("code", "library_sha256", "sizes"), reason) | ({} if compiler else {"compiler": reason}),
    )
