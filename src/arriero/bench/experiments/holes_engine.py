"""A population on an engine in this process, and its steps computed again on ids without a hole."""

import asyncio
from dataclasses import dataclass

from arriero.bench.experiments.contexts import ContextShape, ModelSource
from arriero.bench.experiments.holes_load import Plan, send_population
from arriero.bench.experiments.holes_replay import StepPair, replay
from arriero.bench.experiments.samples import ratio
from arriero.bench.experiments.steps import StepLog
from arriero.bench.in_process import InProcessTarget
from arriero.core.events import Moved
from arriero.engine.engine import Engine
from arriero.engine.options import EngineOptions
from arriero.engine.placement import Dedicated
from arriero.metrics.client_life import ClientLife


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRun:
    """One run of the engine, and its steps, each computed twice.

    Attributes:
        closes_holes: whether running sequences were moved.
        lives: of the requests.
        num_moves: how often one was.
        steps: what each step took on its own ids and on contiguous ones.
        mean_running: sequences of a step.
        wall_us: of a step in the engine, from its begin to its end, everything included; mean.
    """

    closes_holes: bool
    round: int
    lives: tuple[ClientLife, ...]
    num_moves: int
    steps: tuple[StepPair, ...]
    mean_running: float | None
    wall_us: float | None

    @property
    def against_contiguous(self) -> float | None:
        """Mean step time over that of the same rows on contiguous ids."""
        as_recorded, contiguous = (sum(getattr(each, name) for each in self.steps) for name in _TIMES)
        return ratio(as_recorded, contiguous)


_TIMES = ("as_recorded", "contiguous")


def run_engine(source: ModelSource, shape: ContextShape, plan: Plan, number: int, *, closes_holes: bool) -> EngineRun:
    """Serve a plan on a fresh context, then compute its steps again on two others.

    Raises:
        ConfigError: the run cannot be computed again as it stands.
    """
    log = StepLog()
    backend = source.make(shape)
    options = EngineOptions(moves=closes_holes)
    engine = Engine(backend, options, observers=[log], clock=source.clock)
    try:
        engine.start(Dedicated())
        lives = asyncio.run(_serve(engine, plan))
    finally:
        engine.shutdown()
        engine.join()
        backend.close()
    computed = log.computed()
    contexts = (source.make(shape), source.make(shape))
    try:
        steps = replay(log.records, *contexts)
    finally:
        for each in contexts:
            each.close()
    return EngineRun(
        closes_holes=closes_holes,
        round=number,
        lives=lives,
        num_moves=sum(isinstance(event, Moved) for record in log.records for event in record.events),
        steps=tuple(steps),
        mean_running=ratio(sum(len(record.plan.rows) for record in computed), len(computed)),
        wall_us=ratio(sum(record.ended_at - record.began_at for record in computed), len(computed)),
    )


async def _serve(engine: Engine, plan: Plan) -> tuple[ClientLife, ...]:
    target = InProcessTarget(engine)
    await target.open()
    try:
        return await send_population(target, plan)
    finally:
        await target.close()
