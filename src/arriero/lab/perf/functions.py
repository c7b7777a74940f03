"""Where functions lie in a shared library, also those without a name.

A stripped library names only what it exports; its inner loops are often local functions. The unwind table (.eh_frame)
is kept all the same, since exceptions and stack walks need it, and tells where each function begins and ends. So a
sample at an address without a name can be given to a function, and samples of one function can be added up.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from arriero.core.errors import ConfigError
from arriero.lab.perf.tools import Tool, ask

_FRAMES: Final = re.compile(r"\bFDE\b.*\bpc=(?P<start>[0-9a-f]{1,16})\.\.(?P<end>[0-9a-f]{1,16})", re.ASCII)
_PATIENCE_S: Final = 60.0
NAMELESS: Final = "function at "
"""Begins the symbol of a function without a name; its address follows."""

UNRESOLVED: Final = "unresolved"
"""The symbol of samples at addresses that no function is known for."""


class Extent(NamedTuple):
    """Where a function lies in its file."""

    start: int
    end: int  # one past its last byte


@dataclass(frozen=True, slots=True)
class FunctionTable:
    """The functions of one file, by address.

    Attributes:
        extents: ascending, none inside another.
    """

    extents: tuple[Extent, ...]

    def at(self, address: int) -> Extent | None:
        """The function that an address lies in. Cost: O(log n)."""
        index = bisect_right(self.extents, (address, 2**64)) - 1
        if index < 0:
            return None
        found = self.extents[index]
        return found if found.start <= address < found.end else None


Tables: TypeAlias = Callable[[str], FunctionTable]
"""Gives the functions of a file by its base name; an empty table where they are not known."""


def parse_frames(text: str) -> FunctionTable:
    """The functions in what `objdump --dwarf=frames` writes; other lines say how to unwind, and are left out."""
    found = {Extent(int(match["start"], 16), int(match["end"], 16)) for match in _FRAMES.finditer(text)}
    return FunctionTable(tuple(_apart(sorted(found))))


def _apart(extents: Iterable[Extent]) -> Iterator[Extent]:
    """Those that do not overlap with the one before."""
    reached = 0
    for each in extents:
        if each.start >= reached and each.end > each.start:
            reached = each.end
            yield each


def function_tables(objdump: Tool | None, paths: Mapping[str, Path]) -> Tables:
    """Tables that are read when they are first asked for.

    Args:
        objdump: None leaves all of them empty.
        paths: base name -> the file.
    """

    @cache
    def table(name: str) -> FunctionTable:
        path = paths.get(name)
        if objdump is None or path is None or not path.is_file():
            return FunctionTable(())
        try:
            return parse_frames(ask((objdump.path, "--dwarf=frames", str(path)), timeout_s=_PATIENCE_S))
        except ConfigError:  # no object file, such as the kernel's page of system calls
            return FunctionTable(())

    return table


def nameless(address: int | None, shared_object: str, tables: Tables) -> str:
    """The word for a function without a name: by where it begins, so that all of its samples get the same one."""
    extent = None if address is None else tables(shared_object).at(address)
    return UNRESOLVED if extent is None else f"{NAMELESS}{extent.start:#x}"
