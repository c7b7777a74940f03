"""A small shared library, byte by byte: what it imports, and where."""

import struct
from collections.abc import Sequence

X86_64, AARCH64 = 62, 183
JUMP_SLOT, GLOB_DAT, RELATIVE = 7, 6, 8
SHIFT = 0x1000  # what lies at a place of the file is mapped that much higher


def elf_image(imports: Sequence[tuple[str, int, int]], *, machine: int = X86_64, first: int = SHIFT) -> bytes:
    """The bytes of a library.

    Args:
        imports: name of a function, kind of its relocation, address of its slot.
        machine: number in the header.
        first: address of the first byte.
    """
    names = b"\0" + b"".join(name.encode() + b"\0" for name, _, _ in imports)
    at_names, offsets = 1, []
    for name, _, _ in imports:
        offsets.append(at_names)
        at_names += len(name) + 1
    symbols = bytes(24) + b"".join(struct.pack("<IBBHQQ", each, 0, 0, 0, 0, 0) for each in offsets)
    relocations = b"".join(
        struct.pack("<QQq", slot, number << 32 | kind, 0) for number, (_, kind, slot) in enumerate(imports, start=1)
    )
    begin = 64 + 2 * 56
    tables = begin + 6 * 16
    entries = {
        23: first + tables,  # JMPREL
        2: len(relocations),  # PLTRELSZ
        6: first + tables + len(relocations),  # SYMTAB
        5: first + tables + len(relocations) + len(symbols),  # STRTAB
        7: first + tables,  # RELA, which holds the same ones here
        8: len(relocations),  # RELASZ
    }
    dynamic = b"".join(struct.pack("<qQ", tag, value) for tag, value in entries.items())
    size = tables + len(relocations) + len(symbols) + len(names)
    ident = b"\x7fELF\x02\x01".ljust(16, b"\0")
    header = struct.pack("<16sHHIQQQIHHHHHH", ident, 3, machine, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, first, first, size, size, 0x1000)
    found = struct.pack("<IIQQQQQQ", 2, 6, begin, first + begin, first + begin, len(dynamic), len(dynamic), 8)
    return header + load + found + dynamic + relocations + symbols + names
