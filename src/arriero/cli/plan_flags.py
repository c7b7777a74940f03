"""The flags of `arriero plan`."""

import argparse
from typing import TYPE_CHECKING, Final

from arriero.cli.machine import available_cores
from arriero.cli.simulation.numbers import amount, count, positive
from arriero.cli.simulation.output import ROOT, add_force
from arriero.cli.sources import LineParser, add_options, make_parser
from arriero.core.config import OPTIONS
from arriero.core.errors import ConfigError

if TYPE_CHECKING:
    from arriero.metrics.client_figures import ClientSlos

_TAKEN: Final = (
    "model", "ctx_size", "kv", "exact", "threads", "batch", "micro_batch", "prefill_rows_per_seq", "ageing", "displace",
    "reuse", "backlog", "backlog_tokens",
)  # fmt: skip
PLAN_OPTIONS: Final = tuple(option for option in OPTIONS if option.name in _TAKEN)
"""Settings that are the same for all candidates."""
DEFAULT_OUT: Final = f"{ROOT}/plan.json"
USUAL_REQUESTS: Final = 1000
USUAL_SHARE: Final = 0.95
_NS_PER_MS: Final = 1e6


def plan_parser() -> LineParser:
    """The parser."""
    parser = make_parser(
        "plan",
        "Which rate this machine sustains under objectives, and with which configuration: simulated, from a cost "
        "profile, without a model.",
    )
    parser.add_argument(
        "workload",
        metavar="WORKLOAD",
        help="a workload file, a journal, a generator's settings (.toml, .json), a name such as chat, LENGTHS such as "
        "120x64, or with --trace a published trace",
    )
    parser.add_argument("--profile", metavar="FILE", required=True, help="of `arriero calibrate`")
    _add_workload(parser)
    _add_objectives(parser)
    _add_candidates(parser)
    _add_output(parser)
    add_options(parser, PLAN_OPTIONS)
    return parser


def slos_of(flags: argparse.Namespace) -> "ClientSlos":
    """The objectives.

    Raises:
        ConfigError: there is none.
    """
    from arriero.metrics.client_figures import ClientSlos

    slos = ClientSlos(
        ttft_ns=_ns(flags.slo_ttft), tpot_ns=_ns(flags.slo_tpot), e2e_ns=_ns(flags.slo_e2e),
        largest_gap_ns=_ns(flags.slo_gap),
    )  # fmt: skip
    if slos == ClientSlos():
        raise ConfigError("no objective is given; say what is good enough with --slo-ttft, --slo-gap or another one")
    return slos


def share(text: str) -> float:
    """A share above 0, at most 1.

    Raises:
        ArgumentTypeError: it is none.
    """
    value = amount(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is no share; use a number above 0, at most 1")
    return value


def _ns(milliseconds: float | None) -> int | None:
    return None if milliseconds is None else round(milliseconds * _NS_PER_MS)


def _add_workload(parser: LineParser) -> None:
    group = parser.add_argument_group("workload: who asks for how much")
    group.add_argument("--trace", choices=["azure", "mooncake"], help="WORKLOAD is this published trace, plain or .xz")
    group.add_argument("--scale", type=positive, metavar="N", help="of a trace: divide lengths by N, rounded up")
    group.add_argument("--output-scale", type=positive, metavar="N", help="divide outputs by N (default: as --scale)")
    group.add_argument("--context", type=positive, metavar="N", help="of a trace: leave out what is longer")
    group.add_argument("--unverified", action="store_true", help="take a trace that is not the published file")
    group.add_argument(
        "--requests", type=positive, metavar="N", default=USUAL_REQUESTS,
        help=f"the first so many are simulated (default: {USUAL_REQUESTS})",
    )  # fmt: skip
    group.add_argument(
        "--arrivals", choices=["own", "poisson"],
        help="gaps: their own, stretched to each rate (default for files), or by chance",
    )  # fmt: skip
    group.add_argument("--seed", type=count, metavar="N", default=0, help="of chance (default: 0)")


def _add_objectives(parser: LineParser) -> None:
    group = parser.add_argument_group("objectives: what is good enough; at least one")
    for name, says in (("ttft", "first token"), ("tpot", "mean gap"), ("e2e", "last token"), ("gap", "largest gap")):
        group.add_argument(f"--slo-{name}", metavar="MS", type=amount, help=f"{says} within")
    group.add_argument(
        "--share", type=share, metavar="SHARE", default=USUAL_SHARE,
        help=f"of the submitted requests that must keep all of them (default: {USUAL_SHARE:g})",
    )  # fmt: skip


def _add_candidates(parser: LineParser) -> None:
    group = parser.add_argument_group("candidates: lists of what is tried, each with each")
    says = "powers of two as far as was calibrated"
    group.add_argument("--sequences", metavar="LIST", help=f"requests that run at once (default: {says})")
    group.add_argument("--policy", metavar="LIST", help="words, or module:Class (default: fcfs,shortest-prefill)")
    group.add_argument(
        "--prefill-rows-per-step", metavar="LIST", help="prompt rows of a step; 0 is no limit (default: 0,128)"
    )
    group.add_argument(
        "--itl-target", metavar="LIST", help="milliseconds of a step; 0 is none (default: 0, and --slo-gap if given)"
    )
    group.add_argument("--jobs", type=positive, metavar="N", default=available_cores(), help="processes")


def _add_output(parser: LineParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument("--validation", metavar="FILE", help="of `arriero sim validate`: gives the rate its error bars")
    group.add_argument("--out", metavar="FILE", default=DEFAULT_OUT, help=f"the plan (default: {DEFAULT_OUT})")
    group.add_argument("--write-config", metavar="FILE", help="the best one, as TOML for `arriero serve --config`")
    group.add_argument("--json", action="store_true", help="print the plan as JSON")
    add_force(parser)
