"""The context pool alone, with the published options: one run, its figures, and whether it kept its rules."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from arriero.bench.experiments.contexts import ContextShape, ModelSettings, ModelSource, open_model
from arriero.bench.experiments.evidence_page import shown
from arriero.bench.experiments.experiment import Experiment, Outcome, Statement, Table, Tell, Value
from arriero.bench.experiments.fifo_pool_raw import run_line
from arriero.bench.experiments.samples import in_process_label, rounded
from arriero.bench.fifo_pool_checks import broken_rules, hash_words, hashes
from arriero.bench.fifo_pool_figures import LatencyFigures, PoolFigures, pool_figures
from arriero.bench.fifo_pool_plan import PoolPlan
from arriero.bench.fifo_pool_runners import PoolRun, Runner, run_pool
from arriero.core.errors import ConfigError
from arriero.record.strict import Count, Name, Positive


class PoolAlone(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is run.

    Attributes:
        model: what computes.
        runner: who drives the clients.
        contexts: of the pool.
        concurrent: clients, each with one request at a time.
        requests: in all.
        budgets: tokens, dealt round-robin; 0 takes no context.
        threads: of each context.
        prompt: of every request.
        temperature: 0 is greedy.
        seed_base: of request 0; the others count on.
        cancels, cancel_after: requests that are cancelled, after so many tokens.
        heeds_end: whether an end token ends an answer.
        positions: KV positions of each context; None for what is needed.
    """

    model: ModelSettings
    runner: Runner
    contexts: Positive
    concurrent: Positive
    requests: Positive
    budgets: Annotated[tuple[Count, ...], Meta(min_length=1)]
    threads: Positive
    prompt: Name
    temperature: Annotated[float, Meta(ge=0)]
    seed_base: Count
    cancels: tuple[Count, ...]
    cancel_after: Count
    heeds_end: bool
    positions: Positive | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolResult:
    """What one run came to.

    Attributes:
        broken: rules of the pool that were broken.
        hashes: budget → the different whole answers.
        facts: what computed.
    """

    run: PoolRun
    figures: PoolFigures
    broken: tuple[str, ...]
    hashes: Mapping[int, Sequence[int]]
    facts: Mapping[str, Any]


def run_once(config: PoolAlone) -> PoolResult:
    """Run the pool.

    Raises:
        ConfigError: the options do not go together, or the model cannot be had.
    """
    with open_model(config.model) as source:
        plan = _plan(config, source)
        shape = _shape(config, plan)
        came = run_pool(config.runner, plan, lambda: source.make(shape))
        facts = source.facts()
    return PoolResult(
        run=came,
        figures=pool_figures(came),
        broken=tuple(broken_rules(came)),
        hashes=hashes(came),
        facts={**facts, "runner": config.runner.value, "threads_of_a_context": config.threads},
    )


def outcome_of(config: PoolAlone, result: PoolResult) -> Outcome:
    """The same as an outcome."""
    figures, broken = result.figures, result.broken
    failed = ", ".join(f"{kind} {count}" for kind, count in figures.errors.items())
    return Outcome(
        statements=(
            Statement.so(
                "rules of the pool that were broken",
                f"{len(broken)}" + (f", first: {broken[0]}" if broken else ""),
                "none",
                holds=not broken,
            ),
            Statement.so("requests that failed", failed or "none", "none", holds=not failed),
        ),
        tables=(_figure_table(config, figures), _hash_table(config, result.hashes)),
        limits=LIMITS,
        facts=result.facts,
        raw={"run.jsonl": run_line(result.run, {"runner": config.runner.value})},
    )


def run(config: PoolAlone, tell: Tell) -> Outcome:
    """Run and judge."""
    tell(f"{config.runner}, {config.requests} requests")
    return outcome_of(config, run_once(config))


def _plan(config: PoolAlone, source: ModelSource) -> PoolPlan:
    return PoolPlan(
        contexts=config.contexts,
        concurrent=config.concurrent,
        requests=config.requests,
        budgets=config.budgets,
        prompt=tuple(source.vocabulary.encode(config.prompt, add_special=True, parse_special=False)),
        temperature=config.temperature,
        seed_base=config.seed_base,
        cancels=config.cancels,
        cancel_after=config.cancel_after,
        heeds_end=config.heeds_end,
    )


def _shape(config: PoolAlone, plan: PoolPlan) -> ContextShape:
    if config.positions is not None and config.positions < plan.positions:
        message = f"--ctx-size {config.positions}: prompt and budget need {plan.positions}; give that or more"
        raise ConfigError(message)
    return ContextShape(num_sequences=1, positions=config.positions or plan.positions, threads=config.threads)


def _figure_table(config: PoolAlone, figures: PoolFigures) -> Table:
    return Table(
        title="The pool",
        label=in_process_label(config.model),
        heads=("figure", "value"),
        rows=tuple(_figure_rows(figures)),
        note="Latencies: nearest rank, of requests that ended well; total p99 and TTFT p99 from 100 of them on.",
    )


def _figure_rows(figures: PoolFigures) -> Iterator[tuple[Value, ...]]:
    """Every figure by its name; those of a latency after its own name."""
    for name in figures.__struct_fields__:
        value = getattr(figures, name)
        words = name.replace("_", " ")
        if isinstance(value, LatencyFigures):
            for part in value.__struct_fields__:
                yield f"{words.removesuffix(' ms')}, {part.replace('_', ' ')}", _shown(getattr(value, part))
        elif isinstance(value, int | float | None):
            yield words, _shown(value)
        else:
            yield words, shown(value) or "none"


def _hash_table(config: PoolAlone, found: Mapping[int, Sequence[int]]) -> Table:
    return Table(
        title="Whole greedy answers to the prompt",
        label=in_process_label(config.model),
        heads=("budget", "different ones", "hashes"),
        rows=tuple((budget, len(values), hash_words(values)) for budget, values in found.items()),
    )


def _shown(value: float | None) -> Value:
    return rounded(value) if isinstance(value, float) else value


LIMITS: Final = (
    "One run: a difference between two of them is nothing before both were repeated in turns.",
    "Times of requests hold their wait for a context.",
)

EXPERIMENT: Final = Experiment(
    name="fifo-pool",
    number="E8",
    decides="Does a pool of contexts keep its rules under these options, and what does the run cost?",
    metric="rules that were broken, and requests that failed",
    comparison="none: the figures of one run stand alone",
    difference="any broken rule, any failed request",
    config=PoolAlone,
    run=run,
)
