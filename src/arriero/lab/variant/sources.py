"""The sources that variants are built from: the binding's own package, an archive of it, or a folder.

Whatever is given, a copy is worked on; inside a package of the binding only llama.cpp's part is taken.
"""

import hashlib
import shutil
import sys
import tarfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from arriero.backend.library import BINDING_VERSION
from arriero.core.errors import ConfigError
from arriero.lab.process import run_process
from arriero.record.cpu_lab.variant import SourceFacts

AUTO: Final = "auto"
PACKAGE: Final = "llama-cpp-python"
INNER: Final = PurePosixPath("vendor/llama.cpp")
"""Where llama.cpp lies in the binding's package."""

_MARK: Final = "CMakeLists.txt"
_LEFT_OUT: Final = frozenset({".git", "build"})  # of the root: not sources
_PATIENCE_S: Final = 1800.0


class Source(NamedTuple):
    """Sources that were found, not copied yet."""

    path: Path
    facts: SourceFacts


def find_source(word: str, downloads: Path, tell: Callable[[str], None]) -> Source:
    """What `--source` means.

    Args:
        word: `auto` for the package of the pinned version from pip's index, else a folder or an archive.
        downloads: where a package is kept that was fetched; one that is there already is not fetched again.
        tell: is told what takes long.

    Raises:
        ConfigError: nothing usable is there, or pip cannot fetch it.
    """
    path = _package(downloads, tell) if word == AUTO else Path(word)
    if path.is_dir():
        root = _inner_root(path)
        facts = SourceFacts(origin=path.resolve().name, sha256=tree_sha256(root), kind="folder")
        return Source(root, facts)
    if not path.is_file() or not tarfile.is_tarfile(path):
        what = "no such folder or archive" if not path.exists() else "is no tar archive"
        raise ConfigError(f"--source {word}: {what}; name a folder with {_MARK}, a .tar.gz of {PACKAGE}, or {AUTO}")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Source(path, SourceFacts(origin=path.name, sha256=digest, kind="archive"))


def copy_source(source: Source, target: Path) -> None:
    """A tree of its own at `target`, which must not exist.

    Raises:
        ConfigError: the archive holds no sources that cmake could build.
    """
    if source.path.is_dir():
        shutil.copytree(source.path, target, ignore=_not_sources(source.path), symlinks=True)
        return
    with tarfile.open(source.path) as archive:
        for member, name in _members(archive):
            path = target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            data = archive.extractfile(member)
            assert data is not None, "members are regular files"
            path.write_bytes(data.read())
    if not (target / _MARK).is_file():
        raise ConfigError(f"{source.path.name}: holds no {INNER}/{_MARK}; name an archive of {PACKAGE}")


def tree_sha256(root: Path) -> str:
    """Of all files of a tree with their names, links and build folders left out."""
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if relative.parts[0] in _LEFT_OUT or path.is_symlink() or not path.is_file():
            continue
        data = path.read_bytes()
        digest.update(f"{relative.as_posix()}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()


def _inner_root(folder: Path) -> Path:
    for root in (folder / INNER, folder):
        if (root / _MARK).is_file():
            return root
    raise ConfigError(f"--source {folder}: has no {_MARK}; name a folder of llama.cpp or of {PACKAGE}")


def _not_sources(root: Path) -> Callable[[str, list[str]], set[str]]:
    def ignored(folder: str, names: list[str]) -> set[str]:
        return {*_LEFT_OUT}.intersection(names) if Path(folder) == root else set()

    return ignored


def _members(archive: tarfile.TarFile) -> Iterator[tuple[tarfile.TarInfo, PurePosixPath]]:
    """Regular files below llama.cpp's folder, or of the whole archive where there is none, by their names there."""
    files = [member for member in archive.getmembers() if member.isfile()]
    names = [PurePosixPath(*PurePosixPath(member.name).parts[1:]) for member in files]  # one folder holds it all
    base = INNER if any(name.is_relative_to(INNER) for name in names) else PurePosixPath()
    for member, name in zip(files, names, strict=True):
        if name.is_relative_to(base) and name != base and ".." not in name.parts and not name.is_absolute():
            yield member, name.relative_to(base)


def _package(downloads: Path, tell: Callable[[str], None]) -> Path:
    """The source package of the pinned binding."""
    pattern = f"{PACKAGE.replace('-', '_')}-{BINDING_VERSION}.tar.gz"
    kept = downloads / pattern
    if kept.is_file():
        return kept
    tell(f"fetching the sources of {PACKAGE} {BINDING_VERSION} through pip")
    command = [
        sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps",
        "--no-binary", PACKAGE, "--dest", str(downloads), f"{PACKAGE}=={BINDING_VERSION}",
    ]  # fmt: skip
    if find_spec("scikit_build_core") is not None:
        command.insert(-1, "--no-build-isolation")  # pip asks the package for its facts, which needs its build system
    done = run_process(command, timeout_s=_PATIENCE_S)
    if done.return_code != 0 or not kept.is_file():
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["pip said nothing"]
        said = next((line for line in lines if "ERROR" in line), lines[-1]).strip()
        raise ConfigError(f"--source {AUTO}: pip cannot fetch {PACKAGE}: {said}; name a folder or an archive")
    return kept
