"""Who calls a function that has no name: the named functions whose code jumps to it or calls it.

A kernel of llama.cpp is often a local function behind a small exported one; its samples have no name, its caller does.
Calls through a pointer are not found.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from arriero.lab.perf.functions import Extent
from arriero.lab.perf.symbol_table import Symbol, symbols_of
from arriero.lab.perf.tools import Tool, ask

_JUMP: Final = re.compile(
    r"^\s*(?P<at>[0-9a-f]{1,16}):\s+(?:jmp|call)q?\s+(?P<to>[0-9a-f]{1,16})\b", re.ASCII | re.MULTILINE
)
_PATIENCE_S: Final = 120.0
_MOST: Final = 4


class Jump(NamedTuple):
    """A call or a jump to a known address."""

    at: int
    to: int


def callers(objdump: Tool, file: Path, extent: Extent) -> tuple[str, ...]:
    """Names of functions that call one, at most four, by address. Cost: some seconds for a file's first question.

    Raises:
        ConfigError: a tool is missing or cannot read the file.
    """
    return named_callers(_jumps(objdump, file), symbols_of(file), extent)


def named_callers(jumps: Iterable[Jump], symbols: Iterable[Symbol], extent: Extent) -> tuple[str, ...]:
    """The functions in whose code a jump to the beginning of another one stands."""
    places = [jump.at for jump in jumps if jump.to == extent.start and not extent.start <= jump.at < extent.end]
    found = [each.name for each in symbols if any(each.extent.start <= place < each.extent.end for place in places)]
    return tuple(dict.fromkeys(found))[:_MOST]


def parse_jumps(text: str) -> tuple[Jump, ...]:
    """Calls and jumps to known addresses in what objdump writes; conditional ones stay inside of a function."""
    return tuple(Jump(int(match["at"], 16), int(match["to"], 16)) for match in _JUMP.finditer(text))


@lru_cache(maxsize=8)
def _jumps(objdump: Tool, file: Path) -> tuple[Jump, ...]:
    words = (objdump.path, "--disassemble", "--no-show-raw-insn", "--section=.text", str(file))
    return parse_jumps(ask(words, timeout_s=_PATIENCE_S))
