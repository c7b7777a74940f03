"""`arriero lab kernels`: the workbench of extracted kernels. What it measures is a micro-benchmark and stays one."""

import time
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from arriero.cli.lab.kernels_flags import COMPILERS, FILE, KERNELS, chosen, command_words, kernels_parser
from arriero.cli.lab.results import require_room, tell, tell_result, write_folder
from arriero.cli.quiet import busy_or_refused
from arriero.core.errors import BindingMismatch

if TYPE_CHECKING:
    from arriero.backend.ggml_kernels import GgmlKernels
    from arriero.lab.kernels.experiment import Experiment
    from arriero.lab.kernels.timing import Turns
    from arriero.lab.kernels.workbench import Setting
    from arriero.record.cpu_lab.kernels import CandidateResult, KernelsResult
    from arriero.report.document import Document
    from arriero.report.drawing import Drawn

_WARM_UPS: Final = 2_000
_QUICK_WARM_UPS: Final = 100
_QUICK_CALLS: Final = 1_000
_REPETITIONS: Final = MappingProxyType({"q8-tile": 11, "q6-dot": 9})
_QUICK_REPETITIONS: Final = 5


def main(arguments: Sequence[str]) -> int:
    """Check, time and write; or write the report of a file anew.

    Raises:
        ConfigError: a flag that cannot work, a busy machine, a compiler that refuses. DataError: a damaged `--from`.
    """
    flags = kernels_parser().parse_args(arguments)
    if flags.source is not None:
        from arriero.record.cpu_lab.kernels_file import read_kernels

        result = read_kernels(Path(flags.source))
        folder = require_room(flags, FILE)
    else:
        folder = require_room(flags, FILE)
        result = _measure(folder, flags)
    write_folder(folder, lambda: _plain(result), lambda: _drawn(result), force=flags.force)
    tell_result(result, summary_lines(result), folder, file=FILE, as_json=flags.json)
    return 0


def summary_lines(result: "KernelsResult") -> Iterator[str]:
    """What a person wants to know: each candidate's verdict, the gate it stopped at, and its times."""
    yield f"{result.evidence}: says nothing about a whole program{'; quick, so less was compared' * result.is_quick}"
    for each in result.candidates:
        yield f"{each.experiment} by {each.compiler_name}: {each.verdict}{_reason(each)}"
        for gate in each.in_library:
            yield f"  {gate.name}: {'equal bits' if gate.passed else gate.says}"
        for size in each.sizes:
            times = ", ".join(f"{kernel.label} {kernel.figures.median_ns:,.1f} ns" for kernel in size.kernels)
            ratio = f"{size.ratio.value:.3f}x [{size.ratio.low:.3f}, {size.ratio.high:.3f}]"
            yield f"  size {size.size:>3}: {ratio}  {times}"
    if result.busy is not None:
        yield f"doubtful: {result.busy}"


def _reason(candidate: "CandidateResult") -> str:
    failed = candidate.failed
    if candidate.skipped is not None:
        return f" ({candidate.skipped})"
    return f" ({len(candidate.gates)} gates)" if failed is None else f" at the gate '{failed.name}': {failed.says}"


def _measure(folder: Path, flags: Namespace) -> "KernelsResult":
    from arriero.lab.compile import find_compilers
    from arriero.lab.kernels.toolchain import source_hashes
    from arriero.lab.kernels.workbench import run_workbench
    from arriero.lab.machine.environment import lab_environment
    from arriero.lab.machine.load_samples import sample_conditions
    from arriero.record.bench_result_run import run_facts
    from arriero.record.cpu_lab.kernels import KernelsResult
    from arriero.record.cpu_lab.kernels_file import write_kernels

    busy = busy_or_refused("or use --busy-ok for a doubtful result", busy_ok=flags.busy_ok)
    began, started_at = time.monotonic(), datetime.now(UTC)
    ggml, without = _ggml()
    setting = _setting(folder, flags, without)
    before = sample_conditions()
    candidates = tuple(
        run_workbench(_experiments(flags, ggml), find_compilers(), chosen(flags.compiler, COMPILERS), setting, tell)
    )
    result = KernelsResult(
        is_quick=flags.quick,
        run=run_facts(command_words(flags), started_at=started_at, seconds=time.monotonic() - began),
        environment=lab_environment(),
        sources=source_hashes(),
        seed=setting.seed,
        resamples=setting.resamples,
        before=before,
        after=sample_conditions(),
        busy=busy,
        candidates=candidates,
    )
    write_kernels(folder / FILE, result)
    return result


def _setting(folder: Path, flags: Namespace, without_ggml: str | None) -> "Setting":
    from arriero.backend.cpu_features import features_of_cpu
    from arriero.lab.kernels.toolchain import FLAGS, machine_name, skip_reason
    from arriero.lab.kernels.workbench import Setting

    skip = skip_reason(machine_name(), features_of_cpu(Path("/proc/cpuinfo")))
    chosen = FLAGS if flags.flags is None else tuple(flags.flags.split())
    return Setting(folder, chosen, skip, without_ggml)


def _experiments(flags: Namespace, ggml: "GgmlKernels | None") -> "list[Experiment]":
    from arriero.lab.kernels.experiment import FULL, QUICK
    from arriero.lab.kernels.q6_dot import CALLS, DotExperiment
    from arriero.lab.kernels.q8_tile import DEPTHS, TileExperiment

    amounts = QUICK if flags.quick else FULL
    made: dict[str, Experiment] = {
        "q8-tile": TileExperiment(amounts, ggml, _turns("q8-tile", DEPTHS, quick=flags.quick)),
        "q6-dot": DotExperiment(amounts, ggml, _turns("q6-dot", CALLS, quick=flags.quick)),
    }
    return [made[name] for name in chosen(flags.kernel, KERNELS)]


def _turns(kernel: str, calls: Mapping[int, int], *, quick: bool) -> "dict[int, Turns]":
    from arriero.lab.kernels.timing import Turns

    if quick:
        return {size: Turns(_QUICK_WARM_UPS, _QUICK_REPETITIONS, _QUICK_CALLS) for size in calls}
    return {size: Turns(_WARM_UPS, _REPETITIONS[kernel], count) for size, count in calls.items()}


def _ggml() -> "tuple[GgmlKernels | None, str | None]":
    """The kernels of the library in use, or why there are none to time beside ours."""
    from arriero.backend.ggml_kernels import ggml_kernels

    try:
        return ggml_kernels(), None
    except BindingMismatch as problem:
        return None, str(problem)


def _plain(result: "KernelsResult") -> "Document":
    from arriero.report.cpu_lab.kernels_document import kernels_document

    return kernels_document(result, {})


def _drawn(result: "KernelsResult") -> "tuple[Document, tuple[Drawn, ...]]":
    from arriero.report.cpu_lab.folder import pictures_by_key
    from arriero.report.cpu_lab.kernels_document import kernels_document
    from arriero.report.cpu_lab.kernels_plots import kernels_drawn

    drawn = kernels_drawn(result)
    return kernels_document(result, pictures_by_key(drawn)), drawn
