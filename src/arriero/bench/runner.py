"""The runner: schedules against a driver, one after another, and the one result that they make.

driver.run(schedule) -> PointRun          a live target on its event loop, or the simulator
measure(point_run, rules) -> Point        figures and validity
run_bench(driver, points, rules)          a sweep, or a single point
assemble(...) -> BenchResult              what is written
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from arriero.bench.calibration import Calibration
from arriero.bench.calibration import Offset as MeasuredOffset
from arriero.bench.loop_watch import LoopWatch, quiet_collector
from arriero.bench.loops import run_schedule
from arriero.bench.loops_answers import Answers
from arriero.bench.loops_pace import REAL_PACE, Pace
from arriero.bench.loops_watch import RunWatch
from arriero.bench.runner_points import PointRun, Rules, TargetKind, measure
from arriero.bench.schedule import Schedule
from arriero.bench.sweep import PlannedPoint
from arriero.bench.target import Target
from arriero.core.errors import ConfigError
from arriero.metrics.definitions import ARRIERO
from arriero.metrics.validity import worst
from arriero.record.bench_parts import CalibrationFacts, Evidence, Offset, Point, RunFacts, TargetFacts
from arriero.record.bench_result import BenchResult
from arriero.record.machine import MachineFacts
from arriero.record.machine_load import CpuSnapshot, LoadFacts, load_between, take_snapshot

LOOK_S: Final = 1.0
"""How long the machine is looked at before each point, while nothing is asked."""

OnPoint: TypeAlias = Callable[[Point], None]


class Driver(Protocol):
    """Whatever can carry out a schedule."""

    @property
    def name(self) -> str:
        """For tables."""
        ...

    @property
    def kind(self) -> TargetKind:
        """What is measured."""
        ...

    @property
    def evidence(self) -> Evidence:
        """What its figures are."""
        ...

    async def run(
        self, schedule: Schedule, *, stop: asyncio.Event | None = None, watch: RunWatch | None = None
    ) -> PointRun:
        """Carry out one schedule."""
        ...

    async def facts(self) -> dict[str, Any]:
        """What the target says of itself, as JSON."""
        ...

    async def close(self) -> None:
        """Give back what it holds."""
        ...


class LiveDriver:
    """A `Driver`: a target that is asked in real time, on the running event loop."""

    def __init__(
        self,
        target: Target,
        kind: TargetKind = "http",
        *,
        pace: Pace = REAL_PACE,
        answers: Answers | None = None,
        server_pids: Collection[int] = (),
        look_s: float | None = LOOK_S,
    ) -> None:
        """The target is opened by the first run.

        Args:
            target: stamps by the clock of `pace`.
            kind: as the result file names it.
            pace: the clock.
            answers: hears of the target's answers.
            server_pids: processes of the server, if it is on this machine; theirs is no neighbour's work.
            look_s: how long the machine is looked at before each run, 0 for not at all; None: nor during it.
        """
        self.target = target
        self._kind: TargetKind = kind
        self._pace = pace
        self._answers = answers
        self._server_pids = server_pids
        self._look_s = look_s
        self._is_open = False

    @property
    def name(self) -> str:
        """The target's."""
        return self.target.name

    @property
    def kind(self) -> TargetKind:
        """As it was given."""
        return self._kind

    @property
    def evidence(self) -> Evidence:
        """A server's figures hold everything between it and the client; an engine's in this process do not."""
        return Evidence.END_TO_END if self._kind == "http" else Evidence.MEASURED

    async def run(
        self, schedule: Schedule, *, stop: asyncio.Event | None = None, watch: RunWatch | None = None
    ) -> PointRun:
        """Look at the machine, then carry out a schedule, watching the event loop.

        Raises:
            ConfigError: the target cannot be asked at all.
        """
        if not self._is_open:
            await self.target.open()
            self._is_open = True
        before, first = await self._look()
        with quiet_collector():
            async with LoopWatch(self._pace.clock) as blocks:
                came = await run_schedule(
                    self.target, schedule, self._pace, answers=self._answers, stop=stop, watch=watch
                )
        return PointRun(
            schedule=schedule,
            came=came,
            longest_block_ns=blocks.report().longest_block_ns,
            load_before=before,
            load_during=None if first is None else self._load(first, take_snapshot()),
        )

    async def facts(self) -> dict[str, Any]:
        """The target's."""
        return await self.target.facts()

    async def close(self) -> None:
        """Close the target."""
        await self.target.close()

    async def _look(self) -> tuple[LoadFacts | None, CpuSnapshot | None]:
        """What the machine did for a moment, and where its counters stand now."""
        if self._look_s is None:
            return None, None
        first = take_snapshot()
        if not self._look_s:
            return None, first
        await asyncio.sleep(self._look_s)
        second = take_snapshot()
        return self._load(first, second), second

    def _load(self, first: CpuSnapshot, second: CpuSnapshot) -> LoadFacts:
        return load_between(first, second, server=self._server_pids)


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRun:
    """All points that were run.

    Attributes:
        points: in their order; fewer than planned after an interrupt.
        interrupted: somebody asked for the end.
    """

    points: tuple[Point, ...]
    interrupted: bool = False


async def run_point(
    driver: Driver,
    point: PlannedPoint,
    rules: Rules,
    *,
    stop: asyncio.Event | None = None,
    watch: RunWatch | None = None,
) -> Point:
    """Run and measure one point."""
    return measure(await driver.run(point.schedule, stop=stop, watch=watch), rules, setting=point.setting)


async def run_bench(
    driver: Driver,
    points: Sequence[PlannedPoint],
    rules: Rules,
    *,
    stop: asyncio.Event | None = None,
    watch: RunWatch | None = None,
    on_point: OnPoint | None = None,
) -> BenchRun:
    """Run the points one after another; an interrupt ends the one that runs and leaves out the rest.

    Args:
        driver: carries them out.
        points: a sweep's, or a single one.
        rules: to judge by.
        stop: set by whoever wants the end now.
        watch: is told how far each point has come.
        on_point: is told of each point that is done.
    """
    done: list[Point] = []
    for planned in points:
        point = await run_point(driver, planned, rules, stop=stop, watch=watch)
        done.append(point)
        if on_point is not None:
            on_point(point)
        if stop is not None and stop.is_set():
            return BenchRun(points=tuple(done), interrupted=True)
    return BenchRun(points=tuple(done))


def assemble(
    run: BenchRun,
    *,
    evidence: Evidence,
    facts: RunFacts,
    machine: MachineFacts,
    target: TargetFacts,
    calibration: Calibration | None = None,
) -> BenchResult:
    """The one result of a run.

    Raises:
        ConfigError: no point was measured.
    """
    if not run.points:
        raise ConfigError("nothing was measured; give at least one rate or number of clients")
    return BenchResult(
        validity=worst(point.validity for point in run.points),
        evidence=evidence,
        run=facts,
        machine=machine,
        target=target,
        calibration=None if calibration is None else calibration_facts(calibration),
        definitions=dict(ARRIERO.words),
        points=run.points,
    )


def calibration_facts(calibration: Calibration) -> CalibrationFacts:
    """A calibration as result files tell it."""
    return CalibrationFacts(
        delay_ns=calibration.first_ns,
        gap_ns=calibration.gap_ns,
        num_requests=calibration.ttft.n + calibration.num_failed,
        ttft_ns=_offset(calibration.ttft),
        itl_ns=_offset(calibration.gap),
        longest_block_ns=calibration.loop.longest_block_ns,
        settings={
            "num_failed": calibration.num_failed,
            "send_lag_p99_ns": calibration.send_lag_p99_ns,
            "told_first_ns": calibration.told_first_ns,
            "ttft_jitter_ns": calibration.ttft.jitter_ns,
            "gap_jitter_ns": calibration.gap.jitter_ns,
        },
    )


def _offset(offset: MeasuredOffset) -> Offset:
    return Offset(n=offset.n, p50_ns=float(offset.median_ns), p99_ns=float(offset.p99_ns), max_ns=float(offset.max_ns))
