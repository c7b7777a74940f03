"""`arriero lab perf callgrind`: instructions by function, counted by valgrind's emulated CPU."""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from arriero.cli.lab.perf_flags import numbers, run_parser, split_command
from arriero.cli.sources import LineParser
from arriero.core.errors import ConfigError

_INSIDE: Final = "llama_context::process_ubatch(*)"
"""Not llama_decode itself: callgrind loses track of what a foreign-function call enters, and sees what that calls."""


def main(arguments: Sequence[str]) -> int:
    """Count, and say where the instructions are.

    Raises:
        ConfigError: valgrind is not there, the library has instructions that it does not emulate, or a flag cannot
            work. DataError: see `run_profiler`.
    """
    words, command = split_command(arguments)
    flags = _parser().parse_args(words)
    from arriero.cli.lab.perf_run import library_choice, prepare, run_profiler
    from arriero.lab.perf.callgrind_profiler import CallgrindProfiler
    from arriero.lab.perf.tools import find_tool
    from arriero.record.cpu_lab.perf import PerfMode

    tool = find_tool("valgrind", flags.valgrind)
    inside = _inside(flags, command)
    if not command:
        _refuse_wide_vectors(library_choice(flags))
    prepared = prepare(flags, command, PerfMode.CALLGRIND, tool)
    if inside is not None and not command:
        _require_one(inside, flags.library)
    return run_profiler(flags, prepared, CallgrindProfiler(tool, inside), {"inside": inside})


def _inside(flags: Namespace, command: tuple[str, ...]) -> str | None:
    """The function that is watched; nothing is left out for a program of the caller's own, unless it was asked for."""
    if flags.whole and flags.inside is not None:
        raise ConfigError("--whole: counts everything; leave --inside out")
    inside = flags.inside or (None if flags.whole or command else _INSIDE)
    if inside is not None and not command and max(numbers(flags, "threads")) > 1:
        raise ConfigError(f"--threads: only the thread that calls {inside} is counted; use --threads 1, or --whole")
    return inside


def _require_one(inside: str, library: str | None) -> None:
    """Entering a second function that fits would switch counting off again.

    Raises:
        ConfigError: none fits, or several do.
    """
    from arriero.lab.perf.library_folder import library_files, library_folder
    from arriero.lab.perf.symbol_table import matching, symbols_of

    symbols = [symbol for file in library_files(library_folder(library)) for symbol in symbols_of(file)]
    found = matching(symbols, inside)
    if len(found) != 1:
        names = "; ".join(found[:4]) or "none"
        raise ConfigError(f"--inside {inside}: has to fit one function of llama.cpp, and fits {len(found)} ({names})")


def _refuse_wide_vectors(library: Path | None) -> None:
    """Say before a long run what valgrind would say in its first second.

    Raises:
        ConfigError: the binding's own library was built with AVX-512.
    """
    from arriero.backend.cpu_features import features_of_build
    from arriero.backend.library import load_library
    from arriero.lab.perf.callgrind_profiler import REMEDY

    if library is not None:
        return  # another build tells what it is when it runs
    wide = sorted(word for word in features_of_build(load_library().system_info()) if word.startswith("AVX512"))
    if wide:
        raise ConfigError(f"the llama.cpp in use was built with {', '.join(wide)}; {REMEDY}")


def _parser() -> LineParser:
    says = (
        "Count instructions by function with valgrind's emulated CPU: exact and repeatable, no times, some fifty times "
        "as slow, one thread at a time. Needs a build of llama.cpp without AVX-512, named by --library."
    )
    parser = run_parser("callgrind", says, repetitions=1, threads=1)
    parser.set_defaults(warmups="0", prompt="64", generate="8", timeout="7200")
    tool = parser.add_argument_group("tool")
    tool.add_argument("--inside", metavar="FUNCTION", help=f"count in it and what it calls (worker: {_INSIDE})")
    tool.add_argument("--whole", action="store_true", help="count everything, the start of the interpreter included")
    tool.add_argument("--valgrind", metavar="PROGRAM", help="take this valgrind")
    return parser
