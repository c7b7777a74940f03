from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from arriero.core.errors import ConfigError
from arriero.lab.compile import Compiler, find_compilers
from arriero.lab.kernels.experiment import Bout
from arriero.lab.kernels.library import KernelLibrary
from arriero.lab.kernels.timing import Contestant, Turns, times_in_turns
from arriero.lab.kernels.workbench import Setting, run_workbench
from arriero.lab.object_code import missing_tool
from arriero.record.cpu_lab.kernels import CandidateResult, GateRow
from tests.unit.lab.kernels.built_kernels import finished_compilers, needs_kernels

COMPILER = next(iter(find_compilers()), "gcc")


def nothing(_line: str) -> None:
    pass


@dataclass
class Scripted:
    """An experiment whose gates and times are written down; an `Experiment`."""

    gate_results: Sequence[bool] = (True, True)
    symbols: tuple[str, str] = ("q8_tile_baseline", "q8_tile_packed")
    times: tuple[int, int] = (200, 100)
    name: str = "scripted"
    says: str = "does something else"
    unit: str = "size"
    asked: list[str] = field(default_factory=list)

    def gates(self, _library: KernelLibrary) -> Iterator[GateRow]:
        for number, passed in enumerate(self.gate_results):
            self.asked.append(f"gate {number}")
            yield GateRow(name=f"gate {number}", passed=passed, says="written down")

    def library_gates(self, _library: KernelLibrary) -> Iterator[GateRow]:
        yield GateRow(name="ggml's", passed=False, says="no part of the verdict")

    def sizes(self) -> Sequence[tuple[int, Turns]]:
        return ((4, Turns(1, 5, 10)), (8, Turns(1, 5, 10)))

    def bout(self, _library: KernelLibrary, size: int) -> Bout:
        self.asked.append(f"size {size}")
        out = np.ones(2, dtype=np.float32)
        first, second = self.times
        contestants = [
            Contestant("baseline", "baseline", lambda _calls: first, out),
            Contestant("candidate", "candidate", lambda _calls: second, out.copy()),
        ]
        return Bout(contestants, np.ones(2))


def run(experiment: Scripted, folder: Path, **setting: object) -> CandidateResult:
    full = Setting(folder, **setting)  # type: ignore[arg-type]  # the tests say fields by name
    compilers = find_compilers() if "flags" in setting else finished_compilers()
    (found,) = run_workbench([experiment], compilers, [COMPILER], full, nothing)
    return found


@needs_kernels
def test_a_candidate_that_passes_all_gates_is_timed_at_every_size(tmp_path: Path) -> None:
    found = run(Scripted(), tmp_path)
    assert found.verdict == "passed"
    assert [gate.passed for gate in found.in_library] == [False]
    names = [gate.name for gate in found.gates]
    assert names == ["gate 0", "gate 1", *(["instructions"] if missing_tool() is None else []), "time"]
    assert [size.size for size in found.sizes] == [4, 8]
    assert found.sizes[0].ratio.value == 2
    assert found.gates[-1].says == "faster at every size: size 4: 2.000 [2.000, 2.000]; size 8: 2.000 [2.000, 2.000]"
    assert found.library_sha256 is not None


@needs_kernels
def test_a_candidate_stops_at_its_first_failed_gate(tmp_path: Path) -> None:
    experiment = Scripted(gate_results=(True, False, True))
    found = run(experiment, tmp_path)
    assert experiment.asked == ["gate 0", "gate 1"]
    assert found.verdict == "rejected"
    assert found.failed is not None
    assert found.failed.name == "gate 1"
    assert found.sizes == ()
    assert found.reasons["sizes"] == "not timed: the gate before failed (gate 1)"


@needs_kernels
def test_a_candidate_that_is_not_faster_is_rejected_and_its_times_are_kept(tmp_path: Path) -> None:
    found = run(Scripted(times=(100, 100)), tmp_path)
    assert found.verdict == "rejected"
    assert found.failed is not None
    assert found.failed.says.startswith("not faster everywhere: size 4: 1.000 [1.000, 1.000]")
    assert len(found.sizes) == 2


@needs_kernels
@pytest.mark.skipif(missing_tool() is not None, reason="binutils are not here")
def test_a_candidate_with_the_instructions_of_the_baseline_is_not_timed(tmp_path: Path) -> None:
    found = run(Scripted(symbols=("q8_tile_baseline", "q8_tile_baseline")), tmp_path)
    assert found.failed is not None
    assert found.failed.name == "instructions"
    assert found.sizes == ()


@needs_kernels
@pytest.mark.skipif(missing_tool() is not None, reason="binutils are not here")
def test_packing_the_scales_saves_conversions(tmp_path: Path) -> None:
    found = run(Scripted(), tmp_path)
    assert found.code is not None
    assert not found.code.is_equal
    assert "vcvtph2ps" in found.code.removed


def test_a_missing_compiler_and_another_machine_are_skipped_with_the_reason(tmp_path: Path) -> None:
    experiments = [Scripted(), Scripted(name="second")]
    found = list(run_workbench(experiments, {}, ["clang"], Setting(tmp_path), nothing))
    assert [each.skipped for each in found] == ["clang is not on this machine"] * 2
    assert [each.verdict for each in found] == ["skipped"] * 2
    assert found[0].reasons["compiler"] == "clang is not on this machine"
    gcc = {"gcc": Compiler(name="gcc", path=tmp_path / "gcc", version="gcc 1.0")}
    setting = Setting(tmp_path, skip="this CPU lacks avx2")
    (one,) = run_workbench([Scripted()], gcc, ["gcc"], setting, nothing)
    assert one.skipped == "this CPU lacks avx2"
    assert one.compiler == "gcc 1.0"


@needs_kernels
def test_flags_that_a_compiler_refuses_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot build"):
        run(Scripted(), tmp_path, flags=("-O2", "-mno-such-thing"))


def test_kernels_take_turns_forth_and_back() -> None:
    ran: list[str] = []

    def timer(label: str) -> Contestant:
        def timed(calls: int) -> int:
            ran.append(f"{label}{calls}")
            return 7

        return Contestant(label, "ggml", timed, np.zeros(1, dtype=np.float32))

    found = times_in_turns([timer("a"), timer("b")], Turns(warm_ups=2, repetitions=3, calls=5))
    assert ran == ["a2", "b2", "a5", "b5", "b5", "a5", "a5", "b5"]
    assert found == {"a": (7, 7, 7), "b": (7, 7, 7)}
