import ctypes
import subprocess
from pathlib import Path

import pytest

from arriero.core.errors import ConfigError
from arriero.lab.compile import Compiler, find_compilers, first_complaint, require_compiler


@pytest.fixture(scope="module")
def compiler() -> Compiler:
    return require_compiler()


def write(folder: Path, text: str) -> Path:
    path = folder / "answer.c"
    path.write_text(text)
    return path


def test_a_compiler_says_its_kind_and_version(compiler: Compiler) -> None:
    assert compiler.name in {"gcc", "clang"}
    assert compiler.number[0].isdigit()
    assert compiler.number in compiler.version


def test_a_command_that_is_another_compiler_than_its_name_says_is_not_taken(compiler: Compiler) -> None:
    other = "clang" if compiler.name == "gcc" else "gcc"
    assert find_compilers({other: (str(compiler.path),)}) == {}
    assert list(find_compilers({compiler.name: ("no-such-compiler", str(compiler.path))})) == [compiler.name]


def test_it_builds_a_library_and_a_program(compiler: Compiler, tmp_path: Path) -> None:
    source = write(tmp_path, "int answer(void) { return 6 * FACTOR; }\nint main(void) { return answer() - 42; }\n")
    library = compiler.build([source], ["-DFACTOR=7"], tmp_path / "new folder" / "answer.so", shared=True)
    assert ctypes.CDLL(str(library)).answer() == 42
    program = compiler.build([source], ["-DFACTOR=7", "-O1"], tmp_path / "answer", libs=["-lm"])
    assert subprocess.run([program], check=False).returncode == 0


def test_what_the_compiler_refuses_is_one_line_and_leaves_nothing(compiler: Compiler, tmp_path: Path) -> None:
    source = write(tmp_path, "int answer(void) { return nothing; }\n")
    with pytest.raises(ConfigError, match=r"cannot build answer\.c: answer\.c:1:.*error: .*nothing") as caught:
        compiler.build([source], [], tmp_path / "answer.so", shared=True)
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["answer.c"]


def test_a_failed_build_keeps_the_earlier_one(compiler: Compiler, tmp_path: Path) -> None:
    out = compiler.build([write(tmp_path, "int x = 1;")], [], tmp_path / "x.so", shared=True)
    before = out.read_bytes()
    with pytest.raises(ConfigError):
        compiler.build([write(tmp_path, "int x = ;")], [], out, shared=True)
    assert out.read_bytes() == before


def test_unknown_flags_are_known_as_such(compiler: Compiler) -> None:
    assert compiler.takes("-O2")
    assert not compiler.takes("-mno-such-instruction-set")


def test_a_missing_compiler_is_named_with_the_remedy() -> None:
    if "clang" in find_compilers():
        pytest.skip("clang is here")
    with pytest.raises(ConfigError, match=r"no clang on this machine; .*apt-get install clang"):
        require_compiler("clang")


def test_a_program_that_does_not_start_is_no_compiler(tmp_path: Path) -> None:
    lost = Compiler(name="gcc", path=tmp_path / "gone", version="gcc 1.0.0")
    assert not lost.takes("-O2")
    with pytest.raises(ConfigError, match=r"gcc 1\.0\.0: cannot build x\.c: error: No such file"):
        lost.build([tmp_path / "x.c"], [], tmp_path / "x")


def test_the_complaint_is_the_first_error_without_folders() -> None:
    text = "In file included from /a/b/c.c:1:\n/a/b/c.h:2:1: warning: unused\n/a/b/c.c:3:4: error: oh no\nerror: late\n"
    assert first_complaint(text) == "c.c:3:4: error: oh no"
    assert first_complaint("just a line\n") == "just a line"
    assert first_complaint("") == "it said nothing"
