"""Where a named function lies in a file, and names that are near the one that was asked for."""

import re
import shutil
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from arriero.core.errors import ConfigError
from arriero.lab.object_code import demangled
from arriero.lab.perf.functions import Extent
from arriero.lab.perf.tools import PLAIN, ask
from arriero.lab.process import run_process

_PATIENCE_S: Final = 30.0
_CODE: Final = frozenset("tTwWuViI")  # kinds of nm that may be functions: text, weak, unique, chosen at load time
_NEAR: Final = 8
_WILD: Final = MappingProxyType({"*": ".*", "?": "."})
_PARTS: Final = re.compile(r"[a-z]+|\d+")


class Symbol(NamedTuple):
    """A named function."""

    name: str  # as people write it
    linked_name: str  # as the linker knows it
    extent: Extent


def symbols_of(file: Path) -> tuple[Symbol, ...]:
    """The functions that a file names, exported or not, by address.

    Raises:
        ConfigError: nm is missing or cannot read the file.
    """
    program = shutil.which("nm")
    if program is None:
        raise ConfigError("nm: no such program; install binutils")
    words = (program, "--print-size", "--defined-only")
    exported = ask((*words, "--dynamic", str(file)), timeout_s=_PATIENCE_S)
    # a stripped file has no other table, which is no failure
    inside = run_process((*words, str(file)), timeout_s=_PATIENCE_S, environment=PLAIN).stdout
    found = dict(parse_nm(exported)) | dict(parse_nm(inside))
    shown = demangled(list(found))
    return tuple(
        sorted((Symbol(shown[name], name, extent) for name, extent in found.items()), key=lambda each: each.extent)
    )


def parse_nm(text: str) -> Iterator[tuple[str, Extent]]:
    """Names and places of functions in what `nm --print-size` writes; without a size there is no place."""
    for line in text.splitlines():
        words = line.split(maxsplit=3)
        if len(words) == 4 and words[2] in _CODE and all(re.fullmatch(r"[0-9a-f]{1,16}", word) for word in words[:2]):
            start, size = int(words[0], 16), int(words[1], 16)
            if size:
                # the linker's version of a symbol is no part of its name
                yield words[3].partition("@")[0], Extent(start, start + size)


def find_symbol(symbols: Sequence[Symbol], wanted: str) -> Symbol | None:
    """The function of a name: as people write it, as the linker knows it, or without its arguments if only one fits."""
    exact = [each for each in symbols if wanted in {each.name, each.linked_name}]
    if exact:
        return exact[0]
    bare = [each for each in symbols if each.name.partition("(")[0] == wanted]
    return bare[0] if len(bare) == 1 else None


def matching(symbols: Sequence[Symbol], pattern: str) -> tuple[str, ...]:
    """The functions that a pattern with `*` and `?` fits, by name; each once, wherever it lies."""
    # brackets are letters of names here, and no classes
    fits = re.compile("".join(_WILD.get(letter, re.escape(letter)) for letter in pattern), re.DOTALL)
    return tuple(sorted({each.name for each in symbols if fits.fullmatch(each.name)}))


def near(symbols: Sequence[Symbol], wanted: str, count: int = _NEAR) -> tuple[str, ...]:
    """Names like one: first those that hold it, then those with most parts in common, then the most alike."""

    def likeness(name: str) -> tuple[bool, float, float, str]:
        low = name.lower()
        shared = len(parts & set(_PARTS.findall(low))) / (len(parts) or 1)
        return asked not in low, -shared, -SequenceMatcher(None, asked, low).quick_ratio(), name

    asked = wanted.lower()
    parts = set(_PARTS.findall(asked))
    return tuple(sorted({each.name for each in symbols}, key=likeness)[:count])
