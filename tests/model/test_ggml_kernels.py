"""The kernels of the library in use, beside ours."""

from pathlib import Path

import numpy as np
import pytest

from arriero.backend.ggml_kernels import ggml_kernels
from arriero.backend.library import load_library
from arriero.lab.file_hash import file_sha256
from arriero.lab.kernels.experiment import QUICK, Experiment
from arriero.lab.kernels.q6_dot import DotExperiment
from arriero.lab.kernels.q8_tile import TileExperiment
from arriero.lab.kernels.reference import rounding_bound
from arriero.lab.kernels.timing import Turns
from arriero.lab.variant.load_check import check_loads
from tests.unit.lab.kernels.built_kernels import any_kernels, needs_kernels

pytestmark = pytest.mark.model


def experiments(size: int) -> list[Experiment]:
    ggml = ggml_kernels()
    turns = {size: Turns(1, 1, 1)}
    return [TileExperiment(QUICK, ggml, turns), DotExperiment(QUICK, ggml, turns)]


@needs_kernels
@pytest.mark.parametrize("size", [1, 18])
def test_ggml_computes_the_same_operation(size: int) -> None:
    for experiment in experiments(size):
        bout = experiment.bout(any_kernels(), size)
        assert all(each.run(2) > 0 for each in bout.contestants)
        baseline, *others = (each.out.astype(np.float64) for each in bout.contestants)
        # both may be off by their own roundings: a wrong layout or size is off by far more
        bound = 2 * rounding_bound(bout.magnitude, 32 * size + 8)
        assert all((np.abs(other - baseline) <= bound).all() for other in others)
        assert "ggml" in {each.role for each in bout.contestants}


@needs_kernels
def test_the_matrix_kernel_of_the_library_has_the_bits_of_the_reference() -> None:
    tile, dot = experiments(18)
    gates = list(tile.library_gates(any_kernels()))
    assert [gate.says for gate in gates if not gate.passed] == []
    assert len(gates) == 1
    assert list(dot.library_gates(any_kernels())) == []


def test_the_installed_build_loads_and_another_s_hashes_are_seen() -> None:
    folder = Path(load_library().path).parent
    hashes = frozenset(file_sha256(path) for path in folder.iterdir() if path.is_file())
    found = check_loads(folder, "baseline", hashes)
    assert found.loads, found.says
    assert "compiled for" in found.says
    mixed = check_loads(folder, "baseline", frozenset())
    assert mixed.loads is False
    assert mixed.says.startswith("loads libraries of another build: libggml")
