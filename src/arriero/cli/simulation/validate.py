"""`arriero sim validate`: held-out loads on the real engine and in the simulator, and how far the two are apart."""

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from arriero.cli.simulation.numbers import amount, count, positive
from arriero.cli.simulation.output import ROOT, add_force, require_absent, write_texts
from arriero.cli.sources import LineParser, add_options, configure, make_parser
from arriero.core.config import OPTIONS, ServeConfig

if TYPE_CHECKING:
    from arriero.record.validation import Compared, Validation

EXIT_OK: Final = 0
EXIT_DIVERGED: Final = 1
EXIT_INVALID: Final = 3
SECONDS: Final = 30.0
DEFAULT_OUT: Final = f"{ROOT}/validation"

# As a calibration has them: prompts that are all new, and one set of threads.
USUAL: Final = ServeConfig(reuse=False, adapt_threads=False)
_TAKEN: Final = (
    "model", "backend", "ctx_size", "sequences", "kv", "kv_type", "flash_attn", "exact", "threads", "n_gpu_layers",
    "batch", "micro_batch", "policy", "ageing", "displace", "itl_target", "prefill_rows_per_seq",
    "prefill_rows_per_step", "engine_cpus", "placement", "log_level", "log_format",
)  # fmt: skip
ENGINE_OPTIONS: Final = tuple(
    replace(option, default=getattr(USUAL, option.name)) for option in OPTIONS if option.name in _TAKEN
)
_FACTS: Final = tuple(name for name in _TAKEN if not name.startswith("log_"))
_SHOWN: Final = (
    ("TTFT p50", "ttft", "p50"), ("TTFT p90", "ttft", "p90"), ("ITL p50", "itl", "p50"), ("ITL p99", "itl", "p99"),
    ("E2E p50", "e2e", "p50"), ("tokens/s", "output_tokens_per_s", "rate"),
)  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    """Measure, simulate, write three files, print the first table.

    Returns:
        1 if a fresh scheduler decided otherwise, 3 if the load generator could not keep its schedule.

    Raises:
        ConfigError: the machine is busy, there is no cost profile, or a file exists already.
    """
    flags = _parser().parse_args(arguments)
    config = configure(flags, os.environ, ENGINE_OPTIONS, USUAL)
    config = replace(config, reuse=False, adapt_threads=False, cost_profile=flags.profile)
    outs = {ending: Path(flags.out) / f"validation.{ending}" for ending in ("json", "md", "html")}
    require_absent(list(outs.values()), force=flags.force)

    from arriero.cli.logs import set_up_logs
    from arriero.cli.simulation.validate_measure import validated

    set_up_logs(config.log_level, config.log_format)
    validation = validated(config, flags, ["arriero", "sim", "validate", *arguments], _FACTS)
    write_texts(_texts(validation, outs), force=flags.force)
    for line in summary_lines(validation):
        print(line)
    print(f"{outs['html'].parent}: validation.json, .md and .html", file=sys.stderr)
    return status_of(validation)


def status_of(validation: "Validation") -> int:
    """The exit status of a validation."""
    from arriero.metrics.validity import Flag

    if any(each.difference is not None for load in validation.loads for each in load.decisions):
        return EXIT_DIVERGED
    return EXIT_INVALID if validation.validity.flag is Flag.INVALID else EXIT_OK


def summary_lines(validation: "Validation") -> list[str]:
    """What a person reads first: errors of each load beside the noise."""
    found = [f"{'load':<24}{'requests/s':>11}" + "".join(f"{label:>20}" for label, _, _ in _SHOWN)]
    for load in validation.loads:
        by_name = {(each.metric, each.figure): each for each in load.compared}
        cells = "".join(f"{_cell(by_name.get((metric, figure))):>20}" for _, metric, figure in _SHOWN)
        found.append(f"{load.workload + ', ' + load.level:<24}{load.rate_per_s:>11.2f}{cells}")
    found += [f"{'capacity of ' + name:<24}{_cell(each):>31}" for name, each in validation.capacities.items()]
    found.append(goals_line(validation))
    runs = [each for load in validation.loads for each in load.decisions]
    differing = [each.difference for each in runs if each.difference is not None]
    if differing:
        found.append(f"decisions: differ in {len(differing)} of {len(runs)} runs, first: {differing[0]}")
    else:
        found.append(f"decisions: the same in {sum(each.steps for each in runs):,} steps of {len(runs)} runs")
    return found


def goals_line(validation: "Validation") -> str:
    """How many errors keep their goals, and which do not."""
    from arriero.record.validation import is_met

    named = [
        (f"{load.workload}, {load.level}: {each.metric} {each.figure}", is_met(each))
        for load in validation.loads
        for each in load.compared
    ]
    missed = [name for name, verdict in named if verdict is False]
    judged = sum(verdict is not None for _, verdict in named)
    at_speed = [is_met(each) for load in validation.loads for each in load.levelled]
    known = [verdict for verdict in at_speed if verdict is not None]
    words = f"; missed: {', '.join(missed)}" if missed else ""
    met = f"{judged - len(missed)} of {judged} met, {sum(known)} of {len(known)} at the machine's own speed"
    return f"goals: {met}{words}"


def _cell(each: "Compared | None") -> str:
    """An error, and the noise in brackets."""
    if each is None or each.error is None or each.noise is None:
        return "-"
    return f"{each.error:+.1%} ({each.noise:.1%})"


def _texts(validation: "Validation", outs: dict[str, Path]) -> dict[Path, str]:
    from arriero.record.validation import encode_validation
    from arriero.report.markdown import as_markdown
    from arriero.report.page import as_html
    from arriero.report.validation_document import validation_document

    document = validation_document(outs["json"].name, validation)
    return {
        outs["json"]: encode_validation(validation, file=str(outs["json"])).decode(),
        outs["md"]: as_markdown(document),
        outs["html"]: as_html(document),
    }


def _parser() -> LineParser:
    parser = make_parser(
        "sim validate",
        "Measure held-out loads on the real engine, simulate the same, and tell the errors beside the noise. Give the "
        "flags that the server gets.",
    )
    parser.add_argument(
        "--profile", metavar="FILE", help="of `arriero calibrate` (default: the one kept for this model and machine)"
    )
    parser.add_argument("--peer", metavar="URL", help="a running server that answers the same requests, once each")
    parser.add_argument("--workloads", metavar="LIST", help="of chat, long, mixed (default: all)")
    parser.add_argument(
        "--seconds", metavar="S", type=amount, default=SECONDS, help=f"of arrivals, each load (default: {SECONDS:g})"
    )
    parser.add_argument("--requests", metavar="N", type=positive, help="of each load, instead of --seconds")
    parser.add_argument("--runs", metavar="N", type=positive, default=2, help="of each load, at least 2 (default: 2)")
    parser.add_argument("--seed", metavar="N", type=count, default=1, help="of lengths and arrivals (default: 1)")
    parser.add_argument(
        "--look", metavar="S", type=amount, default=1.0, help="at the machine before each run (default: 1)"
    )
    parser.add_argument("--busy-ok", action="store_true", help="measure beside busy processes; runs are degraded")
    says = f"folder for validation.json, .md and .html (default: {DEFAULT_OUT})"
    parser.add_argument("--out", metavar="DIR", default=DEFAULT_OUT, help=says)
    add_force(parser)
    add_options(parser, ENGINE_OPTIONS)
    return parser
