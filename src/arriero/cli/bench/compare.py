"""`arriero bench compare`: reads the flags, then hands over."""

import argparse
from collections.abc import Sequence
from typing import Final

from arriero.cli.sources import LineParser, make_parser

SIDES: Final = ("a", "b")
DEFAULT_OUT: Final = ".artifacts/bench/compare.json"
_EPILOG: Final = """
A is what is compared with, B is what is judged: every ratio is B / A.
A server that is started gets {python}, {model}, {threads}, {slots}, {slot_context}, {context}, {host} and {port}
filled into its command, a process group of its own, and is stopped however this command ends.

exit status:
  0  in every cell B is better, or no difference is larger than --least-difference
  1  a server failed, or equal prompts got different answers on a side that --must-be-stable names
  2  something given cannot work
  3  no verdict: warming up, two modes, failed requests, an invalid round
  4  not resolved: the interval holds 1, or the difference lies within the noise floor
  5  worse
  130  interrupted; what was measured is in the file
"""


def main(arguments: Sequence[str]) -> int:
    """Compare two servers; the exit status says the verdict.

    Raises:
        ConfigError: something given cannot work. DataError: a file cannot be used.
    """
    flags = _parser().parse_args(arguments)
    from arriero.cli.bench.compare_flags import plan_of
    from arriero.cli.bench.compare_run import run_comparison

    return run_comparison(plan_of(flags), flags, ["arriero", "bench", "compare", *arguments])


def _parser() -> LineParser:
    parser = make_parser("bench compare", "Compare two servers in interleaved rounds, against their noise floor.")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    for side in SIDES:
        _add_side(parser, side)
    _add_servers(parser)
    _add_load(parser)
    _add_rules(parser)
    _add_rest(parser)
    return parser


def _add_side(parser: LineParser, side: str) -> None:
    from arriero.bench.peers import Peer

    group = parser.add_argument_group(f"side {side.upper()}")
    peers = ", ".join(Peer)
    group.add_argument(f"--{side}", metavar="SERVER", help=f"the address of a running server, or one of {peers}")
    group.add_argument(f"--{side}-command", metavar="TEXT", help="start this server instead; needs {port} in it")
    group.add_argument(f"--{side}-binary", metavar="FILE", help="the program, of a server known by name")
    group.add_argument(f"--{side}-flags", metavar="TEXT", default="", help="further words at the end of the command")
    group.add_argument(f"--{side}-fields", metavar="JSON", help="further fields of each request to it")
    group.add_argument(f"--{side}-health", metavar="PATH", help="answers 200 once it is ready (default: /health)")
    group.add_argument(f"--{side}-name", metavar="NAME", help="its name in tables")
    group.add_argument(f"--{side}-prompts", choices=["tokens", "text"], help="what it takes (default: tokens)")
    says = "search its best flags first: default, for a server known by name, or a plan file (default: no search)"
    group.add_argument(f"--{side}-search", metavar="PLAN", help=says)


def _add_servers(parser: LineParser) -> None:
    from arriero.cli.simulation.numbers import amount, positive

    group = parser.add_argument_group("servers that are started")
    group.add_argument("--model", metavar="FILE", help="the same for both")
    group.add_argument("--threads", metavar="N", type=positive, help="compute threads (default: the cores available)")
    group.add_argument("--slots", metavar="N", type=positive, help="requests at once (default: clients, at least 8)")
    says = "KV cells of a slot (default: what the longest request needs)"
    group.add_argument("--slot-context", metavar="N", type=positive, help=says)
    group.add_argument(
        "--one-at-a-time", action="store_true", help="a fresh server for each round, never two (default: both loaded)"
    )
    group.add_argument("--start-timeout", metavar="S", type=amount, default=120.0, help="until it answers")
    group.add_argument("--grace", metavar="S", type=amount, default=10.0, help="between SIGTERM and SIGKILL")
    group.add_argument("--logs", metavar="DIR", help="what the servers say (default: beside the result)")
    group.add_argument("--search-rounds", metavar="N", type=positive, help="rounds of a search's first rung")
    group.add_argument("--search-each", action="store_true", help="search in each cell (default: at the most clients)")


def _add_load(parser: LineParser) -> None:
    from arriero.cli.bench.compare_numbers import counts
    from arriero.cli.simulation.numbers import positive

    group = parser.add_argument_group("load")
    says = "clients of the closed loop, a cell each (default: 8)"
    group.add_argument("--clients", metavar="N,N", type=counts, default=(8,), help=says)
    says = "a workload file, generator settings, a workload's name, or PROMPTxOUTPUT tokens; repeatable"
    group.add_argument("--workload", metavar="WORK", action="append", help=f"{says} (default: 120x64)")
    group.add_argument(
        "--requests", metavar="N", type=positive, help="of a round (default: 3 for each client, at least 8)"
    )
    says = "requests that warm a fresh server up, and are asked again at the end (default: as many as a round)"
    group.add_argument("--warm-up", metavar="N", type=positive, help=says)
    group.add_argument("--seed", metavar="N", type=int, default=0, help="of prompts, orders and intervals (default: 0)")


def _add_rules(parser: LineParser) -> None:
    from arriero.bench.compare_metrics import DECIDES, SHOWN
    from arriero.bench.compare_plan import ROUNDS
    from arriero.bench.rounds import FEWEST_ROUNDS
    from arriero.cli.bench.compare_numbers import share, words

    group = parser.add_argument_group("rounds and verdict")
    says = f"even, at least {FEWEST_ROUNDS} (default: {ROUNDS})"
    group.add_argument("--rounds", metavar="N", type=int, default=ROUNDS, help=says)
    says = "A against itself, for the noise floor; even, 0 leaves it out (default: as many)"
    group.add_argument("--aa-rounds", metavar="N", type=int, help=says)
    group.add_argument("--order", default="abba", metavar="WORD", help="abba or seeded (default: abba)")
    says = f"metrics whose verdict counts (default: {','.join(DECIDES)})"
    group.add_argument("--decides", metavar="NAME,NAME", type=words, default=DECIDES, help=says)
    says = f"metrics that are compared as well (default: {','.join(SHOWN)})"
    group.add_argument("--also", metavar="NAME,NAME", type=words, default=SHOWN, help=says)
    says = "the smallest difference that matters, such as 2%% (default: none stated)"
    group.add_argument("--least-difference", metavar="SHARE", type=share, help=says)
    group.add_argument("--confidence", metavar="SHARE", type=share, default=0.95, help="of intervals (default: 95%%)")
    says = "sides, such as a,b, whose answers to equal prompts must be equal"
    group.add_argument("--must-be-stable", metavar="SIDES", type=words, default=(), help=says)
    group.add_argument("--failures-ok", action="store_true", help="give verdicts in spite of failed requests")


def _add_rest(parser: LineParser) -> None:
    from arriero.cli.simulation.output import add_force

    group = parser.add_argument_group("result")
    group.add_argument("--out", metavar="FILE", default=DEFAULT_OUT, help=f"default: {DEFAULT_OUT}")
    group.add_argument("--raw", action="store_true", help="keep every request of every round in the file")
    group.add_argument("--busy-ok", action="store_true", help="start beside busy processes; the result says so")
    group.add_argument("--no-calibration", action="store_true", help="leave the instrument's own offsets unknown")
    add_force(parser)
