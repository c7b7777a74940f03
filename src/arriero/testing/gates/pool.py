"""G45: a pool of whole contexts, the historical control, beside the engine.

Both runners of the pool are checked, whatever the placement of the engine that answers the same requests.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from arriero.backend.protocol import Backend
from arriero.bench.fifo_pool_checks import ControlRuns, control_rules
from arriero.bench.fifo_pool_control import NUM_CONTEXTS, ROUNDS, hindered_plan, mixed_plan, serial_plan
from arriero.bench.fifo_pool_figures import pool_figures
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
"""The request of the hindered run whose decode calls fail."""


async def check_pool(context: GateContext, findings: Findings) -> None:
    """G45: the pool's answers are the engine's, its turns are strict, and its contexts all come back."""
    budgets = context.size.budgets
    promised = await _engine_hashes(context, findings)
    for runner in Runner:
        runs = ControlRuns(
            mixed=await _run(context, runner, mixed_plan(context.prompt, budgets), "mixed"),
            serial=await _run(context, runner, serial_plan(context.prompt, budgets[0]), "serial"),
            hindered=await _run(context, runner, hindered_plan(context.prompt, budgets[0]), "hindered", _failing),
        )
        for rule in control_rules(runs, promised, errors={"decode_failed": 1}):
            where = "" if rule.run == "mixed" else f"{rule.run}_"
            findings.equal(f"{runner}_{where}{rule.name}", rule.seen, rule.promised)
        findings.count(f"{runner}_waits", pool_figures(runs.mixed).waits)
        findings.count(f"{runner}_serial_waits", pool_figures(runs.serial).waits)


async def _run(
    context: GateContext,
    runner: Runner,
    plan: PoolPlan,
    words: str,
    wrap: Callable[[Backend], Backend] | None = None,
) -> PoolRun:
    """One run of the pool, on a thread of its own since a runner may have an event loop of its own."""
    context.on_progress(f"{runner}, {words}")
    shape = Shape(num_sequences=1, positions=plan.positions, exact=True, threads=1)

    def make() -> Backend:
        backend = context.backends.make(shape)
        return backend if wrap is None else wrap(backend)

    return await asyncio.to_thread(partial(run_pool, runner, plan, make))


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
