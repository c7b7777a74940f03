"""One workload, three drivers: the engine on a backend, the simulator on a cost, and the published presets.

The engine and the simulator build the same scheduler, from the engine's own description of itself.
"""

from dataclasses import dataclass

from arriero.backend.protocol import Backend, BackendLimits
from arriero.bench.experiments.contexts import ContextShape, ModelSource
from arriero.bench.experiments.mixed_decode_fit import Fit
from arriero.bench.experiments.mixed_decode_trace import Trace, live_trace, simulated_trace
from arriero.bench.experiments.steps import StepLog
from arriero.core.ids import Epoch, RequestId, TokenId
from arriero.core.request import Request
from arriero.costmodel.models import RoundedMicroseconds
from arriero.engine.engine import Engine
from arriero.engine.handle import Result
from arriero.engine.journal import describe
from arriero.engine.options import EngineOptions
from arriero.engine.placement import Dedicated
from arriero.metrics.mixed_decode import MixedCost, MixedPolicy, MixedRequest, MixedRun
from arriero.sim.composition import build_scheduler
from arriero.sim.mixed_decode import MixedSetup, mixed_steps, run_mixed_decode
from arriero.sim.simulator import NoAnswers, Simulator, Submission

OPTIONS = EngineOptions(keep_alive=False, published_pools=True)
"""Slots of completed requests go to those that wait, as in the published gates; the run ends by itself."""

_US_PER_MS = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One run of a workload.

    Attributes:
        name: as in tables.
        slots: requests that run at once.
        budgets: tokens of each request, by its number.
        prompt: of every request.
        num_rows: rows of a decode call.
        threads: compute threads; None takes every CPU.
    """

    name: str
    slots: int
    budgets: tuple[int, ...]
    prompt: tuple[TokenId, ...]
    num_rows: int
    threads: int | None

    @property
    def shape(self) -> ContextShape:
        """The context that it needs."""
        return ContextShape(
            num_sequences=self.slots,
            positions=len(self.prompt) + max(self.budgets),
            num_rows=self.num_rows,
            threads=self.threads,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRun:
    """What an engine did.

    Attributes:
        results: by request number.
        decode_calls: of the backend.
        limits: of the backend, from which the simulator builds the same scheduler.
    """

    trace: Trace
    results: tuple[Result, ...]
    decode_calls: int
    limits: BackendLimits


def run_live(source: ModelSource, case: Case) -> LiveRun:
    """Preload every request and let the engine run until nothing is left."""
    backend = source.make(case.shape)
    try:
        return _run_engine(backend, source, case)
    finally:
        backend.close()


def _run_engine(backend: Backend, source: ModelSource, case: Case) -> LiveRun:
    log = StepLog()
    engine = Engine(backend, OPTIONS, observers=[log], clock=source.clock)
    handles = [
        engine.submit(case.prompt, budget, end_tokens=frozenset(), request_id=number, preloaded=True)
        for number, budget in enumerate(case.budgets)
    ]
    engine.start(Dedicated())
    summary = engine.join()
    return LiveRun(
        trace=live_trace(log.records),
        results=tuple(handle.wait() for handle in handles),
        decode_calls=summary.snapshot.totals.decode_calls,
        limits=backend.limits,
    )


def run_simulated(case: Case, limits: BackendLimits, fit: Fit | None) -> Trace:
    """The engine's scheduler on a simulated backend, whose calls cost what was fitted, or nothing to speak of."""
    setup = describe(limits, OPTIONS, min(case.slots, len(case.budgets)))
    cost = RoundedMicroseconds(base=1.0)
    if fit is not None:
        cost = RoundedMicroseconds(base=fit.base_us, prefill_row=fit.prompt_us, decode_row=fit.decode_us)
    messages = [
        Submission(
            Request(
                request_id=RequestId(number),
                prompt=case.prompt,
                max_tokens=budget,
                arrival_at=0,
                epoch=Epoch(number + 1),
                preloaded=True,
            )
        )
        for number, budget in enumerate(case.budgets)
    ]
    simulator = Simulator(scheduler=build_scheduler(setup), cost=cost, answers=NoAnswers(), check=True)
    return simulated_trace(list(simulator.run(messages)))


def run_presets(case: Case, fit: Fit | None) -> dict[MixedPolicy, MixedRun]:
    """The published simulator's three policies on the same workload, under the fitted cost."""
    requests = _mixed_requests(case)
    cost = MixedCost()
    if fit is not None:
        cost = MixedCost(
            base=fit.base_us / _US_PER_MS,
            prompt_token=fit.prompt_us / _US_PER_MS,
            decode_token=fit.decode_us / _US_PER_MS,
        )
    return {
        policy: run_mixed_decode(policy, requests, num_slots=case.slots, n_batch=case.num_rows, cost=cost)
        for policy in MixedPolicy
    }


def preset_lengths(case: Case) -> dict[int, int]:
    """Request → the steps that have a row of it in the published simulator, whatever they cost."""
    setup = MixedSetup(MixedPolicy.CONTINUOUS, case.slots, case.num_rows, MixedCost())
    return simulated_trace(list(mixed_steps(setup, _mixed_requests(case)))).num_steps_of()


def _mixed_requests(case: Case) -> list[MixedRequest]:
    prompt = len(case.prompt)
    return [MixedRequest(number, 0.0, prompt, budget, case.name) for number, budget in enumerate(case.budgets)]
