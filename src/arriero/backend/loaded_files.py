"""Which files of llama.cpp this process has mapped, and what they say of their own version.

The binding's folder holds copies under several names, and `LLAMA_CPP_LIB_PATH` may name another folder; what counts is
what the kernel has mapped.
"""

import ctypes
import re
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from arriero.backend.library import Function, load_library

MAPS: Final = Path("/proc/self/maps")
_OURS: Final = re.compile(r"lib(?:llama|ggml)(?:-[a-z0-9_-]+)?\.(?:so[.\d]*|dylib)")
_BUILT_BY: Final = re.compile(rb"GCC: \([^)\0]*\) [\d.]+|(?:[A-Za-z]+ )?clang version [\d.]+")


class SaysVersion(Protocol):
    """The one method of `Library` that is needed here."""

    def ggml(self, name: str, *takes: Any, returns: Any) -> Function:  # noqa: ANN401 - ctypes types
        """A function of ggml by its name."""
        ...


class SourceVersion(NamedTuple):
    """What ggml says of the sources that it was built from."""

    ggml: str | None
    commit: str | None


class Mapping(NamedTuple):
    """One line of the process's memory map.

    Attributes:
        begin, end: addresses.
        can_write, can_execute: whether it may be written, and run as code.
        offset: in the file.
        path: the file.
    """

    begin: int
    end: int
    can_write: bool
    can_execute: bool
    offset: int
    path: Path


def mappings_of(text: str) -> tuple[Mapping, ...]:
    """Files in a memory map, as `/proc/self/maps` tells them."""
    found: list[Mapping] = []
    for line in text.splitlines():
        words = line.split(maxsplit=5)  # addresses, permissions, offset, device, inode, a path that may hold blanks
        if len(words) == 6 and words[5].startswith("/"):
            begin, _, end = words[0].partition("-")
            can_write, can_execute = ("w" in words[1], "x" in words[1])
            offset, path = int(words[2], 16), Path(words[5])
            found.append(Mapping(int(begin, 16), int(end, 16), can_write, can_execute, offset, path))
    return tuple(found)


def loaded_files(maps: Path = MAPS) -> tuple[Path, ...]:
    """The libraries of llama.cpp that are mapped, by name; loads the binding first.

    Where the kernel does not tell (no `/proc`), those beside the one that the binding has opened.

    Raises:
        BindingMismatch: see `load_library`.
    """
    opened = Path(load_library().path)
    try:
        mapped = mappings_of(maps.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return tuple(sorted(path for path in opened.parent.iterdir() if _OURS.fullmatch(path.name)))
    paths = {each.path for each in mapped}
    return tuple(sorted((path for path in paths if _OURS.fullmatch(path.name)), key=lambda path: (path.name, path)))


def source_version(library: SaysVersion) -> SourceVersion:
    """Version and commit that a loaded library tells; None where it does not, as older ones."""
    return SourceVersion(_word(library, "ggml_version"), _word(library, "ggml_commit"))


def compilers_of(data: bytes) -> frozenset[str]:
    """The compilers that left their name in a library's bytes."""
    return frozenset(match.decode() for match in _BUILT_BY.findall(data))


def _word(library: SaysVersion, name: str) -> str | None:
    try:
        text: bytes | None = library.ggml(name, returns=ctypes.c_char_p)()
    except AttributeError:  # no such function
        return None
    return None if text is None else text.decode(errors="replace")
