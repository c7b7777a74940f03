"""VirtualEngine: the live actor under a clock that a true cost moves, as a side of a validation.

The engine's own loop, scheduler, executor and observers run as they do in real time; only nobody waits.
"""

from collections import deque
from collections.abc import Sequence

from arriero.backend.protocol import BackendLimits
from arriero.backend.synthetic import SyntheticBackend, SyntheticOptions
from arriero.bench.schedule import Planned, Schedule
from arriero.bench.validate.engine_side import MeasuredLoad, StepKeeper, decided_again
from arriero.core.events import Finished, TokenEmitted
from arriero.costmodel.calibrated import CalibratedCost
from arriero.engine.actor import Actor, Run, Settle, Wait
from arriero.engine.engine import Engine
from arriero.engine.inbox import AT_ONCE
from arriero.engine.journal import describe
from arriero.engine.options import EngineOptions
from arriero.metrics.client_life import ClientLife, Outcome
from arriero.metrics.validity import judge_validity
from arriero.record.journal_setup import Setup
from arriero.testing.clock import ManualClock

NS = 1000


class VirtualEngine:
    """A `MeasuredSide`; run number r takes `drift[r]` times the true cost, the last of them from then on.

    Attributes:
        ran: hashes of the schedules, in the order in which they came.
    """

    def __init__(
        self,
        true_cost: CalibratedCost,
        *,
        drift: Sequence[float] = (1.0,),
        memory: SyntheticOptions | None = None,
        options: EngineOptions | None = None,
    ) -> None:
        self._true_cost = true_cost
        self._drift = list(drift)
        self._memory = memory or SyntheticOptions(num_sequences=4, num_rows=64, micro_batch=64, num_cells=2048)
        self._options = options or EngineOptions()
        self.ran: list[str] = []

    @property
    def setup(self) -> Setup:
        return describe(self.limits, self._options, 0)

    @property
    def limits(self) -> BackendLimits:
        return self._memory.limits()

    async def run(self, schedule: Schedule) -> MeasuredLoad:
        self.ran.append(schedule.sha256)
        factor = self._drift.pop(0) if len(self._drift) > 1 else self._drift[0]
        clock, keeper = ManualClock(), StepKeeper()
        backend = SyntheticBackend(self._memory)
        engine = Engine(backend, self._options, observers=[keeper], clock=clock)
        arrivals = deque(enumerate(schedule.planned, start=1))
        actor = engine._build(0)
        _Drive(engine, actor, arrivals, clock, self._true_cost, factor).to_the_end()
        actor.close(0, actor.executor.close(), None)
        backend.close()
        lives = _lives(schedule.planned, keeper)
        return MeasuredLoad(
            lives=lives,
            steps=tuple(keeper.steps),
            decisions=decided_again(keeper, self.limits, self._options),
            validity=judge_validity(lives),
        )


class _Drive:
    """A third driver of the engine's loop."""

    def __init__(
        self,
        engine: Engine,
        actor: Actor,
        arrivals: "deque[tuple[int, Planned]]",
        clock: ManualClock,
        cost: CalibratedCost,
        factor: float,
    ) -> None:
        self._engine = engine
        self._actor = actor
        self._arrivals = arrivals
        self._clock = clock
        self._cost = cost
        self._factor = factor

    def to_the_end(self) -> None:
        """Until nobody arrives and nothing is left to do."""
        steps = self._actor.loop()
        need = next(steps)
        while True:
            match need:
                case Wait(until):
                    self._post()
                    if until is not AT_ONCE and not len(self._actor.inbox):
                        if not self._arrivals:
                            steps.close()
                            return
                        self._clock.advance(max(0, self._next_at() - self._clock()))
                        self._post()
                    need = steps.send(self._actor.inbox.take())
                case Settle(events):
                    need = steps.send(self._actor.executor.settle(events))
                case Run(plan):
                    outcome = self._actor.executor.run(plan)
                    self._clock.advance(round(self._cost.plan_time(plan) * self._factor))
                    need = steps.send(outcome)

    def _post(self) -> None:
        while self._arrivals and self._next_at() <= self._clock():
            number, item = self._arrivals.popleft()
            prompt = tuple(token for token in item.ask.prompt if isinstance(token, int))
            self._engine.submit(
                prompt, item.ask.max_tokens, end_tokens=frozenset(), request_id=number, cache_scope=None,
                arrival_at=(item.at_ns or 0) // NS,
            )  # fmt: skip

    def _next_at(self) -> int:
        return (self._arrivals[0][1].at_ns or 0) // NS


def _lives(planned: Sequence[Planned], keeper: StepKeeper) -> tuple[ClientLife, ...]:
    tokens: dict[int, list[int]] = {}
    ends: dict[int, int] = {}
    for step in keeper.steps:
        for event in step.events:
            match event:
                case TokenEmitted(request_id=request_id, at=at):
                    tokens.setdefault(request_id, []).append(int(at))
                case Finished(request=request, at=at):
                    ends[request.request_id] = int(at)
                case _:
                    pass
    return tuple(
        ClientLife(
            request_id=item.ask.request_id,
            intended_at=(item.at_ns or 0) // NS * NS,
            sent_at=(item.at_ns or 0) // NS * NS,
            closed_at=ends[number] * NS,
            outcome=Outcome.LENGTH,
            asked_tokens=item.ask.max_tokens,
            chunk_at=tuple(at * NS for at in tokens[number]),
            chunk_tokens=(1,) * len(tokens[number]),
            num_tokens=len(tokens[number]),
            prompt_tokens=len(item.ask.prompt),
            asked_prompt_tokens=len(item.ask.prompt),
        )
        for number, item in enumerate(planned, start=1)
    )
