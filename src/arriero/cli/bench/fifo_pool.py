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
    from arriero.bench.experiments.fifo_pool_alone import PoolAlone, PoolResult
    from arriero.bench.fifo_pool_figures import PoolFigures

MODEL: Final = "smollm2-135m"
PROMPT: Final = "Hello, my name is"
DEFAULT_BUDGET: Final = 8
SYNTHETIC_CALL_S: Final = 0.002


def main(arguments: Sequence[str]) -> int:
    """Run the pool once, print its figures and leave an evidence package.

    Returns:
        1 if a rule of the pool was broken or a request failed.

    Raises:
        ConfigError: an option that cannot work, or results that exist.
    """
    from arriero.bench.experiments.evidence import EvidencePackage
    from arriero.bench.experiments.experiment import Judgement
    from arriero.bench.experiments.fifo_pool_alone import EXPERIMENT, outcome_of, run_once
    from arriero.cli.bench.experiment import default_folder

    flags = _parser().parse_args(arguments)
    config = _config(flags)
    if flags.json is not None:
        require_absent([Path(flags.json)], force=flags.force)
    name = f"{EXPERIMENT.name}-{flags.runner}"
    folder = Path(flags.out) if flags.out else default_folder(name, quick=flags.backend == "synthetic")
    command = ["arriero", "bench", "experiment", EXPERIMENT.name, *arguments]
    package = EvidencePackage(folder, force=flags.force)
    try:
        package.begin(EXPERIMENT, config, command)
        result = run_once(config)
        outcome = outcome_of(config, result)
        package.finish(outcome)
    finally:
        package.abandon()
    for line in result_lines(flags.runner, result):
        print(line)
    if flags.json is not None:
        write_text(Path(flags.json), _as_json(command, result), force=flags.force)
    print(f"{outcome.judgement} {EXPERIMENT.name}: evidence in {folder}")
    return 0 if outcome.judgement is Judgement.HOLDS else 1


def result_lines(runner: str, result: "PoolResult") -> list[str]:
    """Figures, hashes, and every rule that was broken."""
    from arriero.bench.fifo_pool_checks import hash_words

    return [
        *figure_lines(runner, result.figures),
        *(f"hash of budget {budget}: {hash_words(values)}" for budget, values in result.hashes.items()),
        *(f"FAIL: {rule}" for rule in result.broken),
    ]


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


def _config(flags: Namespace) -> "PoolAlone":
    from arriero.bench.experiments.contexts import ModelSettings
    from arriero.bench.experiments.fifo_pool_alone import PoolAlone
    from arriero.bench.fifo_pool_runners import Runner

    if flags.budget is not None and flags.budget_plan is not None:
        raise ConfigError("--budget and --budget-plan: both are given; leave one out")
    if flags.model is not None and flags.backend == "synthetic":
        raise ConfigError(f"--model {flags.model}: the synthetic backend computes without one; leave it out")
    only = DEFAULT_BUDGET if flags.budget is None else flags.budget
    return PoolAlone(
        model=ModelSettings(backend=flags.backend, reference=flags.model or MODEL, call_s=SYNTHETIC_CALL_S),
        runner=Runner(flags.runner),
        contexts=flags.contexts,
        concurrent=flags.concurrent,
        requests=flags.requests,
        budgets=flags.budget_plan or (only,),
        threads=flags.threads,
        prompt=flags.prompt,
        temperature=flags.temperature,
        seed_base=flags.seed_base,
        cancels=flags.cancel,
        cancel_after=flags.cancel_after,
        heeds_end=flags.heed_end,
        positions=flags.ctx_size,
    )


def _as_json(command: Sequence[str], result: "PoolResult") -> str:
    import json

    import msgspec

    from arriero.bench.experiments.evidence import origin

    values = {
        "schema": "arriero-fifo-pool-v1",
        "evidence": "MEASURED" if result.facts["backend"] == "llama" else "SIMULATED",
        "origin": origin(command),
        "facts": dict(result.facts),
        "figures": msgspec.to_builtins(result.figures),
        "broken_rules": list(result.broken),
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
    parser.add_argument("--model", metavar="MODEL", help=f"a GGUF file, or a name (default: {MODEL})")
    parser.add_argument(
        "--out",
        metavar="DIR",
        help="the evidence package (default: evidence/fifo-pool-RUNNER; of the synthetic backend below .artifacts/)",
    )
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    add_force(parser)
    return parser
