"""What a build made: object files and shared libraries, and how those of two builds differ."""

import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from arriero.core.errors import ConfigError
from arriero.lab.code_difference import compare_files
from arriero.lab.file_hash import file_sha256
from arriero.lab.object_code import missing_tool
from arriero.record.cpu_lab.code_difference import CodeDifference
from arriero.record.cpu_lab.variant import LibraryPair, ObjectDifference

_LIBRARY: Final = re.compile(r"lib[\w.+-]+?\.(?:so(?:\.\d+)*|dylib)")
_NOT_OURS: Final = "CMakeScratch", "CompilerIdC", "CompilerIdCXX"  # cmake's own trials


def object_files(build: Path) -> dict[str, Path]:
    """Name below the build folder -> object file, by name."""
    found = (path for path in sorted(build.rglob("*.o")) if not set(path.parts) & set(_NOT_OURS))
    return {path.relative_to(build).as_posix(): path for path in found}


def keep_objects(build: Path, target: Path) -> dict[str, str]:
    """Copy all object files to a folder that is made anew; name -> SHA-256."""
    shutil.rmtree(target, ignore_errors=True)
    hashes: dict[str, str] = {}
    for name, path in object_files(build).items():
        copy = target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, copy)
        hashes[name] = file_sha256(path)
    return hashes


def keep_libraries(build: Path, target: Path) -> None:
    """Copy the shared libraries, their links too, to a folder that is made anew.

    Raises:
        ConfigError: the build made none.
    """
    found = [path for path in sorted(build.rglob("*")) if _LIBRARY.fullmatch(path.name)]
    if not found:
        raise ConfigError("the target makes no shared library; name another with --target")
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for path in found:
        shutil.copy2(path, target / path.name, follow_symlinks=False)


def library_pairs(baseline: Path, variant: Path) -> tuple[LibraryPair, ...]:
    """The libraries of two folders, links left out, by name."""
    one, other = _libraries(baseline), _libraries(variant)
    return tuple(
        LibraryPair(
            name=name,
            baseline_bytes=one[name].stat().st_size if name in one else None,
            baseline_sha256=file_sha256(one[name]) if name in one else None,
            variant_bytes=other[name].stat().st_size if name in other else None,
            variant_sha256=file_sha256(other[name]) if name in other else None,
        )
        for name in sorted({*one, *other})
    )


def rebuilt(kept: Path, build: Path) -> tuple[str, ...]:
    """Names of the objects that are newer than their kept copies, or have none."""
    return tuple(
        name
        for name, path in object_files(build).items()
        if not (kept / name).exists() or path.stat().st_mtime_ns != (kept / name).stat().st_mtime_ns
    )


def differing_objects(kept: Path, before: Mapping[str, str], build: Path) -> Iterator[ObjectDifference]:
    """The objects whose bytes differ from the kept ones, with the symbols whose instructions do."""
    after = {name: file_sha256(path) for name, path in object_files(build).items()}
    for name in sorted({*before, *after}):
        one, other = before.get(name), after.get(name)
        if one != other:
            yield _difference(name, one, other, kept, build)


def _difference(name: str, one: str | None, other: str | None, kept: Path, build: Path) -> ObjectDifference:
    symbols, reason = _symbols(name, one, other, kept, build)
    return ObjectDifference(name=name, baseline_sha256=one, variant_sha256=other, symbols=symbols, reason=reason)


def _symbols(
    name: str, one: str | None, other: str | None, kept: Path, build: Path
) -> tuple[tuple[CodeDifference, ...], str | None]:
    """The symbols that differ, or why there are none."""
    if one is None or other is None:
        return (), "only in the variant" if one is None else "only in the baseline"
    missing = missing_tool()
    if missing is not None:
        return (), missing
    symbols = compare_files(kept / name, build / name)
    return symbols, None if symbols else "the same instructions: something else in the file differs"


def _libraries(folder: Path) -> dict[str, Path]:
    return {path.name: path for path in folder.iterdir() if path.is_file() and not path.is_symlink()}
