"""Work buffer: what the threads of llama.cpp's CPU backend share during a call, begun at a cache line.

ggml takes it from `new uint8_t[n]`, which promises a multiple of 16 bytes. Kernels that load 64 bytes at once then
cross a cache line with every load, unless luck gives them more; which luck a process has depends on what it allocated
before, and moves a prompt's rate by up to a fifth (docs/decisions/0013).

The C library has a function that takes and gives what `operator new[]` does - bytes in, address out - and begins at a
page: `valloc`, whose memory `free` takes back, as it does that of `new[]`. So the slot through which libggml-cpu calls
`operator new[]` gets its address. Nothing is compiled, no byte of code is changed, and results are the same bits.

Where the system is another one, or a program brings its own `operator new[]`, everything stays as it is.
"""

import ctypes
import logging
import mmap
from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from arriero.backend.elf import ElfImports
from arriero.backend.loaded_files import MAPS, loaded_files
from arriero.core.errors import DataError

LOGGER: Final = logging.getLogger("arriero.llama_cpp")

NEW_ARRAY: Final = "_Znam"  # operator new[](unsigned long), as C++ names it for the linker
ALIGNED: Final = "valloc"
_POINTER_BYTES: Final = ctypes.sizeof(ctypes.c_void_p)


class Alignment(StrEnum):
    """What became of it."""

    ALIGNED = "aligned"
    AS_IT_IS = "as it is"


class Mapping(NamedTuple):
    """One line of the process's memory map.

    Attributes:
        begin, end: addresses.
        can_write: whether it may be written.
        offset: in the file.
        path: the file.
    """

    begin: int
    end: int
    can_write: bool
    offset: int
    path: Path


@cache
def align_work_buffers(maps: Path = MAPS) -> Alignment:
    """Let buffers that the CPU backend takes from now on begin at a page; cheap to call again.

    Never raises: what cannot be done is told in the log, and buffers stay as they are.
    """
    process = ctypes.CDLL(None)
    if hasattr(process, NEW_ARRAY):
        LOGGER.debug("work buffers stay as they are: this process brings its own operator new[]")
        return Alignment.AS_IT_IS
    try:
        target = ctypes.cast(getattr(process, ALIGNED), ctypes.c_void_p).value
        found = list(_slots(mappings_of(maps.read_text(encoding="utf-8", errors="replace"))))
    except (AttributeError, OSError, DataError) as problem:
        LOGGER.debug("work buffers stay as they are: %s", problem)
        return Alignment.AS_IT_IS
    if target is None or not found:
        return Alignment.AS_IT_IS
    done = [_point(address, target, can_write=can_write) for address, can_write in found]
    return Alignment.ALIGNED if all(done) else Alignment.AS_IT_IS


def mappings_of(text: str) -> tuple[Mapping, ...]:
    """Files in a memory map, as `/proc/self/maps` tells them."""
    found: list[Mapping] = []
    for line in text.splitlines():
        words = line.split(maxsplit=5)
        if len(words) == 6 and words[5].startswith("/"):
            begin, _, end = words[0].partition("-")
            found.append(Mapping(int(begin, 16), int(end, 16), "w" in words[1], int(words[2], 16), Path(words[5])))
    return tuple(found)


def _slots(mappings: Sequence[Mapping]) -> Iterator[tuple[int, bool]]:
    """Address of each slot, and whether it may be written."""
    for path in loaded_files():
        if not path.name.startswith("libggml-cpu"):
            continue
        imports = ElfImports(path.read_bytes())
        own = [each for each in mappings if each.path == path]
        for base in [each.begin for each in own if each.offset == 0][:1]:
            for slot in imports.slots(NEW_ARRAY):
                address = base + slot - imports.first_address
                yield address, any(each.can_write and each.begin <= address < each.end for each in own)


def _point(address: int, target: int, *, can_write: bool) -> bool:
    """Write one pointer; memory that the loader has sealed is opened for it, and sealed again."""
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    page = address & -mmap.PAGESIZE
    size = address + _POINTER_BYTES - page
    if not can_write and protect(page, size, mmap.PROT_READ | mmap.PROT_WRITE):
        LOGGER.debug("work buffers stay as they are: the loader has sealed where new[] is called")
        return False
    ctypes.c_void_p.from_address(address).value = target
    if not can_write:
        protect(page, size, mmap.PROT_READ)
    return True
