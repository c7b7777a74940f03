"""What `valgrind --tool=callgrind` writes: instructions by function, its own and not those of its callees.

    positions: line
    events: Ir
    ob=(1) /opt/libggml-cpu.so       a name is given once with its number, then by the number alone
    fn=(7) ggml_vec_dot_q8_0_q8_0
    12 400                           cost of line 12, of this function itself
    cfn=(9) ggml_barrier
    calls=3 88                       the line after it tells what the callee cost: not this function's own
    13 900
    totals: 1300

Format: the page "Callgrind Format Specification" of valgrind's manual.
"""

import os
import re
from collections import Counter
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from arriero.core.errors import DataError
from arriero.lab.perf.lines import bad_line, quoted, whole_number

EVENT: Final = "Ir"
_HEADERS: Final = re.compile(
    r"(?P<key>version|creator|pid|cmd|part|desc|thread|positions|events|event|summary|totals):(?P<value>.*)"
)
_NAME: Final = re.compile(
    r"(?P<key>c?ob|c?fn|fl|fi|fe|cfi|cfl)=(?:\((?P<number>\d+)\)(?: (?P<named>.+))?|(?P<plain>[^(].*))", re.ASCII
)
_CALLS: Final = re.compile(r"calls=(?P<count>\d+)(?: .*)?", re.ASCII)
_JUMP: Final = re.compile(r"(?:jump|jcnd|jfi|jfn)=.*")
_COST: Final = re.compile(r"(?:[+-]?\d+|\*|0x[0-9a-f]+|\+0x[0-9a-f]+|-0x[0-9a-f]+)(?: .*)?", re.ASCII)
_RECURSION: Final = re.compile(r"'\d+\Z")
_KINDS: Final = MappingProxyType({"ob": "object", "cob": "object", "fn": "function", "cfn": "function"})
_NO_OBJECT: Final = "unknown"


class InstructionRow(NamedTuple):
    """One function."""

    symbol: str
    shared_object: str
    instructions: int  # its own


class Callgrind(NamedTuple):
    """A whole file."""

    rows: tuple[InstructionRow, ...]  # most instructions first; equal ones by name
    total: int


@dataclass(slots=True)
class _Reader:
    """One pass over the lines.

    Attributes:
        file: its name, for complaints.
        names: kind and number -> name.
        costs: symbol and object -> instructions.
        num_positions: words before the costs.
        event: place of instructions among the costs; None before the line that tells.
        total: as the file says it; None before that line.
        current_object: of the function whose costs follow.
        function: whose costs follow; None before the first.
        skips: the next line of costs is a callee's, or none.
    """

    file: str
    names: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    costs: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    num_positions: int = 1
    event: int | None = None
    total: int | None = None
    current_object: str = _NO_OBJECT
    function: str | None = None
    skips: bool = False

    def take(self, line: str, number: int) -> None:
        """Read one line."""
        if header := _HEADERS.fullmatch(line):
            self._header(header["key"], header["value"].split(), number)
        elif name := _NAME.fullmatch(line):
            self._name(name, number)
        elif _CALLS.fullmatch(line):
            self.skips = True
        elif _COST.fullmatch(line):
            self._cost(line.split(), number)
        elif not _JUMP.fullmatch(line):
            raise bad_line(self.file, number, f"{quoted(line)} is no line of callgrind's")

    def _header(self, key: str, words: list[str], number: int) -> None:
        if key == "positions":
            self.num_positions = len(words)
        elif key == "events":
            if EVENT not in words:
                raise bad_line(self.file, number, f"the events {quoted(' '.join(words))} are without {EVENT}")
            self.event = words.index(EVENT)
        elif key in {"totals", "summary"}:
            if self.event is None or len(words) <= self.event:
                raise bad_line(self.file, number, f"the {key} are not those of the events")
            self.total = whole_number(words[self.event], file=self.file, line=number, what=f"the {key}")

    def _name(self, match: re.Match[str], number: int) -> None:
        key = match["key"]
        kind = _KINDS.get(key, "source")
        word = match["plain"] or match["named"]
        if match["number"] is not None and word is not None:
            self.names[kind, match["number"]] = word
        elif word is None:
            word = self.names.get((kind, match["number"]))
            if word is None:
                raise bad_line(self.file, number, f"the {kind} ({match['number']}) was not named before")
        if key == "ob":
            self.current_object = os.path.basename(word) or _NO_OBJECT  # noqa: PTH119 - a tool's word
        elif key == "fn":
            self.function = _RECURSION.sub("", word)

    def _cost(self, words: list[str], number: int) -> None:
        if self.skips:
            self.skips = False
            return
        if self.event is None or self.function is None:
            raise bad_line(self.file, number, "costs come before the events or before the first function")
        costs = words[self.num_positions :]
        if len(costs) > self.event:  # costs of 0 at the end of a line are left out
            cost = whole_number(costs[self.event], file=self.file, line=number, what="the cost")
            self.costs[self.function, self.current_object] += cost


def parse_callgrind(text: str, *, file: str) -> Callgrind:
    """Instructions by function.

    Raises:
        DataError: a line is none of callgrind's, the file is cut off, or its sum is not its total.
    """
    reader = _Reader(file)
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.startswith("#"):
            reader.take(line.strip(), number)
    total = sum(reader.costs.values())
    if reader.total is None or not total:
        raise DataError("holds no instruction; callgrind was ended too soon, or nothing ran inside", file=file)
    if reader.total != total:
        message = f"its functions add up to {total} instructions, its total is {reader.total}; it is cut off or damaged"
        raise DataError(message, file=file)
    rows = [InstructionRow(symbol, shared_object, cost) for (symbol, shared_object), cost in reader.costs.items()]
    return Callgrind(tuple(sorted(rows, key=lambda row: (-row.instructions, row[:2]))), total)
