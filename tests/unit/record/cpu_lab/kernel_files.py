"""A small result of the kernel workbench and one of a variant, written down."""

from arriero.metrics.kernel_times import ratio_of_medians, time_figures
from arriero.record.bench_parts import RunFacts
from arriero.record.cpu_lab.code_difference import CodeDifference, CodeSide
from arriero.record.cpu_lab.conditions import ConditionSample
from arriero.record.cpu_lab.environment import LabEnvironment
from arriero.record.cpu_lab.kernels import CandidateResult, GateRow, KernelsResult, TimedKernel, TimedSize
from arriero.record.cpu_lab.variant import (
    BuildFacts,
    EditedFile,
    EditFacts,
    LibraryPair,
    LoadCheck,
    ObjectDifference,
    SourceFacts,
    VariantResult,
)
from arriero.record.machine import MachineFacts

SHA = "ab" * 32
OTHER_SHA = "cd" * 32
SEED = 7
RESAMPLES = 100


def run_facts() -> RunFacts:
    return RunFacts(
        command=("arriero", "lab", "kernels"),
        started_at="2026-11-30T00:00:00+00:00",
        seconds=12.5,
        was_interrupted=False,
        version="0.1.0",
        code_sha256=SHA,
        revision=None,
        is_dirty=True,
        python="3.11.7 (cpython)",
        packages={"numpy": "2.4.0"},
    )


def machine() -> MachineFacts:
    return MachineFacts(
        cpu="a CPU", cores=2, cores_online=2, cgroup_cores=None, governor=None, frequency_mhz=None, virtualised=True,
        memory_bytes=2**30, kernel="Linux 6", python="3.11.7 (cpython)", reasons={"governor": "cannot be read"},
    )  # fmt: skip


def environment() -> LabEnvironment:
    return LabEnvironment(
        machine=machine(), isa=("avx2",), compilers={"gcc": "gcc 12.2.0"}, library=None, version="0.1.0",
        revision=None, is_dirty=True, fingerprint=SHA, reasons={"library": "the binding is not here"},
    )  # fmt: skip


def conditions() -> ConditionSample:
    return ConditionSample(
        taken_at="2026-11-30T00:00:00+00:00", seconds=0.25, load_average=None, frequency_mhz=None, temperature_c=None,
        steal_share=0.0, other_cores=0.0, others=(), reasons={"load_average": "none here"},
    )  # fmt: skip


def difference(symbol: str = "q8_tile") -> CodeDifference:
    return CodeDifference(
        symbol=symbol,
        before=CodeSide(size_bytes=400, instructions=80, sha256=SHA),
        after=CodeSide(size_bytes=None, instructions=78, sha256=OTHER_SHA),
        removed={"vcvtph2ps": 1, "vbroadcastss": 2},
        added={"vshufps": 1},
        changed_lines=None,
    )


def timed_size(size: int = 28, *, faster: float = 2.0) -> TimedSize:
    calls = 10
    baseline = (2000, 2100, 2050)
    times = {"baseline": baseline, "candidate": tuple(int(each / faster) for each in baseline), "ggml": (900, 950, 910)}
    kernels = tuple(
        TimedKernel(
            label="ggml: vec_dot" if role == "ggml" else role,
            role=role,  # type: ignore[arg-type]  # the three words of the field
            nanoseconds=each,
            figures=time_figures(each, calls),
            equal_bits=role != "ggml",
            largest_difference=0.0 if role != "ggml" else 1e-7,
        )
        for role, each in times.items()
    )
    ratio = ratio_of_medians(times["baseline"], times["candidate"], seed=SEED, resamples=RESAMPLES)
    return TimedSize(size=size, calls=calls, warm_ups=5, kernels=kernels, ratio=ratio)


def candidate(*, passed: bool = True) -> CandidateResult:
    gates = (
        GateRow(name="bits", passed=True, says="20 results, all bits equal"),
        GateRow(name="time", passed=passed, says="faster at every size" if passed else "not faster everywhere"),
    )
    return CandidateResult(
        experiment="q8-tile", says="converts both scales at once", compiler="gcc 12.2.0", compiler_name="gcc",
        flags=("-O3",), library_sha256=SHA, skipped=None, gates=gates,
        in_library=(GateRow(name="ggml's matrix kernel, depth 28", passed=True, says="20 tiles"),),
        code=difference(), sizes=(timed_size(),), reasons={},
    )  # fmt: skip


def skipped() -> CandidateResult:
    return CandidateResult(
        experiment="q8-tile", says="converts both scales at once", compiler=None, compiler_name="clang",
        flags=("-O3",), library_sha256=None, skipped="clang is not on this machine", gates=(), in_library=(),
        code=None, sizes=(), reasons={"compiler": "clang is not on this machine"},
    )  # fmt: skip


def kernels_result(*candidates: CandidateResult, busy: str | None = None, is_quick: bool = False) -> KernelsResult:
    return KernelsResult(
        is_quick=is_quick, run=run_facts(), environment=environment(), sources={"q8_tile.c": SHA}, seed=SEED,
        resamples=RESAMPLES, before=conditions(), after=conditions(), busy=busy,
        candidates=candidates or (candidate(), skipped()),
    )  # fmt: skip


def variant_result(*, symbols: tuple[CodeDifference, ...] = (difference(),)) -> VariantResult:
    return VariantResult(
        run=run_facts(),
        edit=EditFacts(
            name="packed-scale",
            says="Converts both scales at once.",
            file_sha256=SHA,
            files=(
                EditedFile(
                    file="a/b.cpp", before_sha256=SHA, after_sha256=OTHER_SHA, places=2, lines_removed=0, lines_added=9
                ),
            ),
        ),
        source=SourceFacts(origin="llama.tar.gz", sha256=SHA, kind="archive"),
        build=BuildFacts(
            isa="avx2", target="llama", definitions=("-DX=ON",), compiler_flags=(), compiler="g++ 12", cmake="cmake 3",
            generator="Ninja",
        ),
        objects=200,
        rebuilt=1,
        differing=(
            ObjectDifference(
                name="b.cpp.o",
                baseline_sha256=SHA,
                variant_sha256=OTHER_SHA,
                symbols=symbols,
                reason=None if symbols else "the same instructions: something else in the file differs",
            ),
        ),
        libraries=(
            LibraryPair(
                name="libggml-cpu.so.0", baseline_bytes=10, baseline_sha256=SHA, variant_bytes=12,
                variant_sha256=OTHER_SHA,
            ),
            LibraryPair(
                name="libggml.so.0", baseline_bytes=10, baseline_sha256=SHA, variant_bytes=10, variant_sha256=SHA
            ),
        ),
        checks=(
            LoadCheck(build="baseline", loads=True, says="ggml 0.25.3, compiled for AVX2"),
            LoadCheck(build="variant", loads=None, says="no libllama among its libraries: not tried"),
        ),
    )  # fmt: skip
