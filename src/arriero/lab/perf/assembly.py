"""The code of a function of llama.cpp as it is told: found in the libraries in use, read, counted."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from arriero.core.errors import ConfigError
from arriero.lab.file_hash import file_sha256
from arriero.lab.perf.disassembly import LONGEST_BYTES, Instruction, disassemble
from arriero.lab.perf.functions import Extent, parse_frames
from arriero.lab.perf.instruction_mix import kind_of, mix_of
from arriero.lab.perf.library_folder import library_files
from arriero.lab.perf.loops import loops_of
from arriero.lab.perf.symbol_table import find_symbol, near, symbols_of
from arriero.lab.perf.tools import Tool, ask
from arriero.record.cpu_lab.assembly import AssemblyFacts, Kind

_ADDRESS: Final = re.compile(r"(?:function at )?0x(?P<address>[0-9a-f]{1,16})")
_PATIENCE_S: Final = 60.0
_OTHER_WORK: Final = 8  # instructions at most of a function that only prepares a jump to another one, padding left out


class Place(NamedTuple):
    """A function in a file."""

    file: Path
    symbol: str
    extent: Extent


def find_function(folder: Path, wanted: str, objdump: Tool, *, within: str | None = None) -> Place:
    """Where a function lies.

    Args:
        folder: of the libraries.
        wanted: a name, or `0x...`, an address inside of it.
        objdump: reads the places of functions without a name.
        within: base name of the library to look into, with or without a version; None looks into all.

    Raises:
        ConfigError: there is none; tells names that are near.
    """
    files = [file for file in library_files(folder) if within is None or within.startswith(file.name)]
    if not files:
        raise ConfigError(f"{folder}: holds no library {within}; it has {_names(library_files(folder))}")
    match = _ADDRESS.fullmatch(wanted)
    if match is not None:
        return _at(files, int(match["address"], 16), objdump)
    tables = [(file, symbols_of(file)) for file in files]
    for file, symbols in tables:
        found = find_symbol(symbols, wanted)
        if found is not None:
            return Place(file, found.name, found.extent)
    names = near([symbol for _, symbols in tables for symbol in symbols], wanted)
    raise ConfigError(f"{wanted}: no function of that name in {_names(files)}; near ones are {'; '.join(names)}")


def read_assembly(place: Place, objdump: Tool, *, with_listing: bool = False) -> AssemblyFacts:
    """Read and count the code of a function.

    Raises:
        ConfigError: objdump cannot read the file. DataError: what it writes is not understood.
    """
    instructions = disassemble(objdump, place.file, place.extent)
    size = place.extent.end - place.extent.start
    return AssemblyFacts(
        library=place.file.name,
        library_sha256=file_sha256(place.file),
        symbol=place.symbol,
        start=place.extent.start,
        size_bytes=size,
        is_whole=size <= LONGEST_BYTES,
        mix=mix_of(instructions),
        loops=loops_of(instructions),
        jumps_to=_only_jumps_to(instructions, place.extent),
        listing=tuple(f"{each.address:x}: {each.text}" for each in instructions) if with_listing else (),
    )


def _only_jumps_to(instructions: Sequence[Instruction], extent: Extent) -> str | None:
    """Where a function that hands over to another one goes: the hot code is there."""
    work = [each for each in instructions if kind_of(each) is not Kind.PADDING]
    outside = [each.target for each in work if each.target is not None and not extent.start <= each.target < extent.end]
    leaves = [each for each in work if each.mnemonic == "jmp" and each.target in outside]
    is_short = len(work) <= _OTHER_WORK + len(leaves)
    return f"{leaves[-1].target:#x}" if leaves and is_short and work[-1] is leaves[-1] else None


def _at(files: Sequence[Path], address: int, objdump: Tool) -> Place:
    if len(files) > 1:
        raise ConfigError(f"{address:#x}: is an address inside a file; name the file with --within, {_names(files)}")
    symbols = symbols_of(files[0])
    named = next((each for each in symbols if each.extent.start <= address < each.extent.end), None)
    if named is not None:
        return Place(files[0], named.name, named.extent)
    table = parse_frames(ask((objdump.path, "--dwarf=frames", str(files[0])), timeout_s=_PATIENCE_S))
    extent = table.at(address)
    if extent is None:
        raise ConfigError(f"{address:#x}: no function of {files[0].name} lies there; is it an address of this build?")
    return Place(files[0], f"function at {extent.start:#x}", extent)


def _names(files: Sequence[Path]) -> str:
    return ", ".join(file.name for file in files)
