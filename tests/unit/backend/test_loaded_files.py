from pathlib import Path

from arriero.backend.library import Function, load_library
from arriero.backend.loaded_files import compilers_of, loaded_files, source_version

HOME = "/srv/lib folder"
MAPS = f"""\
7f00-7f01 r--p 00000000 08:01 11 {HOME}/libllama.so
7f01-7f02 r-xp 00000000 08:01 11 {HOME}/libllama.so
7f02-7f03 r--p 00000000 08:01 12 {HOME}/libggml-cpu.so.0
7f03-7f04 r--p 00000000 08:01 13 {HOME}/libggml-base.so.0.25.3
7f04-7f05 r--p 00000000 08:01 14 /usr/lib/libllamafile-not.so.txt
7f05-7f06 rw-p 00000000 00:00 0
7f06-7f07 r--p 00000000 08:01 15 /usr/lib/libc.so.6
7f07-7f08 rw-p 00000000 00:00 0 [heap]
"""


def test_what_is_mapped_counts(tmp_path: Path) -> None:
    maps = tmp_path / "maps"
    maps.write_text(MAPS)
    assert [str(path) for path in loaded_files(maps)] == [
        f"{HOME}/libggml-base.so.0.25.3", f"{HOME}/libggml-cpu.so.0", f"{HOME}/libllama.so",
    ]  # fmt: skip


def test_without_maps_those_beside_the_opened_one_count(tmp_path: Path) -> None:
    found = loaded_files(tmp_path / "none")
    assert Path(load_library().path) in found
    assert {path.parent for path in found} == {Path(load_library().path).parent}


def test_this_process_has_the_whole_library_from_one_folder() -> None:
    files = loaded_files()
    assert {path.name.partition(".")[0] for path in files} == {"libllama", "libggml", "libggml-base", "libggml-cpu"}
    version = source_version(load_library())
    assert version.ggml is not None
    assert version.ggml.count(".") == 2
    assert version.commit


def test_a_library_that_says_nothing_has_no_version() -> None:
    class Older:
        def ggml(self, name: str, *takes: object, returns: object) -> Function:
            del takes, returns
            if name == "ggml_version":
                return lambda: None
            raise AttributeError(name)

    assert source_version(Older()) == (None, None)


def test_compilers_leave_their_names() -> None:
    gcc = b"GCC: (Debian 12.2.0-14+deb12u1) 12.2.0"
    data = b"\0".join([b"x", gcc, b"Debian clang version 16.0.6 (15)", gcc, b""])
    assert compilers_of(data) == {"GCC: (Debian 12.2.0-14+deb12u1) 12.2.0", "Debian clang version 16.0.6"}
    assert compilers_of(b"nothing") == frozenset()
