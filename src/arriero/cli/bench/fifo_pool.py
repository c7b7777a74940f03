"""`arriero bench experiment fifo-pool`: the context pool alone, with the published options."""

import argparse
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from arriero.cli.simulation.numbers import amount, positive
from arriero.cli.simulation.output import add_force, require_absent, write_text
from arriero.cli.sources import LineParser, make_parser
from arriero.core.errors import ConfigError

if TYPE_CHECKING:
    from arriero.bench.experiments.contexts import ContextShape, ModelSource
    from arriero.bench.fifo_pool_figures import PoolFigures
    from arriero.bench.fifo_pool_plan import PoolPlan

PROMPT: Final = "Hello, my name is"
DEFAULT_BUDGET: Final = 8
SYNTHETIC_CALL_S: Final = 0.002


def main(arguments: Sequence[str]) -> int:
    """Run the pool once and print its figures; status 1 if a rule of the pool was broken or a request failed.

    Raises:
        ConfigError: an option that cannot work.
    """
    from arriero.bench.experiments.contexts import ModelSettings, open_model
    from arriero.bench.fifo_pool_checks import broken_rules, hashes
    from arriero.bench.fifo_pool_figures import pool_figures
    from arriero.bench.fifo_pool_runners import Runner, run_pool

    flags = _parser().parse_args(arguments)
    if flags.json is not None:
        require_absent([Path(flags.json)], force=flags.force)
    settings = ModelSettings(backend=flags.backend, reference=flags.model, call_s=SYNTHETIC_CALL_S)
    with open_model(settings) as source:
        plan = _plan(flags, source)
        run = run_pool(Runner(flags.runner), plan, lambda: source.make(_shape(flags, plan)))
        facts = source.facts()
    figures, broken = pool_figures(run), broken_rules(run)
    for line in figure_lines(flags.runner, figures):
        print(line)
    for budget, values in hashes(run).items():
        print(f"hash of budget {budget}: {', '.join(f'0x{value:016x}' for value in values)}")
    for rule in broken:
        print(f"FAIL: {rule}")
    if flags.json is not None:
        write_text(Path(flags.json), _as_json(arguments, figures, broken, facts), force=flags.force)
    return 1 if broken or figures.errors else 0


def figure_lines(runner: str, figures: "PoolFigures") -> list[str]:
    """The published outputs, one a line."""
    errors = ", ".join(f"{kind} {count}" for kind, count in figures.errors.items()) or "none"
    lines = [
        f"runner: {runner}",
        f"ok: {figures.ok}, cancelled: {figures.cancelled}, errors: {errors}",
        f"wall: {figures.wall_ms:.1f} ms, {figures.tokens} tokens, {_shown(figures.tokens_per_s)} tok/s",
    ]
    for name, each in (("TTFT", figures.ttft_ms), ("total", figures.total_ms)):
        values = ", ".join(
            f"{word} {_shown(value)}" for word, value in (("p50", each.p50_ms), ("p95", each.p95_ms),
                                                          ("p99", each.p99_ms), ("max", each.max_ms))
        )  # fmt: skip
        lines.append(f"{name} ms: {values} (n = {each.n})")
    words = (f"{name} {getattr(figures, name)}" for name in ("acquires", "releases", "waits", "wakes", "left"))
    return [
        *lines,
        f"coefficient of variation of tok/s per request: {_shown(figures.rate_variation)}",
        f"decode calls: {figures.decode_calls}, bypassed: {figures.bypassed}",
        f"pool: {', '.join(words)}, in use at most {figures.peak_in_use}",
    ]


def _plan(flags: Namespace, source: "ModelSource") -> "PoolPlan":
    from arriero.bench.fifo_pool_plan import PoolPlan

    if flags.budget is not None and flags.budget_plan is not None:
        raise ConfigError("--budget and --budget-plan: both are given; leave one out")
    only = DEFAULT_BUDGET if flags.budget is None else flags.budget
    return PoolPlan(
        contexts=flags.contexts,
        concurrent=flags.concurrent,
        requests=flags.requests,
        budgets=flags.budget_plan or (only,),
        prompt=tuple(source.vocabulary.encode(flags.prompt, add_special=True, parse_special=False)),
        temperature=flags.temperature,
        seed_base=flags.seed_base,
        cancels=flags.cancel,
        cancel_after=flags.cancel_after,
        heeds_end=flags.heed_end,
    )


def _shape(flags: Namespace, plan: "PoolPlan") -> "ContextShape":
    from arriero.bench.experiments.contexts import ContextShape

    if flags.ctx_size is not None and flags.ctx_size < plan.positions:
        raise ConfigError(f"--ctx-size {flags.ctx_size}: prompt and budget need {plan.positions}; give that or more")
    return ContextShape(num_sequences=1, positions=flags.ctx_size or plan.positions, threads=flags.threads)


def _as_json(arguments: Sequence[str], figures: "PoolFigures", broken: Sequence[str], facts: dict[str, object]) -> str:
    import json

    import msgspec

    from arriero.bench.experiments.evidence import origin

    command = ["arriero", "bench", "experiment", "fifo-pool", *arguments]
    values = {
        "schema": "arriero-fifo-pool-v1",
        "evidence": "MEASURED" if facts["backend"] == "llama" else "SIMULATED",
        "origin": origin(command),
        "facts": facts,
        "figures": msgspec.to_builtins(figures),
        "broken_rules": list(broken),
    }
    return json.dumps(values, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise argparse.ArgumentTypeError(f"{text} is no whole number from 0 on")
    return int(text)


def _counts(text: str) -> tuple[int, ...]:
    return tuple(_count(part.strip()) for part in text.split(","))


def _parser() -> LineParser:
    parser = make_parser(
        "bench experiment fifo-pool", "A pool of whole contexts, one running request each: the historical control."
    )
    parser.add_argument("--runner", choices=["threads", "asyncio"], required=True, help="who drives the clients")
    parser.add_argument("--contexts", type=positive, default=2, metavar="N", help="contexts (default: 2)")
    parser.add_argument("--concurrent", type=positive, default=4, metavar="N", help="clients (default: 4)")
    parser.add_argument("--requests", type=positive, default=12, metavar="N", help="requests in all (default: 12)")
    parser.add_argument("--budget", type=_count, metavar="N", help=f"tokens of each answer (default: {DEFAULT_BUDGET})")
    parser.add_argument("--budget-plan", type=_counts, metavar="N,N...", help="tokens by request number, round-robin")
    parser.add_argument("--threads", type=positive, default=1, metavar="N", help="of each context (default: 1)")
    parser.add_argument("--seed-base", type=_count, default=0, metavar="N", help="seed of request 0 (default: 0)")
    parser.add_argument("--temperature", type=amount, default=0.0, metavar="T", help="0 is greedy (default: 0)")
    parser.add_argument("--cancel", type=_counts, default=(), metavar="N,N...", help="numbers of requests to cancel")
    parser.add_argument("--cancel-after", type=_count, default=0, metavar="N", help="so many tokens (default: 0)")
    parser.add_argument("--heed-end", action="store_true", help="let an end token end an answer")
    parser.add_argument("--prompt", default=PROMPT, metavar="TEXT", help=f"of every request (default: {PROMPT})")
    parser.add_argument(
        "--ctx-size", type=positive, metavar="N", help="cells of each context (default: what is needed)"
    )
    parser.add_argument("--backend", choices=["llama", "synthetic"], default="llama", help="what computes")
    parser.add_argument("--model", default="smollm2-135m", metavar="MODEL", help="a GGUF file, or smollm2-135m")
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    add_force(parser)
    return parser
