import io
import sys
import tarfile
from pathlib import Path

import pytest

from arriero.backend.library import BINDING_VERSION
from arriero.core.errors import ConfigError
from arriero.lab.variant import sources
from arriero.lab.variant.sources import copy_source, find_source, tree_sha256
from tests.unit.lab.variant.tiny_project import TINY, write_archive, write_project


def nothing(_line: str) -> None:
    pass


def test_a_folder_of_the_binding_means_llama_cpp_in_it(tmp_path: Path) -> None:
    inner = write_project(tmp_path / "binding" / "vendor" / "llama.cpp")
    (tmp_path / "binding" / "CMakeLists.txt").write_text("of the binding")
    source = find_source(str(tmp_path / "binding"), tmp_path, nothing)
    assert source.path == inner
    assert (source.facts.origin, source.facts.kind) == ("binding", "folder")


def test_a_copy_leaves_out_what_is_no_source(tmp_path: Path) -> None:
    root = write_project(tmp_path / "source")
    for name in ("build", ".git", "inner/build"):
        (root / name).mkdir(parents=True)
        (root / name / "x").write_text("x")
    copy_source(find_source(str(root), tmp_path, nothing), tmp_path / "copy")
    names = {path.relative_to(tmp_path / "copy").as_posix() for path in (tmp_path / "copy").rglob("*")}
    assert names == {"CMakeLists.txt", "tiny.c", "extra.c", "helper.c", "inner", "inner/build", "inner/build/x"}


def test_the_hash_of_a_folder_knows_names_and_contents_and_not_builds(tmp_path: Path) -> None:
    root = write_project(tmp_path / "source")
    before = tree_sha256(root)
    (root / "build").mkdir()
    (root / "build" / "x.o").write_text("made")
    assert tree_sha256(root) == before
    (root / "extra.c").rename(root / "other.c")
    assert tree_sha256(root) != before


def test_an_archive_gives_only_llama_cpp(tmp_path: Path) -> None:
    archive = write_archive(tmp_path / "binding-1.0.tar.gz", tmp_path / "scratch")
    source = find_source(str(archive), tmp_path, nothing)
    assert (source.facts.origin, source.facts.kind) == ("binding-1.0.tar.gz", "archive")
    copy_source(source, tmp_path / "copy")
    assert (tmp_path / "copy" / "tiny.c").read_text() == TINY
    assert not (tmp_path / "copy" / "setup.py").exists()


def test_members_that_leave_the_folder_are_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "evil.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in ("top/CMakeLists.txt", "top/../../outside.c", "top/inner/../../../outside.c"):
            data = b"x"
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    copy_source(find_source(str(path), tmp_path, nothing), tmp_path / "deep" / "copy")
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {"evil.tar.gz", "CMakeLists.txt"}


def test_an_archive_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("top/readme"), io.BytesIO(b""))
    with pytest.raises(ConfigError, match=r"other\.tar\.gz: holds no vendor/llama\.cpp/CMakeLists\.txt"):
        copy_source(find_source(str(path), tmp_path, nothing), tmp_path / "copy")


@pytest.mark.parametrize(("name", "complaint"), [("gone", "no such folder or archive"), ("text", "is no tar archive")])
def test_what_is_no_source_is_refused(tmp_path: Path, name: str, complaint: str) -> None:
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ConfigError, match=rf"--source .*{name}: {complaint}"):
        find_source(str(tmp_path / name), tmp_path, nothing)


def test_a_folder_without_a_build_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"has no CMakeLists\.txt"):
        find_source(str(tmp_path), tmp_path, nothing)


def test_a_package_that_was_fetched_is_not_fetched_again(tmp_path: Path) -> None:
    kept = tmp_path / f"llama_cpp_python-{BINDING_VERSION}.tar.gz"
    write_archive(kept, tmp_path / "scratch")
    assert find_source("auto", tmp_path, nothing).path == kept


def test_what_pip_cannot_fetch_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho 'Looking' >&2\necho 'ERROR: no route to host' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    told: list[str] = []
    with pytest.raises(ConfigError, match="pip cannot fetch llama-cpp-python: ERROR: no route to host; name a folder"):
        find_source(sources.AUTO, tmp_path / "downloads", told.append)
    assert told == [f"fetching the sources of llama-cpp-python {BINDING_VERSION} through pip"]
