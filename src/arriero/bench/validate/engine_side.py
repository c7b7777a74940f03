"""The measured side: one schedule on a fresh engine in this process, in an open loop and in real time.

Every step is kept as the engine told it, so that afterwards each can be predicted, and each decision be taken again by
a fresh scheduler from the messages and the measured times.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from arriero.backend.protocol import Backend, BackendLimits
from arriero.bench.in_process import InProcessTarget
from arriero.bench.loops_pace import REAL_PACE, Pace
from arriero.bench.runner import LiveDriver
from arriero.bench.runner_points import PointRun, Rules, measure
from arriero.bench.schedule import Schedule
from arriero.core.errors import ArrieroError, ReplayDiverged
from arriero.core.ids import Time
from arriero.engine.engine import Engine
from arriero.engine.handle import Result
from arriero.engine.journal import Journal, describe
from arriero.engine.observer import Arrival, EngineSummary, StepRecord
from arriero.engine.options import EngineOptions
from arriero.engine.placement import Dedicated, Placement
from arriero.metrics.client_life import ClientLife
from arriero.metrics.validity import Validity
from arriero.record.journal import JournalLines
from arriero.record.journal_reader import read_lines
from arriero.record.journal_setup import Setup
from arriero.record.lines import LineList
from arriero.record.validation import Decisions
from arriero.sim.replay import replay


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredLoad:
    """One run of one schedule.

    Attributes:
        lives: of its requests; moments count from the start of the run.
        steps: every pass of the engine's loop.
        decisions: whether a fresh scheduler takes the same.
        validity: of the run.
    """

    lives: tuple[ClientLife, ...]
    steps: tuple[StepRecord, ...]
    decisions: Decisions
    validity: Validity


class MeasuredSide(Protocol):
    """Whatever is measured."""

    @property
    def setup(self) -> Setup:
        """Of its scheduler."""
        ...

    @property
    def limits(self) -> BackendLimits:
        """What its backend can take."""
        ...

    async def run(self, schedule: Schedule) -> MeasuredLoad:
        """Carry out a schedule on a fresh engine."""
        ...


class StepKeeper:
    """An observer that keeps everything until the engine has ended."""

    def __init__(self) -> None:
        """Nothing is kept yet."""
        self.steps: list[StepRecord] = []
        self.summary: EngineSummary | None = None

    def on_start(self, at: Time) -> None:
        """Nothing."""

    def on_step(self, record: StepRecord) -> None:
        """Keep it."""
        self.steps.append(record)

    def on_end(self, result: Result) -> None:
        """Nothing: ends are among the events of their step."""

    def on_close(self, summary: EngineSummary) -> None:
        """Keep the end."""
        self.summary = summary


class EngineSide:
    """A `MeasuredSide`: engines on one backend, one after another; the backend stays its owner's."""

    def __init__(
        self,
        backend: Backend,
        options: EngineOptions,
        *,
        placement: Placement | None = None,
        pace: Pace = REAL_PACE,
        look_s: float | None = 1.0,
    ) -> None:
        """Nothing runs yet.

        Args:
            backend: empty.
            options: of each engine; nobody is refused for want of a place, whatever they say.
            placement: of each engine; None for a thread of its own.
            pace: the clock of the load generator.
            look_s: how long the machine is looked at before each run; None: nor during it.
        """
        self._backend = backend
        self._options = replace(options, backlog=None)
        self._placement = Dedicated() if placement is None else placement
        self._pace = pace
        self._look_s = look_s

    @property
    def setup(self) -> Setup:
        """Of the scheduler that each engine builds."""
        return describe(self._backend.limits, self._options, 0)

    @property
    def limits(self) -> BackendLimits:
        """The backend's."""
        return self._backend.limits

    async def run(self, schedule: Schedule) -> MeasuredLoad:
        """See `MeasuredSide.run`.

        Raises:
            ConfigError: the schedule's prompts are no token ids.
        """
        keeper = StepKeeper()
        engine = Engine(self._backend, self._options, observers=[keeper])
        target = InProcessTarget(engine, clock=self._pace.clock, cache_scope=None)
        engine.start(self._placement)
        try:
            driver = LiveDriver(target, "in-process", pace=self._pace, look_s=self._look_s)
            run = await driver.run(schedule)
        finally:
            await target.close()
            engine.shutdown()
            engine.cancel_all()
            await engine.wait_closed()
        return self._measured(run, keeper)

    def _measured(self, run: PointRun, keeper: StepKeeper) -> MeasuredLoad:
        return MeasuredLoad(
            lives=run.lives,
            steps=tuple(keeper.steps),
            decisions=decided_again(keeper, self._backend.limits, self._options),
            validity=measure(run, Rules(keep_raw=False)).validity,
        )


def decided_again(keeper: StepKeeper, limits: BackendLimits, options: EngineOptions) -> Decisions:
    """Feed a fresh scheduler the messages and the times of a run, and compare every decision."""
    num_requests = sum(isinstance(message, Arrival) for step in keeper.steps for message in step.messages)
    try:
        report = replay(read_lines(journal_of(keeper, limits, options)))
    except ReplayDiverged as error:
        return Decisions(steps=len(keeper.steps), requests=num_requests, difference=str(error))
    except ArrieroError as error:
        return Decisions(steps=len(keeper.steps), requests=num_requests, difference=f"cannot be replayed: {error}")
    return Decisions(steps=report.steps, requests=report.requests, difference=None)


def journal_of(keeper: StepKeeper, limits: BackendLimits, options: EngineOptions) -> Sequence[bytes]:
    """The lines of the journal that the engine would have written."""
    lines = LineList()
    journal = Journal(lines, JournalLines(), limits, options)
    for step in keeper.steps:
        journal.on_step(step)
    if keeper.summary is not None:
        journal.on_close(keeper.summary)
    return lines.lines
