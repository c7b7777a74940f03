"""Gate G45 as acceptance statements: the same runs and rules, on an experiment's own model."""

from collections.abc import Iterator, Sequence

from arriero.backend.protocol import Backend
from arriero.bench.experiments.contexts import ContextShape, ModelSource
from arriero.bench.experiments.experiment import Statement, Tell
from arriero.bench.fifo_pool_checks import broken_rules, hashes
from arriero.bench.fifo_pool_control import NUM_CONTEXTS, hindered_plan, mixed_plan, serial_plan
from arriero.bench.fifo_pool_engine import run_engine
from arriero.bench.fifo_pool_figures import pool_figures
from arriero.bench.fifo_pool_runners import PoolRun, Runner, run_pool
from arriero.core.ids import TokenId
from arriero.engine.options import EngineOptions


def control_statements(
    source: ModelSource, prompt: tuple[TokenId, ...], budgets: Sequence[int], tell: Tell
) -> list[Statement]:
    """Both runners of the pool, and an engine under the exact composition, on the same requests."""
    tell("G45: the engine")
    plan = mixed_plan(prompt, budgets)
    shape = ContextShape(num_sequences=NUM_CONTEXTS, positions=plan.positions, threads=1)
    engine = run_engine(plan, lambda: source.make(shape), EngineOptions(exact=True))
    return [
        statement
        for runner in Runner
        for statement in _statements(runner, _runs(source, runner, prompt, budgets, tell), engine)
    ]


def _runs(
    source: ModelSource, runner: Runner, prompt: tuple[TokenId, ...], budgets: Sequence[int], tell: Tell
) -> tuple[PoolRun, PoolRun, PoolRun]:
    plans = (mixed_plan(prompt, budgets), serial_plan(prompt, budgets[0]), hindered_plan(prompt, budgets[0]))
    shape = ContextShape(num_sequences=1, positions=max(plan.positions for plan in plans), threads=1)

    def make() -> Backend:
        return source.make(shape)

    tell(f"G45: the {runner} pool")
    mixed, serial, hindered = (run_pool(runner, plan, make) for plan in plans)
    return mixed, serial, hindered


def _statements(runner: Runner, runs: tuple[PoolRun, PoolRun, PoolRun], engine: PoolRun) -> Iterator[Statement]:
    mixed, serial, hindered = runs
    broken = [rule for run in runs for rule in broken_rules(run)]
    yield Statement.so(
        f"G45, {runner}: acquires equal releases, turns are strict, contexts are dealt in the order of asking",
        broken[0] if broken else "no rule is broken",
        "no rule is broken",
        holds=not broken,
    )
    ours, theirs = hashes(mixed), hashes(engine)
    alike = [budget for budget in theirs if ours.get(budget) == theirs[budget] and len(theirs[budget]) == 1]
    yield Statement.equal(f"G45, {runner}: budgets with one hash, the engine's", len(alike), len(theirs))
    peak = pool_figures(serial).peak_in_use
    in_order = [life.number for life in sorted(serial.lives, key=lambda life: life.ended_at)]
    yield Statement.so(
        f"G45, {runner}: one context serves {len(in_order)} requests one after another",
        f"at most {peak} at once, order {in_order}",
        f"at most 1 at once, order {list(range(len(in_order)))}",
        holds=peak == 1 and in_order == list(range(len(in_order))),
    )
    figures = pool_figures(mixed)
    asked = sum(life.budget > 0 for life in mixed.lives)
    yield Statement.so(
        f"G45, {runner}: budget 0 takes no context",
        f"{figures.bypassed} bypassed, {figures.acquires} acquires",
        f"{len(mixed.lives) - asked} bypassed, {asked} acquires",
        holds=figures.acquires == asked and figures.bypassed == len(mixed.lives) - asked,
    )
    yield Statement.equal(
        f"G45, {runner}: a request cancelled as it asks ends once", pool_figures(hindered).cancelled, 1
    )
