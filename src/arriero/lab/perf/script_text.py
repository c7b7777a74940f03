"""What `perf script --show-mmap-events -F comm,tid,period,event,ip,sym,dso` writes: maps of files, and stacks.

    python 812 PERF_RECORD_MMAP2 811/811: [0x7f10(0x2000) @ 0x1000 fe:00 42 0]: r-xp /opt/libggml-cpu.so
    python 812    10101010 cpu-clock:pppH:
            7f11 ggml_vec_dot_q8_0_q8_0 (/opt/libggml-cpu.so)
            7f25 ggml_graph_compute_thread (/opt/libggml-cpu.so)

    (an empty line ends a stack; the innermost frame comes first)

Frames without a name keep their address inside the file, so that they can be told apart by the function they lie in.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from arriero.core.errors import DataError
from arriero.lab.perf.lines import bad_line, bounded, hexadecimal, quoted, whole_number

FIELDS: Final = "comm,tid,period,event,ip,sym,dso"
_HEAD: Final = re.compile(r"(?P<thread>\S.*?)\s+-?\d+(?:/\d+)?\s+(?P<period>\d{1,19})\s+(?P<event>\S+):\s*", re.ASCII)
_FRAME: Final = re.compile(
    r"\s+(?P<ip>[0-9a-fA-F]{1,16})\s+(?P<symbol>.*)\s+\((?P<file>(?:[^()]|\([^()]*\))*)\)\s*", re.ASCII
)
_MMAP: Final = re.compile(
    r".*PERF_RECORD_MMAP2? -?(?P<pid>\d+)/-?\d+: \[0x(?P<start>[0-9a-f]{1,16})\(0x(?P<size>[0-9a-f]{1,16})\) @ "
    r"(?P<offset>0x[0-9a-f]{1,16}|0)\b[^\]]*\]: (?P<rights>\S+) (?P<file>.*)",
    re.ASCII,
)
_RECORD: Final = re.compile(r".*\bPERF_RECORD_\w+")
_NO_NAME: Final = "[unknown]"
_OFFSET: Final = re.compile(r"\+0x[0-9a-f]+\Z")


class Frame(NamedTuple):
    """One function of a stack."""

    symbol: str | None  # None without a name
    file: str  # as the tool names it: a path, `[kernel.kallsyms]`, `[unknown]`
    address: int | None  # inside the file; None if the file's place is not known


class Stack(NamedTuple):
    """One sample."""

    thread: str
    event: str
    period: int  # how many of the event it stands for
    frames: tuple[Frame, ...]  # the innermost first; at least one


class Mapped(NamedTuple):
    """A file in memory."""

    start: int
    end: int
    offset: int
    file: str


@dataclass(slots=True)
class _Reader:
    """One pass over the text.

    Attributes:
        file: its name, for complaints.
        maps: files in memory, as told so far.
        head: of the sample that is being read; None between two.
        frames: of that sample.
    """

    file: str
    maps: list[Mapped] = field(default_factory=list["Mapped"])
    head: Stack | None = None
    frames: list[Frame] = field(default_factory=list["Frame"])

    def take(self, line: str, number: int) -> Stack | None:
        """Read a line; the sample that it ends, if it does."""
        if not line.strip():
            return self.close(number)
        if line[0].isspace() and _RECORD.match(line) is None:
            self._frame(line, number)
            return None
        ended = self.close(number)
        self._start(line, number)
        return ended

    def close(self, number: int) -> Stack | None:
        """End the sample that is being read, if any."""
        head, frames = self.head, tuple(self.frames)
        self.head = None
        self.frames.clear()
        if head is not None and not frames:
            raise bad_line(self.file, number, "the sample before has no frame")
        return None if head is None else head._replace(frames=frames)

    def _start(self, line: str, number: int) -> None:
        if _RECORD.match(line):
            self._map(line, number)
            return
        match = _HEAD.fullmatch(line)
        if match is None:
            raise bad_line(self.file, number, f"{quoted(line)} is no head of a sample")
        period = whole_number(match["period"], file=self.file, line=number, what="the period")
        self.head = Stack(match["thread"], match["event"], period, ())

    def _map(self, line: str, number: int) -> None:
        match = _MMAP.fullmatch(line)
        if match is None or "x" not in match["rights"]:
            return  # another kind of record, or data
        start, size, offset = (
            hexadecimal(match[name], file=self.file, line=number, what=f"the map's {name}")
            for name in ("start", "size", "offset")
        )
        self.maps.append(Mapped(start, start + size, offset, match["file"]))

    def _frame(self, line: str, number: int) -> None:
        match = _FRAME.fullmatch(line)
        if match is None or self.head is None:
            raise bad_line(self.file, number, f"{quoted(line)} is no frame of a sample")
        symbol = _OFFSET.sub("", match["symbol"]).strip()
        ip = int(match["ip"], 16)
        named = None if symbol in {"", _NO_NAME} else symbol
        self.frames.append(Frame(named, match["file"] or _NO_NAME, self._inside(ip, match["file"])))

    def _inside(self, ip: int, file: str) -> int | None:
        for each in reversed(self.maps):  # the latest map of a place is the one that counts
            if each.start <= ip < each.end and each.file == file:
                return ip - each.start + each.offset
        # some versions of perf tell the address inside the file already
        return ip if file.startswith("/") else None


class Script(NamedTuple):
    """All samples."""

    stacks: tuple[Stack, ...]
    files: tuple[str, ...]  # mapped with the right to run, in order


def parse_script(text: str, *, file: str) -> Script:
    """All samples, in their order.

    Raises:
        DataError: a line is none of perf's, or there is no sample at all.
    """
    reader = _Reader(file)
    stacks = tuple(_stacks(text, reader))
    if not stacks:
        raise DataError("holds no sample; the program ended too soon, or perf recorded nothing", file=file)
    bounded(sum(max(1, stack.period) for stack in stacks), file=file, what="the periods of its samples")
    return Script(stacks, tuple(dict.fromkeys(each.file for each in reader.maps)))


def _stacks(text: str, reader: _Reader) -> Iterator[Stack]:
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        ended = None if line.startswith("#") else reader.take(line, number)
        if ended is not None:
            yield ended
