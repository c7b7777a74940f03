"""The code of an object file or library, symbol by symbol, in a form that two builds can be compared by.

What differs between two builds of equal code is left out: addresses, displacements from the instruction pointer and the
offsets of jumps. What is left is the instructions and their operands.
"""

import hashlib
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from arriero.core.errors import ConfigError
from arriero.lab.tool_run import run_tool

_HEAD: Final = re.compile(r"^[0-9a-f]+ <(?P<name>.+)>:$")
_LINE: Final = re.compile(r"^\s*[0-9a-f]+:\s+(?P<text>\S.*)$")
_FROM_HERE: Final = re.compile(r"-?(?:0x[0-9a-f]+)?\((%[re]ip)\)")
_TARGET: Final = re.compile(r"\b(?:0x)?[0-9a-f]+ <(?P<name>[^>+]+)(?:\+0x[0-9a-f]+)?>")
_PADDING: Final = re.compile(r"^(?:(?:data16|cs|ds)\s+)*(?:nop[lw]?\b.*|xchg\s+%ax,%ax)$")
_CODE: Final = frozenset("tTwWuV")  # kinds of nm that may be functions: text, weak, unique
_PATIENCE_S: Final = 300.0


class Code(NamedTuple):
    """One symbol's code."""

    size_bytes: int | None  # None if the file does not say
    instructions: tuple[str, ...]  # normalised, padding left out

    @property
    def sha256(self) -> str:
        """Of the normalised instructions."""
        return hashlib.sha256("\n".join(self.instructions).encode()).hexdigest()

    @property
    def mnemonics(self) -> tuple[str, ...]:
        """The first word of each instruction."""
        return tuple(line.partition(" ")[0] for line in self.instructions)


def missing_tool() -> str | None:
    """Why no code can be read here, in words; None if it can."""
    missing = [name for name in ("objdump", "nm") if shutil.which(name) is None]
    return f"{' and '.join(missing)} not found (Debian: apt-get install binutils)" if missing else None


def symbol_codes(file: Path, symbols: Sequence[str] = ()) -> Mapping[str, Code]:
    """Symbol as the linker knows it -> its code, in the order of the file.

    Args:
        file: an object file or a shared library.
        symbols: only these; empty for all.

    Raises:
        ConfigError: the tools are missing, or cannot read the file.
    """
    sizes = dict(_sizes(file))
    only = [f"--disassemble={symbol}" for symbol in symbols] or ["--disassemble"]
    found: dict[str, Code] = {}
    # objdump takes one symbol a call
    for choice in only:
        text = _output("objdump", "--no-show-raw-insn", "--wide", choice, str(file))
        for name, lines in parse_listing(text):
            found[name] = Code(sizes.get(name), lines)
    return found


def parse_listing(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Symbols and normalised instructions of what objdump writes."""
    name, lines = "", list[str]()
    for line in text.splitlines():
        if head := _HEAD.match(line):
            if name:
                yield name, tuple(lines)
            name, lines = head["name"], []
        elif name and (match := _LINE.match(line)):
            normalised = normalise(match["text"])
            if normalised:
                lines.append(normalised)
    if name:
        yield name, tuple(lines)


def normalise(instruction: str) -> str:
    """One instruction without what the place of the code decides; empty for padding."""
    text = " ".join(instruction.partition("#")[0].split())
    if _PADDING.match(text):
        return ""
    text = _FROM_HERE.sub(r"(\1)", text)
    return _TARGET.sub(lambda match: f"<{match['name']}>", text)


def demangled(names: Sequence[str]) -> Mapping[str, str]:
    """Symbols as people write them; unchanged where `c++filt` is missing."""
    program = shutil.which("c++filt")
    if program is None or not names:
        return {name: name for name in names}
    done = run_tool([program], patience_s=_PATIENCE_S, text="\n".join(names) + "\n")
    shown = done.stdout.splitlines()
    return dict(zip(names, shown, strict=True)) if len(shown) == len(names) else {name: name for name in names}


def _sizes(file: Path) -> Iterator[tuple[str, int]]:
    for line in _output("nm", "--print-size", "--defined-only", str(file)).splitlines():
        words = line.split(maxsplit=3)
        if len(words) == 4 and words[2] in _CODE:
            yield words[3], int(words[1], 16)


def _output(tool: str, *arguments: str) -> str:
    """What a tool of binutils writes.

    Raises:
        ConfigError: it is missing or fails.
    """
    program = shutil.which(tool)
    if program is None:
        raise ConfigError(f"{tool} not found; install it (Debian: apt-get install binutils)")
    done = run_tool([program, *arguments], patience_s=_PATIENCE_S)
    if done.returncode != 0:
        said = done.stderr.strip().partition("\n")[0] or f"status {done.returncode}"
        raise ConfigError(f"{tool}: {said}; name an object file or a shared library")
    return done.stdout
