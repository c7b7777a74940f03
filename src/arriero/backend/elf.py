"""ElfImports: where a shared library keeps the addresses of functions that it calls in others.

A call to another library goes through a slot, a pointer that the loader fills in: here the slots of one function are
found, as offsets from where the library is mapped. 64-bit little-endian ELF of x86-64 and AArch64, what the loader
itself goes by (program headers and the dynamic section), no section headers, so a stripped library will do.
"""

import struct
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from arriero.core.errors import DataError

_HEADER: Final = struct.Struct("<16sHHIQQQIHHH")
_SEGMENT: Final = struct.Struct("<IIQQQQQQ")
_DYNAMIC: Final = struct.Struct("<qQ")
_RELOCATION: Final = struct.Struct("<QQq")
_SYMBOL: Final = struct.Struct("<IBBHQQ")

_IDENT: Final = b"\x7fELF\x02\x01"  # 64 bits, little-endian
_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_PLTRELSZ, _DT_STRTAB, _DT_SYMTAB, _DT_RELA, _DT_RELASZ, _DT_JMPREL = 2, 5, 6, 7, 8, 23

SLOT_KINDS: Final[Mapping[int, frozenset[int]]] = MappingProxyType({
    62: frozenset({6, 7}),  # x86-64: GLOB_DAT, JUMP_SLOT
    183: frozenset({1025, 1026}),  # AArch64: the same
})
"""Kinds of relocations that are slots of functions, by the machine in the header."""


class _Segment(NamedTuple):
    kind: int
    offset: int
    address: int
    size: int


class ElfImports:
    """What one library calls in others."""

    def __init__(self, data: bytes) -> None:
        """Read the headers.

        Raises:
            DataError: not such a library, or cut off.
        """
        self._data = data
        try:
            ident, _, machine, _, _, at, _, _, _, size, number = _HEADER.unpack_from(data)
            segments = [_SEGMENT.unpack_from(data, at + size * each) for each in range(number)]
        except (struct.error, OverflowError):
            raise DataError("not an ELF file, or cut off") from None
        if not ident.startswith(_IDENT):
            raise DataError("not a 64-bit little-endian ELF file")
        self._kinds = SLOT_KINDS.get(machine, frozenset())
        self._segments = [
            _Segment(kind, offset, address, length) for kind, _, offset, address, _, length, *_ in segments
        ]
        self._entries = dict(self._dynamic())

    @property
    def first_address(self) -> int:
        """Where the library says that its first byte lies; what is mapped lies that much higher or lower."""
        return min((each.address - each.offset for each in self._segments if each.kind == _PT_LOAD), default=0)

    def slots(self, name: str) -> tuple[int, ...]:
        """Addresses, as the library counts them, of the slots of a function; none if it does not call it.

        Raises:
            DataError: its tables lie outside of the file.
        """
        wanted = name.encode() + b"\0"
        return tuple(dict.fromkeys(at for at, symbol in self._relocations() if self._is_named(symbol, wanted)))

    def _dynamic(self) -> Iterator[tuple[int, int]]:
        for each in self._segments:
            if each.kind == _PT_DYNAMIC:
                for at in range(each.offset, each.offset + each.size, _DYNAMIC.size):
                    tag, value = self._unpack(_DYNAMIC, at)
                    yield tag, value

    def _relocations(self) -> Iterator[tuple[int, int]]:
        for table, size in ((_DT_JMPREL, _DT_PLTRELSZ), (_DT_RELA, _DT_RELASZ)):
            if table not in self._entries:
                continue
            begin = self._offset(self._entries[table])
            for at in range(begin, begin + self._entries.get(size, 0), _RELOCATION.size):
                slot, info, _ = self._unpack(_RELOCATION, at)
                if info & 0xFFFFFFFF in self._kinds:
                    yield slot, info >> 32

    def _is_named(self, symbol: int, wanted: bytes) -> bool:
        at = self._offset(self._entries.get(_DT_SYMTAB, 0)) + symbol * _SYMBOL.size
        name = self._offset(self._entries.get(_DT_STRTAB, 0)) + self._unpack(_SYMBOL, at)[0]
        return self._data[name : name + len(wanted)] == wanted

    def _offset(self, address: int) -> int:
        """Where in the file lies what is mapped there."""
        for each in self._segments:
            if each.kind == _PT_LOAD and each.address <= address < each.address + each.size:
                return each.offset + address - each.address
        raise DataError("a table of the ELF file lies outside of what is mapped")

    def _unpack(self, form: struct.Struct, at: int) -> tuple[int, ...]:
        try:
            return form.unpack_from(self._data, at)
        except (struct.error, OverflowError):  # the latter: a place beyond what Python can count as an index
            raise DataError("an ELF file that is cut off") from None
