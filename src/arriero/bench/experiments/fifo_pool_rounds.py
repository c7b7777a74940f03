"""The rounds of the experiment on the pool: three sides, one after another, in an order that turns round by round."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never

from arriero.backend.protocol import Backend
from arriero.bench.experiments.contexts import ContextShape, ModelSource
from arriero.bench.experiments.experiment import Tell
from arriero.bench.fifo_pool_engine import run_engine
from arriero.bench.fifo_pool_plan import PoolPlan
from arriero.bench.fifo_pool_runners import PoolRun, Runner, run_pool
from arriero.core.ids import TokenId
from arriero.metrics.mixed_decode import MixedCost, MixedPolicy, MixedRequest, mixed_figures
from arriero.sim.mixed_decode import run_mixed_decode


class Arm(StrEnum):
    """What serves the clients, in the order of even rounds."""

    THREADS = "threads"
    ASYNCIO = "asyncio"
    ENGINE = "engine"


_ORDER: Final = tuple(Arm)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One shape, ready to run; for the fields see its definition."""

    name: str
    contexts: int
    concurrent: int
    requests: int
    budgets: tuple[int, ...]
    prompt: tuple[TokenId, ...]
    num_rows: int
    engine_threads: int
    rounds: int

    @property
    def plan(self) -> PoolPlan:
        """What the clients ask."""
        return PoolPlan(
            contexts=self.contexts,
            concurrent=self.concurrent,
            requests=self.requests,
            budgets=self.budgets,
            prompt=self.prompt,
        )


@dataclass(frozen=True, slots=True)
class Measured:
    """The measured runs of one shape, by side and round."""

    setting: Setting
    runs: Mapping[Arm, tuple[PoolRun, ...]]

    def place_of(self, arm: Arm, number: int) -> int:
        """When a side ran in its round, from 0."""
        return order_of(number).index(arm)


def order_of(number: int) -> tuple[Arm, ...]:
    """The order of one round: as declared in even ones, the opposite in odd ones."""
    return _ORDER if number % 2 == 0 else _ORDER[::-1]


def measure(source: ModelSource, setting: Setting, warm_up_rounds: int, tell: Tell) -> Measured:
    """Run the warm-ups and then the rounds; contexts are fresh in every run and made before its clock starts."""
    runs: dict[Arm, list[PoolRun]] = {arm: [] for arm in Arm}
    for number in range(-warm_up_rounds, setting.rounds):
        for arm in order_of(number):
            words = "warm-up" if number < 0 else f"round {number + 1} of {setting.rounds}"
            tell(f"{setting.name}, {words}, {arm}")
            run = run_arm(source, setting, arm)
            if number >= 0:
                runs[arm].append(run)
    return Measured(setting, {arm: tuple(each) for arm, each in runs.items()})


def run_arm(source: ModelSource, setting: Setting, arm: Arm) -> PoolRun:
    """Serve the clients of one shape once."""
    plan = setting.plan

    def make(num_sequences: int, threads: int) -> Backend:
        shape = ContextShape(
            num_sequences=num_sequences, positions=plan.positions, num_rows=setting.num_rows, threads=threads
        )
        return source.make(shape)

    match arm:
        case Arm.THREADS:
            return run_pool(Runner.THREADS, plan, lambda: make(1, 1))
        case Arm.ASYNCIO:
            return run_pool(Runner.ASYNCIO, plan, lambda: make(1, 1))
        case Arm.ENGINE:
            return run_engine(plan, lambda: make(plan.contexts, setting.engine_threads))
        case _:
            assert_never(arm)


def predicted_calls(setting: Setting, policy: MixedPolicy) -> int:
    """Decode calls that the published simulator of rows and slots needs; all requests are there at once."""
    plan = setting.plan
    requests = [
        MixedRequest(number, 0.0, len(plan.prompt), plan.budget_of(number), setting.name)
        for number in range(plan.requests)
    ]
    run = run_mixed_decode(
        policy, requests, num_slots=setting.contexts, n_batch=max(setting.num_rows, setting.contexts), cost=MixedCost()
    )
    return mixed_figures(run).decode_calls
