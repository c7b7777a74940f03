"""Disassembly of one function of a library, bounded, by objdump.

139640:  vpdpbusd (%rax),%ymm1,%ymm2
139650:  jne    139640 <ggml_gemm_q4_0_8x8_q8_0+0x40>
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from arriero.core.errors import DataError
from arriero.lab.perf.functions import Extent
from arriero.lab.perf.tools import Tool, ask

LONGEST_BYTES: Final = 256 * 1024
"""Of one function that is read; more is cut off and said so. The longest kernel of llama.cpp has about 50 KiB."""

_PATIENCE_S: Final = 60.0
_LINE: Final = re.compile(r"\s*(?P<address>[0-9a-f]{1,16}):\s+(?P<text>\S.*)", re.ASCII)
_PREFIX: Final = re.compile(r"(?:(?:lock|rep[nz]*|repz|bnd|notrack|data16|cs|ds|es|fs|gs|addr32|\{\w+\}|rex\.\w+)\s+)+")
_TARGET: Final = re.compile(r"(?P<address>[0-9a-f]{1,16}) <(?P<name>.+)>", re.ASCII)
_UNREAD: Final = "(bad)"


class Instruction(NamedTuple):
    """One line."""

    address: int
    mnemonic: str  # without prefixes
    operands: str  # AT&T order: the destination comes last; without comment
    target: int | None  # of a jump or call to a known address
    target_name: str | None  # what objdump calls that place

    @property
    def text(self) -> str:
        """As it is shown."""
        return f"{self.mnemonic:<12} {self.operands}".rstrip()


def disassemble(objdump: Tool, library: Path, extent: Extent) -> tuple[Instruction, ...]:
    """The instructions of a stretch of a library's code, at most `LONGEST_BYTES` of it.

    Raises:
        ConfigError: objdump cannot read the file. DataError: what it writes is not understood.
    """
    end = min(extent.end, extent.start + LONGEST_BYTES)
    bounds = (f"--start-address={extent.start:#x}", f"--stop-address={end:#x}")
    words = (objdump.path, "--disassemble", "--demangle", "--no-show-raw-insn", "--wide", *bounds, str(library))
    return parse_disassembly(ask(words, timeout_s=_PATIENCE_S), file=f"objdump of {library.name}")


def parse_disassembly(text: str, *, file: str) -> tuple[Instruction, ...]:
    """All instructions, in their order.

    Raises:
        DataError: there is none, bytes that are no instruction, or addresses that go back.
    """
    found = tuple(_instructions(text, file))
    if not found:
        raise DataError("holds no instruction; is there code at that place?", file=file)
    return found


def _instructions(text: str, file: str) -> Iterator[Instruction]:
    last = -1
    for number, line in enumerate(text.splitlines(), start=1):
        match = _LINE.fullmatch(line)
        if match is None or match["text"].startswith("file format"):
            continue  # headings
        address = int(match["address"], 16)
        if address <= last:
            raise DataError(f"line {number}: addresses go back; is it one function?", file=file, line=number)
        if _UNREAD in match["text"]:
            message = f"line {number}: bytes that objdump does not know; take a newer binutils"
            raise DataError(message, file=file, line=number)
        last = address
        yield _instruction(address, match["text"])


def _instruction(address: int, text: str) -> Instruction:
    code = _PREFIX.sub("", text.split("#", 1)[0].strip()) or text.strip()
    mnemonic, _, operands = code.partition(" ")
    target = _TARGET.fullmatch(operands.strip())
    return Instruction(
        address=address,
        mnemonic=mnemonic,
        operands=operands.strip(),
        target=None if target is None else int(target["address"], 16),
        target_name=None if target is None else target["name"],
    )
