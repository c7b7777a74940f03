"""Two builds of a tiny project: real cmake, real compiler, about a second each."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from arriero.core.errors import ConfigError, DataError
from arriero.lab.object_code import missing_tool
from arriero.lab.variant.builder import BASELINE, VARIANT, WORK, Built, NamedEdit, build_variant, check_edit
from arriero.lab.variant.cmake import DEFINITIONS, Isa, Recipe, make_recipe
from arriero.lab.variant.sources import find_source
from arriero.record.cpu_lab.edit import read_edit
from tests.unit.lab.variant.tiny_project import EDIT, write_archive, write_edit, write_project


def has_cmake() -> bool:
    return shutil.which("cmake", path=f"{Path(sys.prefix) / 'bin'}:/usr/bin:/usr/local/bin") is not None


needs_cmake = pytest.mark.skipif(not has_cmake(), reason="cmake is not here")


def nothing(_line: str) -> None:
    pass


def named(folder: Path, text: str = EDIT) -> NamedEdit:
    path = write_edit(folder / "edit.toml", text)
    return NamedEdit(read_edit(path), str(path), "0" * 64)


def recipe(target: str = "tiny") -> Recipe:
    return make_recipe(Isa.NATIVE, target, 2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("variant")


class Outcome(NamedTuple):
    """What the first build gave; later ones in the same folder replace its files."""

    built: Built
    answers: dict[str, int]  # of `twice(5)`


@pytest.fixture(scope="module")
def outcome(folder: Path) -> Outcome:
    source = find_source(str(write_project(folder / "source")), folder / "downloads", nothing)
    built = build_variant(named(folder), source, recipe(), folder / "out", nothing)
    return Outcome(built, {name: answer(folder / "out" / name, 5) for name in (BASELINE, VARIANT)})


@pytest.fixture
def built(outcome: Outcome) -> Built:
    return outcome.built


def answer(folder: Path, value: int) -> int:
    """What a build's function gives, asked in a process of its own: one process holds one library of a name."""
    code = f"import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).twice({value}))"
    command = [sys.executable, "-c", code, str(folder / "libtiny.so")]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@needs_cmake
def test_both_builds_stand_side_by_side_and_compute_otherwise(outcome: Outcome, folder: Path) -> None:
    assert outcome.answers == {BASELINE: 10 ^ 1, VARIANT: 20 ^ 1}
    assert (folder / "source" / "tiny.c").read_text().count("sum *= 2") == 0
    assert outcome.built.edit.name == "four-times"


@needs_cmake
def test_only_what_the_edit_reaches_is_compiled_again_and_differs(built: Built) -> None:
    assert built.objects == 3
    assert built.rebuilt == 1
    (difference,) = built.differing
    assert difference.name.endswith("tiny.c.o")
    if missing_tool() is None:
        assert [each.symbol for each in difference.symbols] == ["twice"]
        assert difference.reason is None


@needs_cmake
def test_libraries_are_listed_with_their_hashes(built: Built) -> None:
    pairs = {pair.name: pair for pair in built.libraries}
    assert set(pairs) == {"libhelper.so", "libtiny.so"}
    assert pairs["libhelper.so"].is_equal
    assert not pairs["libtiny.so"].is_equal


@needs_cmake
def test_what_is_no_build_of_llama_cpp_is_not_loaded(built: Built) -> None:
    assert [(check.build, check.loads) for check in built.checks] == [("baseline", None), ("variant", None)]


@needs_cmake
def test_another_edit_starts_from_the_sources_as_they_were(built: Built, folder: Path) -> None:
    told: list[str] = []
    second = EDIT.replace("four-times", "triple").replace("pattern = '^sum = sum'", "pattern = 'value . 3'")
    second = second.replace("tiny.c", "extra.c").replace("insert-after", "replace")
    second = second.replace("sum *= 2;", "return value * 5;")
    source = find_source(str(folder / "source"), folder / "downloads", nothing)
    again = build_variant(named(folder, second), source, recipe(), folder / "out", told.append)
    assert told[0] == "the sources are there already, built in the same way"
    assert "configuring" not in told
    assert [each.name.rpartition("/")[2] for each in again.differing] == ["extra.c.o"]
    assert {pair.name: pair.baseline_sha256 for pair in again.libraries} == {
        pair.name: pair.baseline_sha256 for pair in built.libraries
    }


@needs_cmake
def test_an_edit_that_does_not_fit_builds_nothing(tmp_path: Path) -> None:
    source = find_source(str(write_project(tmp_path / "source")), tmp_path, nothing)
    wrong = named(tmp_path, EDIT.replace("^sum = sum", "^nowhere"))
    with pytest.raises(DataError, match=r"0 places in tiny\.c"):
        build_variant(wrong, source, recipe(), tmp_path / "out", nothing)
    assert not (tmp_path / "out" / WORK / "build").exists()


@needs_cmake
@pytest.mark.usefixtures("built")
def test_an_edit_that_does_not_compile_is_told_with_the_first_error(folder: Path) -> None:
    source = find_source(str(folder / "source"), folder / "downloads", nothing)
    wrong = named(folder, EDIT.replace("sum *= 2;", "sum *= nothing_at_all;"))
    with pytest.raises(ConfigError, match=r"the variant does not build: .*error: .*nothing_at_all") as caught:
        build_variant(wrong, source, recipe(), folder / "out", nothing)
    assert "\n" not in str(caught.value)


@needs_cmake
def test_a_missing_target_is_told(tmp_path: Path) -> None:
    source = find_source(str(write_project(tmp_path / "source")), tmp_path, nothing)
    with pytest.raises(ConfigError, match=r"the baseline does not build: .*none-such"):
        build_variant(named(tmp_path), source, recipe("none-such"), tmp_path / "out", nothing)


def test_an_edit_can_be_checked_without_building(tmp_path: Path) -> None:
    archive = write_archive(tmp_path / "binding-1.0.tar.gz", tmp_path / "scratch")
    source = find_source(str(archive), tmp_path, nothing)
    facts = check_edit(named(tmp_path), source, tmp_path / "unpacked")
    assert [(file.file, file.places, file.lines_added) for file in facts.files] == [("tiny.c", 1, 1)]


def test_the_two_instruction_sets_say_all_that_decides() -> None:
    avx2 = DEFINITIONS[Isa.AVX2]
    assert "-DGGML_NATIVE=OFF" in avx2
    assert "-DGGML_AVX512=OFF" in avx2
    assert "-DGGML_AVX_VNNI=OFF" in avx2
    assert "-DGGML_NATIVE=ON" in DEFINITIONS[Isa.NATIVE]
