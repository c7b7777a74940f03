"""The flags of `arriero bench run`, in groups."""

import argparse
from dataclasses import replace
from typing import Final

from arriero.bench.schedule_arrivals import Process
from arriero.cli.bench.flags_values import (
    clients,
    header,
    milliseconds,
    named_value,
    nanoseconds,
    ramp,
    rate,
    rates,
    seconds,
    share,
    vocabulary,
    warm_up,
)
from arriero.cli.simulation.numbers import amount, positive
from arriero.cli.sources import LineParser, add_options, make_parser
from arriero.cli.workload_flags import count
from arriero.core.config import OPTIONS
from arriero.metrics.definitions import DEFINITIONS

IN_PROCESS: Final = "in-process"
SIM: Final = "sim"
_ENGINE: Final = (
    "model", "backend", "ctx_size", "sequences", "kv", "flash_attn", "exact", "threads", "n_gpu_layers", "batch",
    "micro_batch", "prefill_rows_per_seq", "prefill_rows_per_step", "engine_cpus", "placement", "backlog", "log_level",
    "log_format",
)  # fmt: skip
_MODEL_SAYS: Final = "the name sent to a server; for in-process what `arriero serve --model` takes"
ENGINE_OPTIONS: Final = tuple(
    replace(option, spec=replace(option.spec, says=_MODEL_SAYS)) if option.name == "model" else option
    for option in OPTIONS
    if option.name in _ENGINE
)
_EPILOG: Final = """
exit status:
  0    measured; the validity flag is valid or degraded
  1    not one request ended normally
  2    something given cannot work; nothing was measured
  3    measured, but invalid: the generator could not keep its own schedule
  130  interrupted; what was measured until then is in the file

Times may have a unit: 500ms, 30s, 5m. Lists have commas: --rate 1,2,4 is a sweep.
"""


def run_parser() -> LineParser:
    """The parser of `arriero bench run`."""
    parser = make_parser("bench run", "Measure a server, the engine in this process, or the simulator.")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.add_argument(
        "workload",
        metavar="WORKLOAD",
        help="a workload file, a generator's settings (.toml, .json), a name such as chat, or LENGTHS such as 120x64 "
        "(prompt and output tokens)",
    )
    says = f"http://HOST:PORT, {IN_PROCESS} or {SIM}"
    parser.add_argument("--target", metavar="TARGET", required=True, help=says)
    _add_load(parser)
    _add_requests(parser)
    _add_server(parser)
    _add_judging(parser)
    _add_output(parser)
    parser.add_argument("--sim", metavar="FILE", help=f"with --target {SIM}: an arriero-simulation-v1 configuration")
    add_options(parser, ENGINE_OPTIONS)
    return parser


def _add_load(parser: LineParser) -> None:
    group = parser.add_argument_group("load: how often, how many, how long")
    group.add_argument("--rate", type=rates, metavar="R", help="open loop: arrivals a second; several are a sweep")
    group.add_argument("--clients", type=clients, metavar="N", help="closed loop: clients; several are a sweep")
    group.add_argument("--replay", action="store_true", help="the workload's own arrivals")
    group.add_argument(
        "--arrivals", choices=list(Process), default="poisson", help="gaps of an open loop (default: poisson)"
    )
    group.add_argument("--cv", type=rate, metavar="X", default=1.0, help="gamma: coefficient of variation (default: 1)")
    group.add_argument("--speed", type=rate, metavar="X", default=1.0, help="replay: so many times as fast")
    group.add_argument(
        "--ramp", type=ramp, metavar="FROM:TO:TIME", help="the rate moves so; with --clients their number does"
    )
    group.add_argument("--requests", type=positive, metavar="N", help="how many (default: all of the workload)")
    group.add_argument("--duration", type=nanoseconds, metavar="TIME", help="nothing is sent later than this")
    group.add_argument(
        "--drain", type=nanoseconds, metavar="TIME", help="how long to wait for answers at the end (default: all)"
    )
    group.add_argument("--warm-up", type=warm_up, metavar="N|TIME", help="first requests, or time, in no figure")
    group.add_argument("--cool-down", type=nanoseconds, metavar="TIME", default=0, help="time left out before the end")
    group.add_argument("--repeat", action="store_true", help="send a workload again when it is too short")
    group.add_argument("--seed", type=count, metavar="N", default=0, help="of arrivals, prompts, cancellations")


def _add_requests(parser: LineParser) -> None:
    group = parser.add_argument_group("requests: what is asked")
    endpoints = ["completions", "chat"]
    group.add_argument("--endpoint", choices=endpoints, default=endpoints[0], help="(default: completions)")
    group.add_argument("--prompts", choices=["tokens", "text"], help="completions: token ids (default), or words")
    group.add_argument("--ignore-eos", action="store_true", help="ask for answers of the full length")
    group.add_argument("--no-stream", action="store_true", help="ask for whole answers")
    group.add_argument(
        "--field", type=named_value, metavar="NAME=JSON", action="append", default=[], help="of the body; repeatable"
    )
    group.add_argument("--cancel-rate", type=share, metavar="SHARE", default=0.0, help="cancelled by the client")
    group.add_argument(
        "--answers", choices=["workload", "real"], default="workload",
        help="what later turns carry: the made-up answer (default), or what was really said",
    )  # fmt: skip
    group.add_argument("--send-session", action="store_true", help="name conversations to the server (session_id)")
    group.add_argument(
        "--vocabulary", type=vocabulary, metavar="FIRST:SIZE", help="tokens of made-up prompts (default: 1000:30000)"
    )
    group.add_argument("--fold-tokens", action="store_true", help="map the workload's tokens into that range")
    group.add_argument(
        "--group-prefix", type=count, metavar="N",
        help="tokens that a prefix group shares where only lengths are known (default: half of its shortest prompt)",
    )  # fmt: skip


def _add_server(parser: LineParser) -> None:
    group = parser.add_argument_group("server: how it is reached")
    group.add_argument("--api-key", metavar="KEY", help="sent as a bearer token; @FILE reads it; never stored")
    group.add_argument(
        "--header", type=header, metavar="NAME: VALUE", action="append", default=[], help="repeatable; never stored"
    )
    group.add_argument("--name", metavar="NAME", help="of the target in tables")
    group.add_argument("--timeout", type=seconds, metavar="TIME", default=600.0, help="of a request (default: 600s)")
    group.add_argument("--silence", type=seconds, metavar="TIME", help="the longest time without a byte (default: any)")
    group.add_argument("--new-connections", action="store_true", help="open one for each request")
    group.add_argument("--continuous-usage", action="store_true", help="ask for the usage in every chunk")
    group.add_argument(
        "--server-pid", type=positive, metavar="PID", action="append", default=[],
        help="a process of the server, so that it is no busy neighbour (default: who listens on a local port)",
    )  # fmt: skip


def _add_judging(parser: LineParser) -> None:
    group = parser.add_argument_group("judging")
    for name, says in (("ttft", "first token"), ("tpot", "mean gap"), ("e2e", "last token"), ("gap", "largest gap")):
        group.add_argument(f"--slo-{name}", type=milliseconds, metavar="MS", help=f"objective: {says} within")
    words = "|".join(DEFINITIONS)
    group.add_argument(
        "--definitions", choices=list(DEFINITIONS), default="arriero", metavar="NAME",
        help=f"whose words the table follows: {words} (default: arriero); the file always has the raw events",
    )  # fmt: skip
    group.add_argument("--lag-limit", type=milliseconds, metavar="MS", help="p99 of send lag if valid (default: 5)")
    group.add_argument(
        "--neighbour-cores", type=amount, metavar="N", help="others may keep so many cores busy (default: 0.25)"
    )
    group.add_argument(
        "--look", type=seconds, metavar="TIME", default=1.0, help="at the machine before each point (default: 1s)"
    )
    group.add_argument("--no-calibration", action="store_true", help="do not measure the instrument first")


def _add_output(parser: LineParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument("--out", metavar="FILE", help="the result (default: below .artifacts/bench)")
    group.add_argument("--force", action="store_true", help="replace a result that exists")
    group.add_argument("--no-raw", action="store_true", help="leave the raw events out of the file")
    group.add_argument("--json", action="store_true", help="print the result without raw events instead of tables")
