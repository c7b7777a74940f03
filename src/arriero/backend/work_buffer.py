"""Work buffer: what the threads of llama.cpp's CPU backend share during a call, begun at a cache line.

ggml takes it from `new uint8_t[n]`, which promises a multiple of 16 bytes. Kernels that load 64 bytes at once then
cross a cache line with every load, unless luck gives them more; which luck a process has depends on what it allocated
before, and moves a prompt's rate by up to a fifth (docs/decisions/0013).

The C library has a function that takes and gives what `operator new[]` does - bytes in, address out - and begins at a
page: `valloc`, whose memory `free` takes back, as it does that of `new[]`. So the slot through which libggml-cpu calls
`operator new[]` gets its address. Nothing is compiled, no byte of code is changed, and results are the same bits.

Where the system is another one, or the process has an allocator of its own, everything stays as it is. Without memory
`valloc` says so by address 0, where `new[]` would raise; llama.cpp ends the process in both cases.
"""

import ctypes
import logging
import mmap
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, cast

from arriero.backend.elf import ElfImports
from arriero.backend.library import Function
from arriero.backend.loaded_files import MAPS, Mapping, mappings_of
from arriero.core.errors import ArrieroError

LOGGER: Final = logging.getLogger("arriero.llama_cpp")

NEW_ARRAY: Final = "_Znam"  # operator new[](unsigned long), as C++ names it for the linker
_POINTER_BYTES: Final = ctypes.sizeof(ctypes.c_void_p)


class Alignment(StrEnum):
    """What became of it."""

    ALIGNED = "aligned"
    AS_IT_IS = "as it is"


def align_work_buffers(maps: Path = MAPS) -> Alignment:
    """Let buffers that the CPU backend takes from now on begin at a page; a few milliseconds, after a model was loaded.

    Never raises: what cannot be done is told in the log, and buffers stay as they are.
    """
    process = ctypes.CDLL(None)
    try:
        if hasattr(process, NEW_ARRAY) or _file_of(process.valloc) != _file_of(process.free):
            return _as_it_is("this process has an allocator of its own")
        found = list(_slots(mappings_of(maps.read_text(encoding="utf-8", errors="replace"))))
        target = _address_of(process.valloc)
    except (AttributeError, OSError, ArrieroError) as problem:
        return _as_it_is(problem)
    if not found:
        return _as_it_is(f"no libggml-cpu calls {NEW_ARRAY}")
    done = [_point(address, target, can_write=can_write) for address, can_write in found]
    return Alignment.ALIGNED if all(done) else _as_it_is("the loader has sealed where new[] is called")


def _slots(mappings: Sequence[Mapping]) -> Iterator[tuple[int, bool]]:
    """Address of each slot, and whether it may be written."""
    for path in dict.fromkeys(each.path for each in mappings):
        if path.name.startswith("libggml-cpu"):
            yield from _slots_of(path, [each for each in mappings if each.path == path])


def _slots_of(path: Path, own: Sequence[Mapping]) -> Iterator[tuple[int, bool]]:
    """Those of one library; none that is not data of it."""
    base = next((each.begin for each in own if each.offset == 0), None)
    if base is None:
        return
    imports = ElfImports(path.read_bytes())
    for slot in imports.slots(NEW_ARRAY):
        address = base + slot - imports.first_address
        inside = [each for each in own if each.begin <= address <= each.end - _POINTER_BYTES]
        if inside and not inside[0].can_execute:
            yield address, inside[0].can_write


def _as_it_is(why: object) -> Alignment:
    LOGGER.debug("work buffers stay as they are: %s", why)
    return Alignment.AS_IT_IS


class _Place(ctypes.Structure):
    """What `dladdr` tells of an address."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def _file_of(function: Function) -> bytes:
    """The library that a function of C lies in.

    Raises:
        OSError: the loader does not know.
    """
    place = _Place()
    if not ctypes.CDLL(None).dladdr(ctypes.c_void_p(_address_of(function)), ctypes.byref(place)):
        raise OSError("the loader does not say where its functions lie")
    file: bytes = place.file
    return file


def _address_of(function: Function) -> int:
    return ctypes.cast(cast("Any", function), ctypes.c_void_p).value or 0


def _point(address: int, target: int, *, can_write: bool) -> bool:
    """Write one pointer; memory that the loader has sealed is opened for it, and sealed again."""
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    page = address & -mmap.PAGESIZE
    size = address + _POINTER_BYTES - page
    if not can_write and protect(page, size, mmap.PROT_READ | mmap.PROT_WRITE):
        return False
    ctypes.c_void_p.from_address(address).value = target
    if not can_write and protect(page, size, mmap.PROT_READ):
        LOGGER.debug("the place where new[] is called stays unsealed")
    return True
