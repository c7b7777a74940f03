"""`arriero lab asm SYMBOL`: the instructions of a function of the llama.cpp in use, counted, with its loops."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from arriero.cli.lab.flag_values import flag_value
from arriero.cli.sources import LineParser, make_parser
from arriero.core.option_kinds import Whole

if TYPE_CHECKING:
    from arriero.record.cpu_lab.assembly import AssemblyFacts, InstructionMix

_LINES: Final = "80"
_LOOPS: Final = 6


def main(arguments: Sequence[str]) -> int:
    """Find, read, count.

    Raises:
        ConfigError: no such function, with names that are near; or objdump is not there.
    """
    flags = _parser().parse_args(arguments)
    from arriero.lab.perf.assembly import find_function, read_assembly
    from arriero.lab.perf.callers import callers
    from arriero.lab.perf.library_folder import library_folder
    from arriero.lab.perf.tools import find_tool

    limit = flag_value("--lines", flags.lines, Whole(1))
    objdump = find_tool("objdump")
    place = find_function(library_folder(flags.library), flags.symbol, objdump, within=flags.within)
    facts = read_assembly(place, objdump, with_listing=True)
    called_by = callers(objdump, place.file, place.extent) if flags.callers else ()
    if flags.json:
        print(msgspec.json.format(msgspec.json.encode(facts), indent=2).decode())
        return 0
    for line in _lines(facts, called_by, limit, listing_of=flags.listing):
        print(line)
    return 0


def _lines(facts: "AssemblyFacts", called_by: Sequence[str], limit: int, *, listing_of: str) -> Iterator[str]:
    whole = "" if facts.is_whole else ", only its beginning was read"
    yield f"{facts.symbol} [{facts.library}] at {facts.start:#x}, {facts.size_bytes:,} bytes{whole}"
    yield f"sha256 of the library: {facts.library_sha256}"
    yield "counted in the file, not while it runs"
    if facts.jumps_to is not None:
        yield f"it only jumps to {facts.jumps_to}: arriero lab asm {facts.jumps_to} --within {facts.library}"
    if called_by:
        yield f"called by {'; '.join(called_by)}"
    yield from _mix_lines("all", facts.mix)
    inner = facts.inner_loops
    yield f"{len(facts.loops)} loops, {len(inner)} of them innermost"
    for loop in inner[:_LOOPS]:
        yield from _mix_lines(f"loop {loop.start:x} to {loop.end:x}", loop.mix)
    shown = list(facts.listing)
    if listing_of == "loop" and inner:
        shown = [line for line in shown if inner[0].start <= int(line.partition(":")[0], 16) <= inner[0].end]
    yield from ("" if listing_of == "none" else line for line in shown[: 0 if listing_of == "none" else limit])
    if listing_of != "none" and len(shown) > limit:
        yield f"... {len(shown) - limit} more instructions; --lines {len(shown)} shows all"


def _mix_lines(name: str, mix: "InstructionMix") -> Iterator[str]:
    yield f"{name}: {mix.total} instructions"
    yield "  " + ", ".join(f"{kind} {count}" for kind, count in mix.kinds.items())
    widths = ", ".join(f"{width} bits {count}" for width, count in mix.widths.items()) or "no vector registers"
    one = f", {mix.scalar_conversions} conversions of one number" if mix.scalar_conversions else ""
    yield f"  {widths}; memory reads {mix.memory_reads}, writes {mix.memory_writes}{one}"


def _parser() -> LineParser:
    parser = make_parser(
        "lab asm",
        "Show the instructions of a function of the llama.cpp in use: how many of which kind, its loops, the listing.",
    )
    parser.add_argument("symbol", metavar="SYMBOL", help="a name, or 0x... with --within for a function without one")
    parser.add_argument(
        "--library", metavar="FOLDER", help="of another build (default: LLAMA_CPP_LIB_PATH, the binding's)"
    )
    parser.add_argument("--within", metavar="NAME", help="only this library, such as libggml-cpu.so")
    parser.add_argument(
        "--listing", choices=["all", "loop", "none"], default="loop",
        help="which instructions to show: all, the longest inner loop, or none (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--lines", metavar="N", default=_LINES, help="of the listing at most (default: %(default)s)")
    parser.add_argument("--callers", action="store_true", help="also who calls it; reads the whole library")
    parser.add_argument("--json", action="store_true", help="print it as JSON, the whole listing included")
    return parser
