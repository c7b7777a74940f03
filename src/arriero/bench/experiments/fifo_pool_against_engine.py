"""E8: a pool of contexts against one shared context, with the same threads and the same KV memory.

The published study closed the line of the pool: correct, and without benefit. Here it is the floor that the engine has
to beat, and by how much is a count, not a time: one decode call for all requests instead of one for each.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from arriero.bench.experiments.contexts import ModelSettings, open_model, story_tokens
from arriero.bench.experiments.experiment import Experiment, Outcome, Statement, Tell
from arriero.bench.experiments.fifo_pool_control import run_control
from arriero.bench.experiments.fifo_pool_raw import run_line
from arriero.bench.experiments.fifo_pool_rounds import Arm, Measured, Setting, measure, predicted_calls
from arriero.bench.experiments.fifo_pool_tables import tables
from arriero.bench.fifo_pool_checks import broken_rules, hashes
from arriero.bench.fifo_pool_figures import pool_figures
from arriero.metrics.mixed_decode import MixedPolicy
from arriero.record.strict import Count, Name, Positive


class PoolShape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One shape.

    Attributes:
        name: as in tables.
        contexts: of the pool; slots of the engine.
        concurrent: clients, each with one request at a time.
        requests: in all.
        budgets: tokens, dealt round-robin.
        engine_threads: of the one context; the pool's have one each, so both have the same with as many as contexts.
        rounds: measured ones; an even number, since every second one runs in the opposite order.
    """

    name: Name
    contexts: Positive
    concurrent: Positive
    requests: Positive
    budgets: list[Positive]
    engine_threads: Positive
    rounds: Annotated[int, Meta(ge=2, le=1000, multiple_of=2)]


class PoolAgainstEngineConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The configuration.

    Attributes:
        model: what computes.
        prompt_tokens: of every request.
        num_rows: rows of a decode call.
        warm_up_rounds: of each shape, in no figure.
        calls_tolerance: relative distance from the simulator's ratio of decode calls at which it is still "about" that.
        control_budgets: of the runs that repeat those of gate G45.
        seed: of the bootstrap.
        shapes: at least one.
    """

    model: ModelSettings
    prompt_tokens: Positive
    num_rows: Positive
    warm_up_rounds: Count
    calls_tolerance: Annotated[float, Meta(gt=0, lt=1)]
    control_budgets: list[Positive]
    seed: Count
    shapes: list[PoolShape]


def run(config: PoolAgainstEngineConfig, tell: Tell) -> Outcome:
    """Measure every shape, round by round, and judge."""
    with open_model(config.model) as source:
        prompt = story_tokens(source.vocabulary, config.prompt_tokens)
        control = run_control(source, prompt, config.control_budgets, tell)
        measured = [
            measure(source, _setting(shape, prompt, config), config.warm_up_rounds, tell) for shape in config.shapes
        ]
        facts = {**source.facts(), "threads_of_a_pool_context": 1, "placement": "engine on a thread of its own"}
        statements = (*control.statements(), *_statements(measured, config.calls_tolerance))
        return Outcome(
            statements=statements,
            tables=tables(measured, source, is_model=config.model.backend == "llama", seed=config.seed),
            limits=LIMITS,
            facts=facts,
            raw={"control.jsonl": control.raw(), "rounds.jsonl": b"".join(_raw(measured))},
        )


def _setting(shape: PoolShape, prompt: tuple[int, ...], config: PoolAgainstEngineConfig) -> Setting:
    return Setting(
        name=shape.name,
        contexts=shape.contexts,
        concurrent=shape.concurrent,
        requests=shape.requests,
        budgets=tuple(shape.budgets),
        prompt=prompt,
        num_rows=config.num_rows,
        engine_threads=shape.engine_threads,
        rounds=shape.rounds,
    )


def _statements(measured: Sequence[Measured], tolerance: float) -> Iterator[Statement]:
    runs = [run for each in measured for arm in Arm for run in each.runs[arm]]
    broken = [rule for run in runs for rule in broken_rules(run)]
    yield Statement.so(
        "no rule of the pool is broken in any round",
        f"{len(broken)} in {len(runs)} runs" + (f", first: {broken[0]}" if broken else ""),
        "0",
        holds=bool(runs) and not broken,
    )
    failed = sum(len(run.lives) - pool_figures(run).ok for run in runs)
    yield Statement.equal("requests that did not end well", failed, 0)
    for each in measured:
        yield _stable(each)
        factor = predicted_calls(each.setting, MixedPolicy.FIFO) / predicted_calls(each.setting, MixedPolicy.CONTINUOUS)
        for arm in (Arm.THREADS, Arm.ASYNCIO):
            ratios = [
                pool.decode_calls / engine.decode_calls
                for pool, engine in zip(each.runs[arm], each.runs[Arm.ENGINE], strict=True)
            ]
            farthest = max(ratios, key=lambda ratio: abs(ratio / factor - 1))
            yield Statement.between(
                f"{each.setting.name}: decode calls of the {arm} pool for each call of the engine, as simulated "
                f"({factor:.3f}); the round farthest from it",
                round(farthest, 4),
                factor * (1 - tolerance),
                factor * (1 + tolerance),
            )
        cells = {run.kv_cells for arm in Arm for run in each.runs[arm]}
        yield Statement.equal(f"{each.setting.name}: different sizes of KV memory among the sides", len(cells), 1)


def _stable(measured: Measured) -> Statement:
    """One prompt alone on a context has one answer for each budget, whoever drives and whenever."""
    found: dict[int, set[int]] = {}
    for arm in (Arm.THREADS, Arm.ASYNCIO):
        for run in measured.runs[arm]:
            for budget, values in hashes(run).items():
                found.setdefault(budget, set()).update(values)
    unstable = [budget for budget, values in found.items() if len(values) != 1]
    return Statement.so(
        f"{measured.setting.name}: one answer for each budget over all rounds of both pools",
        f"{len(found)} budgets, unstable: {unstable or 'none'}",
        "none unstable",
        holds=bool(found) and not unstable,
    )


def _raw(measured: Sequence[Measured]) -> Iterator[bytes]:
    """A line for each run, warm-ups not among them."""
    for each in measured:
        for arm in Arm:
            for number, run in enumerate(each.runs[arm]):
                about = {
                    "shape": each.setting.name,
                    "arm": str(arm),
                    "round": number,
                    "place": each.place_of(arm, number),
                }
                yield run_line(run, about)


LIMITS: Final = (
    "One machine and one small model: the counts of decode calls carry over, and the direction of the ratios.",
    "KV bytes are computed from the model's shape. Compute buffers, one set a context, are not counted.",
    "A shape with more contexts than cores has more threads than cores on every side alike.",
    "Every prompt is the same few tokens, as published; nothing is said about long prompts.",
    "No A/A run stands beside the times, so their verdicts know no noise floor; no statement rests on a time.",
)

EXPERIMENT: Final = Experiment(
    name="pool-against-engine",
    number="E8",
    decides="Does a pool of whole contexts gain anything over one shared context with the same threads and KV memory?",
    metric="decode calls of the pool for each decode call of the engine; makespan and TTFT p50 as ratios beside it",
    comparison="both runners of the pool and the engine in each round, every second round in the opposite order",
    difference="the ratio of decode calls within the stated tolerance of what the simulator predicts for the shape",
    config=PoolAgainstEngineConfig,
    run=run,
)
