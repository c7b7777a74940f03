"""Flags of `arriero lab kernels`."""

from argparse import Namespace
from collections.abc import Sequence
from typing import Final

from arriero.cli.simulation.output import ROOT
from arriero.cli.sources import LineParser, make_parser

DEFAULT_OUT: Final = f"{ROOT}/lab/kernels"
FILE: Final = "kernels.json"
KERNELS: Final = ("q8-tile", "q6-dot")
COMPILERS: Final = ("gcc", "clang")


def kernels_parser() -> LineParser:
    """All flags of the verb."""
    parser = make_parser(
        "lab kernels",
        "Small C kernels in two forms, a baseline and a candidate: equal bits first, then other instructions, then "
        "time. Each candidate stops at its first failed gate. The times are those of a micro-benchmark.",
    )
    parser.add_argument("--out", metavar="FOLDER", default=DEFAULT_OUT, help=f"for {FILE} and the report "
                        f"(default: {DEFAULT_OUT})")  # fmt: skip
    parser.add_argument("--from", dest="source", metavar="FILE", help=f"measure nothing: report on an earlier {FILE}")
    parser.add_argument("--kernel", action="append", choices=KERNELS, help="only this one; may be given again")
    parser.add_argument("--compiler", action="append", choices=COMPILERS, help="only this one; may be given again")
    parser.add_argument("--flags", metavar="WORDS", help="of the compilers, all of them (default: those for AVX2)")
    parser.add_argument("--quick", action="store_true", help="few cases and calls: shows that all works")
    parser.add_argument("--force", action="store_true", help="replace results that exist")
    parser.add_argument("--busy-ok", action="store_true", help="measure beside busy processes; the result says so")
    parser.add_argument("--json", action="store_true", help="print the result as JSON instead of a summary")
    return parser


def chosen(wanted: list[str] | None, known: Sequence[str]) -> tuple[str, ...]:
    """Those of the known words that were asked for, in their order; all without a wish."""
    return tuple(known) if not wanted else tuple(name for name in known if name in wanted)


def command_words(flags: Namespace) -> list[str]:
    """The words that make this run again, without its folder."""
    words = ["arriero", "lab", "kernels"]
    words += ["--quick"] * flags.quick + ["--busy-ok"] * flags.busy_ok
    for name, values in (("--kernel", flags.kernel), ("--compiler", flags.compiler)):
        words += [word for value in values or () for word in (name, value)]
    return words if flags.flags is None else [*words, f"--flags={flags.flags}"]
