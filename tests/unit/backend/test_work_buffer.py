"""A pointer in memory that may be sealed, and the map that says so. What it is for is tested on the real library."""

import ctypes
import logging
import mmap
import sys
from pathlib import Path

import pytest

from arriero.backend.loaded_files import MAPS, Mapping, mappings_of
from arriero.backend.work_buffer import Alignment, _point, align_work_buffers

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="memory maps of Linux")

TEXT = """\
7f0000000000-7f0000013000 r--p 00000000 fe:00 1234                       /opt/with a blank/libggml-cpu.so.0
7f0000013000-7f000014c000 r-xp 00013000 fe:00 1234                       /opt/with a blank/libggml-cpu.so.0
7f000017a000-7f000017b000 r--p 00179000 fe:00 1234                       /opt/with a blank/libggml-cpu.so.0
7f000017b000-7f0000180000 rw-p 0017a000 fe:00 1234                       /opt/with a blank/libggml-cpu.so.0
7f0000180000-7f0000190000 rw-p 00000000 00:00 0
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]
"""


def test_files_are_read_from_a_memory_map() -> None:
    path = Path("/opt/with a blank/libggml-cpu.so.0")
    assert mappings_of(TEXT) == (
        Mapping(0x7F0000000000, 0x7F0000013000, can_write=False, can_execute=False, offset=0, path=path),
        Mapping(0x7F0000013000, 0x7F000014C000, can_write=False, can_execute=True, offset=0x13000, path=path),
        Mapping(0x7F000017A000, 0x7F000017B000, can_write=False, can_execute=False, offset=0x179000, path=path),
        Mapping(0x7F000017B000, 0x7F0000180000, can_write=True, can_execute=False, offset=0x17A000, path=path),
    )


@linux_only
@pytest.mark.parametrize("sealed", [False, True])
def test_a_pointer_is_written_and_what_was_sealed_is_sealed_again(sealed: bool) -> None:  # noqa: FBT001 - a table
    memory = mmap.mmap(-1, mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory)) + 40
    if sealed:
        protect = ctypes.CDLL(None).mprotect
        protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        assert protect(address & -mmap.PAGESIZE, mmap.PAGESIZE, mmap.PROT_READ) == 0
    assert _point(address, 0x1234_5678, can_write=not sealed)
    assert ctypes.c_void_p.from_address(address).value == 0x1234_5678
    assert _may_write(address) is not sealed


def _may_write(address: int) -> bool:
    for line in MAPS.read_text().splitlines():
        place, permissions = line.split()[:2]
        begin, end = (int(each, 16) for each in place.split("-"))
        if begin <= address < end:
            return "w" in permissions
    raise AssertionError(f"{address:x} is not mapped")


@linux_only
def test_without_a_memory_map_everything_stays_as_it_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "arriero.llama_cpp")
    assert align_work_buffers(tmp_path / "no-such-file") is Alignment.AS_IT_IS
    assert "no-such-file" in caplog.text
