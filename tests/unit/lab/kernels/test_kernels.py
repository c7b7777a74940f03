"""Both kernels, compiled by every compiler that is here, and the gates that wrong ones do not pass."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from arriero.lab.compile import find_compilers
from arriero.lab.kernels.blocks import Halves, Operands
from arriero.lab.kernels.experiment import Amounts, Experiment
from arriero.lab.kernels.gates import bits_gate, error_gate, same_bits
from arriero.lab.kernels.library import KernelLibrary
from arriero.lab.kernels.q6_dot import CALLS, DotExperiment, published_bound
from arriero.lab.kernels.q8_tile import DEPTHS, TileExperiment
from arriero.lab.kernels.reference import Single
from arriero.lab.kernels.timing import Turns
from arriero.lab.kernels.toolchain import skip_reason, source_files, source_hashes
from arriero.record.cpu_lab.kernels import GateRow
from tests.unit.lab.kernels.built_kernels import any_kernels, kernels, needs_kernels

FEW = Amounts(pairs=2000, cases=30)
TURNS = Turns(warm_ups=2, repetitions=3, calls=5)


def experiments(ggml: None = None) -> Sequence[Experiment]:
    return [
        TileExperiment(FEW, ggml, dict.fromkeys((18, 3), TURNS)),
        DotExperiment(FEW, ggml, dict.fromkeys((1, 5), TURNS)),
    ]


@needs_kernels
@pytest.mark.parametrize("compiler", list(find_compilers()))
def test_every_compiler_s_kernels_pass_every_gate_of_correctness(compiler: str) -> None:
    for experiment in experiments():
        gates = list(experiment.gates(kernels(compiler)))
        assert [gate.says for gate in gates if not gate.passed] == []
        assert len(gates) == (2 + 2 * 4 if experiment.name == "q8-tile" else 2 * 5)


class Broken(KernelLibrary):
    """A candidate that is wrong in one way."""

    def __init__(self, path: Path, wrong: str) -> None:
        super().__init__(path)
        self._wrong = wrong

    def scales(self, name: str, pairs: Halves) -> Single:
        found = super().scales(name, pairs)
        if self._wrong == "swaps the scales" and name == "q8_scales_packed":
            return np.ascontiguousarray(found[:, ::-1])
        return found

    def tiles(self, kernel: str, operands: Operands) -> Single:
        found = super().tiles(kernel, operands)
        if self._wrong == "last bit" and kernel == "q8_tile_packed":
            found.view(np.uint32)[-1, 1, 3] ^= 1
        if self._wrong == "leaves a block out":
            short = Operands(*(np.ascontiguousarray(each[..., :-1]) for each in operands))
            return super().tiles(kernel, short)
        return found


def first_failure(library: KernelLibrary) -> GateRow:
    return next(gate for gate in experiments()[0].gates(library) if not gate.passed)


@needs_kernels
@pytest.mark.parametrize(
    ("wrong", "gate"),
    [
        ("swaps the scales", "scales, candidate"),
        ("last bit", "bits of the baseline, depth 18"),
        ("leaves a block out", "reference, baseline, depth 18"),
    ],
)
def test_a_wrong_candidate_stops_at_the_gate_that_sees_it(wrong: str, gate: str) -> None:
    found = first_failure(Broken(any_kernels().path, wrong))
    assert found.name == gate
    assert "differ, the first at [" in found.says


def test_bits_are_compared_by_bits_and_undefined_numbers_by_their_class() -> None:
    first = np.array([0.0, np.nan, 1.0], dtype=np.float32)
    second = np.array([-0.0, np.nan, 1.0], dtype=np.float32)
    second.view(np.uint32)[1] |= 1  # another NaN
    assert same_bits(first, second).tolist() == [False, True, True]
    gate = bits_gate("bits", first, second, "three")
    assert not gate.passed
    assert "1 of 3 results differ, the first at [0]: 0.0 instead of -0.0" in gate.says


def test_the_error_against_double_precision_is_a_gate_and_not_a_remark() -> None:
    exact = np.array([1.0, 2.0, np.inf])
    found = np.array([1.0, 2.5, 0.0], dtype=np.float32)
    gate = error_gate("error", found, exact, np.full(3, 0.1), "a tenth")
    assert not gate.passed
    assert "2 results against double precision" in gate.says
    assert "1 beyond it" in gate.says
    assert error_gate("error", found, exact, np.full(3, 0.6), "more").passed


def test_a_result_that_is_undefined_where_the_exact_one_is_not_is_an_error() -> None:
    found = np.array([np.nan], dtype=np.float32)
    assert not error_gate("error", found, np.array([1.0]), np.array([1e30]), "wide").passed


def test_nothing_compared_is_no_pass() -> None:
    found = np.zeros(1, dtype=np.float32)
    gate = error_gate("error", found, np.array([np.nan]), np.array([1.0]), "any")
    assert not gate.passed
    assert "nothing was compared" in gate.says


def test_the_published_bound() -> None:
    assert published_bound(np.array([0.0, -2.0])).tolist() == pytest.approx([1e-3, 2e-3])


def test_published_sizes_and_the_embedded_model_s_are_timed() -> None:
    assert set(DEPTHS) == {28, 152, 18, 48}
    assert (DEPTHS[28], DEPTHS[152]) == (60_000, 16_000)
    assert dict(CALLS) == dict.fromkeys((1, 4, 8, 16), 20_000)


@needs_kernels
def test_every_contestant_works_on_the_same_operands() -> None:
    for experiment in experiments():
        size = experiment.sizes()[0][0]
        bout = experiment.bout(any_kernels(), size)
        assert [each.role for each in bout.contestants] == ["baseline", "candidate"]
        assert all(each.run(3) > 0 for each in bout.contestants)
        baseline, candidate = (each.out for each in bout.contestants)
        assert baseline.any()
        assert same_bits(candidate, baseline).all()


def test_a_machine_that_cannot_run_them_is_skipped_with_the_reason() -> None:
    able = frozenset({"avx2", "fma", "f16c", "sse2"})
    assert skip_reason("x86_64", able) is None
    assert skip_reason("AMD64", able) is None
    assert skip_reason("aarch64", None) == "the kernels are written for AVX2; this machine is aarch64"
    assert skip_reason("x86_64", able - {"avx2", "fma"}) == "this CPU lacks avx2, fma"
    assert skip_reason("x86_64", None) == "the CPU's instruction sets cannot be read here"


def test_the_sources_are_part_of_the_package_and_hashed() -> None:
    hashes = source_hashes()
    assert {"blocks.h", "lanes.h", "q6_dot.c", "q8_tile.c", "timers.c"} == set(hashes)
    assert {path.name for path in source_files()} == {name for name in hashes if name.endswith(".c")}
