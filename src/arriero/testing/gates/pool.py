"""G45: a pool of whole contexts, the historical control, beside the engine.

Both runners of the pool are checked, whatever the placement of the engine that answers the same requests.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from arriero.backend.protocol import Backend
from arriero.bench.fifo_pool_checks import broken_rules, hashes
from arriero.bench.fifo_pool_control import NUM_CONTEXTS, ROUNDS, hindered_plan, mixed_plan, serial_plan
from arriero.bench.fifo_pool_figures import PoolFigures, pool_figures
from arriero.bench.fifo_pool_plan import PoolPlan
from arriero.bench.fifo_pool_runners import PoolRun, Runner, run_pool
from arriero.engine.options import EngineOptions
from arriero.testing.fakes import FaultyBackend
from arriero.testing.faults import FailedRequest
from arriero.testing.gates.backends import Shape
from arriero.testing.gates.context import GateContext
from arriero.testing.gates.findings import Findings
from arriero.testing.gates.rig import Rig

FAILING: Final = 1
"""The request whose decode calls fail, where one does."""


async def check_pool(context: GateContext, findings: Findings) -> None:
    """G45: the pool's answers are the engine's, its turns are strict, and its contexts all come back."""
    budgets = context.size.budgets
    promised = await _engine_hashes(context, findings)
    plan = mixed_plan(context.prompt, budgets)
    for runner in Runner:
        run, figures = await _run(context, findings, runner, plan, "mixed")
        findings.equal(f"{runner}_ok", figures.ok, plan.requests)
        findings.equal(f"{runner}_acquires", figures.acquires, ROUNDS * len(budgets))
        findings.equal(f"{runner}_releases", figures.releases, ROUNDS * len(budgets))
        findings.equal(f"{runner}_bypassed", figures.bypassed, ROUNDS)
        findings.equal(f"{runner}_decode_calls", figures.decode_calls, ROUNDS * sum(budgets))
        findings.count(f"{runner}_waits", figures.waits)
        findings.equal(f"{runner}_wakes", figures.wakes, figures.waits)
        for budget in budgets:
            seen = _words(hashes(run).get(budget, []))
            findings.equal(f"{runner}_hashes_{budget}", seen, _words([promised[budget]]))
        await _check_serial(context, findings, runner)
        await _check_hindered(context, findings, runner, promised[budgets[0]])


async def _check_serial(context: GateContext, findings: Findings, runner: Runner) -> None:
    """One context: a request begins when the one before it has ended, in the order of asking."""
    plan = serial_plan(context.prompt, context.size.budgets[0])
    run, figures = await _run(context, findings, runner, plan, "serial")
    findings.equal(f"{runner}_serial_peak", figures.peak_in_use, 1)
    findings.count(f"{runner}_serial_waits", figures.waits)
    ended = sorted(run.lives, key=lambda life: life.ended_at)
    findings.equal(f"{runner}_serial_order", [life.number for life in ended], range(plan.requests))


async def _check_hindered(context: GateContext, findings: Findings, runner: Runner, promised: int) -> None:
    """One request fails, one is cancelled while it waits: every context comes back, and the others are as ever."""
    budget = context.size.budgets[0]
    plan = hindered_plan(context.prompt, budget)
    run, figures = await _run(context, findings, runner, plan, "hindered", _failing)
    findings.equal(f"{runner}_hindered_errors", str(figures.errors), str({"decode_failed": 1}))
    findings.equal(f"{runner}_hindered_cancelled", figures.cancelled, 1)
    findings.equal(f"{runner}_hindered_ok", figures.ok, plan.requests - 2)
    findings.equal(f"{runner}_hindered_releases", figures.releases, figures.acquires)
    findings.equal(f"{runner}_hindered_hashes", _words(hashes(run).get(budget, [])), _words([promised]))


async def _run(
    context: GateContext,
    findings: Findings,
    runner: Runner,
    plan: PoolPlan,
    words: str,
    wrap: Callable[[Backend], Backend] | None = None,
) -> tuple[PoolRun, PoolFigures]:
    """One run of the pool, on a thread of its own since a runner may have an event loop of its own."""
    context.on_progress(f"{runner}, {words}")
    shape = Shape(num_sequences=1, positions=plan.positions, exact=True, threads=1)

    def make() -> Backend:
        backend = context.backends.make(shape)
        return backend if wrap is None else wrap(backend)

    run = await asyncio.to_thread(partial(run_pool, runner, plan, make))
    for rule in broken_rules(run):
        findings.broke(f"{runner}, {words}: {rule}")
    return run, pool_figures(run)


async def _engine_hashes(context: GateContext, findings: Findings) -> dict[int, int]:
    """What the engine says to the same requests, in company, under the exact composition: budget → hash."""
    context.on_progress("engine")
    budgets = context.size.budgets
    shape = Shape(num_sequences=NUM_CONTEXTS, positions=len(context.prompt) + max(budgets), exact=True)
    async with Rig(context, findings, shape, EngineOptions(keep_alive=False, exact=True)) as rig:
        for number in range(ROUNDS * len(budgets)):
            rig.submit(context.prompt, budgets[number % len(budgets)], request_id=number)
        run = await rig.run()
    for budget in budgets:
        alike = {result.token_hash for result in run.results if result.decode_budget == budget}
        findings.equal(f"engine_hashes_{budget}", len(alike), 1)
    return {result.decode_budget: result.token_hash for result in run.results}


def _failing(backend: Backend) -> Backend:
    return FaultyBackend(backend, FailedRequest(FAILING))


def _words(token_hashes: Iterable[int]) -> str:
    return " ".join(f"0x{each:016x}" for each in token_hashes)
