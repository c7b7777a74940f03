from pathlib import Path

import msgspec
import pytest

from arriero.backend.cpu_features import FeatureDifference
from arriero.lab.machine.build_check import check_build
from arriero.lab.machine.ceilings import CeilingPlan, Measured, Tell
from arriero.lab.machine.survey import default_probe, feature_difference, survey
from arriero.record.cpu_lab.build_pin import pin_of
from arriero.record.cpu_lab.machine_result import Ceiling, CeilingKind, MachineResult, encode_machine
from tests.unit.lab.machine.machines import LIBRARY, put

replace = msgspec.structs.replace
CPUINFO = "flags : avx2 fma f16c bmi2 avx\n"


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arriero.lab.machine.load_samples.time.sleep", lambda _seconds: None)


class FixedProbe:
    method = "a table"

    def __init__(self) -> None:
        self.plans: list[CeilingPlan] = []

    def measure(self, plan: CeilingPlan, tell: Tell) -> Measured:
        self.plans.append(plan)
        tell("looking it up")
        found = tuple(
            Ceiling(kind=CeilingKind.READ, variant="table", threads=threads, rates=(1e9 * threads,))
            for threads in plan.threads
        )
        return Measured(found, {"int8-dot": "not in the table"})


def test_all_parts_are_in_one_result(tmp_path: Path) -> None:
    probe, told = FixedProbe(), list[str]()
    put(tmp_path, {"proc/cpuinfo": CPUINFO})
    result = survey(probe, quick=True, threads=(1, 2), busy="others work", tell=told.append, root=tmp_path)
    assert told == ["looking it up"]
    assert [each.threads for each in result.ceilings] == [1, 2]
    assert (result.method, result.quick, result.busy) == ("a table", True, "others work")
    assert result.array_bytes == probe.plans[0].array_bytes
    assert probe.plans[0].isa == ("avx", "avx2", "bmi2", "f16c", "fma")
    assert result.reasons == {"int8-dot": "not in the table"}
    assert msgspec.json.decode(encode_machine(result), type=MachineResult) == result


def test_facts_alone_measure_nothing(tmp_path: Path) -> None:
    result = survey(None, root=tmp_path)
    assert (result.ceilings, result.method, result.array_bytes) == ((), None, None)
    assert result.reasons == {"ceilings": "not asked for"}


def test_without_a_compiler_numpy_takes_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_probe().method
    monkeypatch.setattr("arriero.lab.machine.survey.find_compilers", dict)
    assert default_probe().method.startswith("numpy")


def test_features_are_compared_where_they_are_known(tmp_path: Path) -> None:
    put(tmp_path, {"proc/cpuinfo": CPUINFO})
    assert feature_difference(None, tmp_path) == FeatureDifference((), ())
    arm = replace(LIBRARY, features=("NEON", "DOTPROD"))
    assert feature_difference(arm, tmp_path) == FeatureDifference((), ())
    wide = replace(LIBRARY, features=("AVX2", "AVX512"))
    assert feature_difference(wide, tmp_path) == FeatureDifference(("AVX512",), ("AVX", "F16C", "FMA", "BMI2"))


def test_a_build_is_checked_by_itself(tmp_path: Path) -> None:
    put(tmp_path, {"proc/cpuinfo": CPUINFO})
    whole = replace(LIBRARY, features=("AVX", "AVX2", "BMI2", "F16C", "FMA"))
    assert check_build(whole, None, tmp_path) == ()
    mixed = replace(whole, features=("AVX", "AVX2", "AVX512", "BMI2", "F16C"), strays=("libggml.so",))
    assert check_build(mixed, None, tmp_path) == (
        "cpu: the build needs AVX512, which this CPU lacks",
        "cpu: the build does not use FMA of this CPU",
        "files: libggml.so lies in another folder than libllama: two builds are mixed",
    )


def test_a_pin_decides_what_a_build_leaves_unused(tmp_path: Path) -> None:
    put(tmp_path, {"proc/cpuinfo": CPUINFO})
    slow = replace(LIBRARY, features=("AVX2",))
    assert check_build(slow, pin_of(slow), tmp_path) == ()
    versions = replace(pin_of(slow), features=None)
    assert len(check_build(slow, versions, tmp_path)) == 4
