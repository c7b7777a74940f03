"""CallgrindProfiler: instructions of every function, counted by an emulator, where the kernel allows no counters.

The counts are exact and repeat from run to run; they are no times. The emulated CPU has AVX2 and no AVX-512, threads
run one at a time, and everything takes fifty times as long.
"""

import re
from pathlib import Path
from typing import Final

from arriero.lab.perf.attribution import Label, Part, attribution
from arriero.lab.perf.callgrind_out import Callgrind, parse_callgrind
from arriero.lab.perf.functions import NAMELESS
from arriero.lab.perf.profiler import Reading, Scratch
from arriero.lab.perf.target import Target
from arriero.lab.perf.tools import Tool
from arriero.record.cpu_lab.perf import WHOLE, PerfMode
from arriero.record.cpu_lab.perf_attribution import CallGraph, Measure
from arriero.record.cpu_lab.perf_counters import Counter

_FILE: Final = "callgrind.out"
_NO_NAME: Final = ("0x", "???")
_ADDRESS: Final = re.compile(r"0x[0-9a-f]{1,16}", re.ASCII)
NOTE: Final = (
    "instructions counted by callgrind's emulated CPU: exact and repeatable, but no times; a load that waits for "
    "memory counts as much as one that does not"
)
UNKNOWN_INSTRUCTION: Final = "unhandled instruction bytes"
"""What valgrind says before a program is killed for an instruction that it does not emulate."""

REMEDY: Final = (
    "valgrind does not emulate AVX-512: build llama.cpp with -DGGML_NATIVE=OFF -DGGML_AVX2=ON -DGGML_FMA=ON "
    "-DGGML_F16C=ON and name its folder with --library"
)


class CallgrindProfiler:
    """Counts instructions, of everything or inside one function and what it calls."""

    def __init__(self, tool: Tool, inside: str | None = None) -> None:
        """Take valgrind, and the function inside which is counted; None counts everything."""
        self._tool = tool
        self._inside = inside
        scope = WHOLE if inside is None else f"inside {inside}"
        self._label = Label(Measure.INSTRUCTIONS, CallGraph.NONE, NOTE, scope)

    @property
    def mode(self) -> PerfMode:
        """Counting by emulation."""
        return PerfMode.CALLGRIND

    def command(self, target: Target, scratch: Scratch) -> tuple[str, ...]:
        """`valgrind --tool=callgrind`."""
        words = (self._tool.path, "--tool=callgrind", f"--callgrind-out-file={_written(scratch)}")
        inside = () if self._inside is None else (f"--toggle-collect={self._inside}",)
        return (*words, *inside, *target.command)

    def wrote(self, scratch: Scratch) -> bool:
        """Whether there is a file of counts."""
        path = _written(scratch)
        return path.is_file() and path.stat().st_size > 0

    def remedy(self, stderr: str) -> str | None:
        """Another build, where an instruction is not emulated."""
        return REMEDY if UNKNOWN_INSTRUCTION in stderr else None

    def read(self, scratch: Scratch) -> Reading:
        """Instructions in all, and by function.

        Raises:
            DataError: see `parse_callgrind`.
        """
        found = parse_callgrind(scratch.text(_FILE), file="callgrind")
        counted = Counter(
            event=Measure.INSTRUCTIONS.value, value=float(found.total), unit="", run_time_ns=None, running_percent=None
        )
        parts = _parts(found)
        shares = attribution(parts, self._label, total=found.total)
        return Reading(counters=(counted,), attribution=shares, scope=self._label.scope)


def _parts(found: Callgrind) -> list[Part]:
    """Valgrind calls functions without a name by the address where they begin, or by question marks."""
    return [
        Part(
            symbol=_symbol(row.symbol),
            shared_object=row.shared_object,
            share=row.instructions / found.total,
            number=row.instructions,
            is_resolved=not row.symbol.startswith(_NO_NAME),
        )
        for row in found.rows
    ]


def _symbol(name: str) -> str:
    """The same words for a function without a name as samples have."""
    match = _ADDRESS.fullmatch(name)
    return name if match is None else f"{NAMELESS}{int(match[0], 16):#x}"


def _written(scratch: Scratch) -> Path:
    return scratch.folder / _FILE
