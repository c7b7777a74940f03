from pathlib import Path

import msgspec
import pytest

from arriero.core.errors import BindingMismatch
from arriero.lab.machine.environment import isa_of, lab_environment
from arriero.lab.machine.library_files import library_facts
from arriero.record.cpu_lab.environment import LabEnvironment, environment_fingerprint
from tests.unit.lab.machine.machines import ISA, LIBRARY, MACHINE, put

replace = msgspec.structs.replace


def test_this_machine_has_an_environment_that_a_file_can_hold() -> None:
    found = lab_environment()
    assert msgspec.json.decode(msgspec.json.encode(found), type=LabEnvironment) == found
    assert found.fingerprint == environment_fingerprint(found.machine, found.isa, found.library)
    assert found.fingerprint == lab_environment().fingerprint
    assert found.library == library_facts()
    assert ("revision" in found.reasons) == (found.revision is None)


def test_no_absolute_path_is_in_it() -> None:
    text = msgspec.json.encode(lab_environment()).decode()
    assert str(Path.cwd()) not in text
    assert "site-packages" not in text


def test_a_library_is_known_by_the_bytes_that_are_loaded() -> None:
    facts = library_facts()
    assert set(facts.hashes) == {each.name for each in facts.files}
    assert any(name.startswith("libggml-cpu") for name in facts.hashes)
    assert facts.strays == ()
    assert facts.compilers
    assert list(facts.features) == sorted(facts.features)


def test_a_missing_binding_is_null_with_its_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing() -> None:
        raise BindingMismatch("the binding is not there; install it")

    monkeypatch.setattr("arriero.lab.machine.environment.library_facts", missing)
    found = lab_environment(root=tmp_path)
    assert found.library is None
    assert found.reasons["library"] == "the binding is not there; install it"
    assert found.isa == ()


@pytest.mark.parametrize(
    ("cpuinfo", "isa"),
    [
        ("flags\t\t: fpu avx2 sse4_2 fma lm avx512_vnni\nflags : avx\n", ("avx2", "avx512_vnni", "fma", "sse4_2")),
        ("Features\t: fp asimd i8mm crc32\n", ("asimd", "i8mm")),
        ("bogomips : 5\n", ()),
    ],
)
def test_instruction_sets_that_matter(tmp_path: Path, cpuinfo: str, isa: tuple[str, ...]) -> None:
    assert isa_of(put(tmp_path, {"proc/cpuinfo": cpuinfo})) == isa


def test_the_fingerprint_changes_with_what_decides_speed_and_with_nothing_else() -> None:
    same = environment_fingerprint(MACHINE, ISA, LIBRARY)
    assert environment_fingerprint(replace(MACHINE, frequency_mhz=1.0, python="3.14"), ISA, LIBRARY) == same
    assert environment_fingerprint(MACHINE, ISA, replace(LIBRARY, commit=None)) == same
    others = [
        environment_fingerprint(replace(MACHINE, cgroup_cores=1.0), ISA, LIBRARY),
        environment_fingerprint(replace(MACHINE, kernel="Linux 7"), ISA, LIBRARY),
        environment_fingerprint(MACHINE, ("avx2",), LIBRARY),
        environment_fingerprint(MACHINE, ISA, None),
        environment_fingerprint(MACHINE, ISA, replace(LIBRARY, files=LIBRARY.files[:1])),
    ]
    assert len({same, *others}) == 6
