"""The course of a validation: rates from the simulator, then loads on the engine in rounds, then every comparison.

    saturation    of each workload, simulated on requests that are not measured
    rounds        every load once a round, in the opposite order every second time, so that no drift favours one
    peer          every load once, after the rounds
    judging       the same schedules simulated, figure by figure

Nothing that was measured goes into a prediction: rates, arrivals and lengths are fixed before.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from arriero.bench.runner import Driver
from arriero.bench.schedule import Schedule
from arriero.bench.validate.engine_side import MeasuredLoad, MeasuredSide
from arriero.bench.validate.judging import STEP, Sides, capacity_of, comparisons, levelled_figures, summary_of
from arriero.bench.validate.loads import (
    FEWEST,
    LEVELS,
    HeldOut,
    asked_in,
    count_in,
    sample_of,
    schedule_of,
    tokens_in,
)
from arriero.bench.validate.sensitivity import sensitivities
from arriero.bench.validate.steps import PredictedStep, mean_steps, predicted_steps, slowness_of, step_errors
from arriero.core.errors import ConfigError
from arriero.costmodel.calibrated import CalibratedCost
from arriero.metrics.client_life import ClientLife
from arriero.record.journal_setup import Setup
from arriero.record.validation import (
    Compared,
    Levelled,
    LoadLevel,
    Sensitivity,
    ValidatedLoad,
    compared,
    levelled,
)
from arriero.sim.asked import asked_of
from arriero.sim.capacity import saturation
from arriero.sim.cost_changes import scaled
from arriero.sim.whatif import SimulatedLoad, simulate
from arriero.workload.settings import Vocabulary

Tell: TypeAlias = Callable[[float, str], None]
"""Hears which part is done, and what is being done."""

LEAST_RUNS: Final = 2
_SENSITIVE: Final = LoadLevel.AT


@dataclass(frozen=True, slots=True, kw_only=True)
class CourseOptions:
    """How much is measured.

    Attributes:
        workloads: of `held_out`.
        seconds: that the arrivals of one load take, about.
        num_requests: of each load, instead; None: as many as arrive in that time.
        num_runs: of each load.
        seed: of lengths, arrivals and prompts.
        vocabulary: which tokens prompts are made of; None for the usual ones.
        warms_up: one load more before the first round, in no figure.
        sample: requests that the saturation rate is found with.
    """

    workloads: tuple[HeldOut, ...]
    seconds: float = 30.0
    num_requests: int | None = None
    num_runs: int = LEAST_RUNS
    seed: int = 1
    vocabulary: Vocabulary | None = None
    warms_up: bool = True
    sample: int = 200


class Findings(NamedTuple):
    """What a validation found; the parts of its file."""

    loads: tuple[ValidatedLoad, ...]
    capacities: dict[str, Compared]
    sensitivities: tuple[Sensitivity, ...]
    sensitivity_load: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Load:
    workload: HeldOut
    level: LoadLevel
    saturation_per_s: float
    schedule: Schedule

    @property
    def rate_per_s(self) -> float:
        return self.saturation_per_s * LEVELS[self.level]

    @property
    def name(self) -> str:
        return f"{self.workload.name}, {self.level} saturation"


@dataclass(slots=True)
class _Seen:
    """What was measured of one load."""

    runs: list[MeasuredLoad] = field(default_factory=list[MeasuredLoad])
    peer: tuple[ClientLife, ...] | None = None


async def validate(
    side: MeasuredSide, cost: CalibratedCost, options: CourseOptions, *, peer: Driver | None = None, tell: Tell
) -> Findings:
    """Measure, simulate, compare.

    Args:
        side: the engine.
        cost: the prediction; of the context and the threads that the engine computes with.
        options: how much.
        peer: another server that answers the same requests once; it stays its owner's.
        tell: progress.

    Raises:
        ConfigError: too few runs for a noise, or a workload of which nothing can be served.
    """
    if options.num_runs < LEAST_RUNS:
        raise ConfigError(f"{options.num_runs} run of each load: nobody sees noise in it; use {LEAST_RUNS} or more")
    loads = [load for workload in options.workloads for load in _loads(workload, side.setup, cost, options)]
    seen = {load.name: _Seen() for load in loads}
    total = options.num_runs * len(loads) + options.warms_up + (len(loads) if peer is not None else 0)
    done = 0
    if options.warms_up:
        tell(0.0, "warm-up")
        first = options.workloads[0]
        count = options.num_requests or FEWEST
        await side.run(schedule_of(first, loads[0].rate_per_s, count, options.seed + 1, options.vocabulary))
        done += 1
    for number, load in _rounds(loads, options.num_runs):
        tell(done / total, f"{load.name}, run {number}")
        seen[load.name].runs.append(await side.run(load.schedule))
        done += 1
    for load in loads if peer is not None else ():
        assert peer is not None, "as the loop says"
        tell(done / total, f"{load.name}, {peer.name}")
        seen[load.name].peer = (await peer.run(load.schedule)).lives
        done += 1
    tell(1.0, "comparing")
    return _judge(loads, seen, side.setup, cost)


def _loads(workload: HeldOut, setup: Setup, cost: CalibratedCost, options: CourseOptions) -> Iterator[_Load]:
    most = saturation(setup, cost, asked_of(sample_of(workload, options.sample, options.seed), with_tokens=False))
    if most <= 0:
        raise ConfigError(f"{workload.name}: nothing of it can be served; raise --ctx-size, or leave it out")
    for level, part in LEVELS.items():
        count = options.num_requests or count_in(most * part, options.seconds)
        schedule = schedule_of(workload, most * part, count, options.seed, options.vocabulary)
        yield _Load(workload=workload, level=level, saturation_per_s=most, schedule=schedule)


def _rounds(loads: Sequence[_Load], num_runs: int) -> Iterator[tuple[int, _Load]]:
    for number in range(1, num_runs + 1):
        for load in loads if number % 2 else reversed(loads):
            yield number, load


def _judge(loads: Iterable[_Load], seen: dict[str, _Seen], setup: Setup, cost: CalibratedCost) -> Findings:
    validated: list[ValidatedLoad] = []
    capacities: dict[str, Compared] = {}
    sensitive: _Load | None = None
    for load in loads:
        simulated = simulate(setup, cost, asked_in(load.schedule), looks_outside=True)
        sides = _sides(seen[load.name], simulated)
        predicted = [list(predicted_steps(run.steps, cost)) for run in seen[load.name].runs]
        at_speed = _AtSpeed.of(predicted, load, setup, cost)
        validated.append(_validated(load, seen[load.name], sides, simulated, at_speed))
        if load.level is LoadLevel.ABOVE:
            capacities[load.workload.name] = capacity_of(sides)
        if load.level is _SENSITIVE:
            sensitive = load  # the last workload has all lengths in it
    assert sensitive is not None, "every workload has this level"
    return Findings(
        loads=tuple(validated),
        capacities=capacities,
        sensitivities=tuple(sensitivities(setup, cost, asked_in(sensitive.schedule))),
        sensitivity_load=sensitive.name,
    )


class _AtSpeed(NamedTuple):
    """Each run once more, simulated on a machine of the speed that it had meanwhile."""

    predicted: list[list[PredictedStep]]
    slowness: tuple[float, ...]
    simulated: tuple[SimulatedLoad, ...]

    @classmethod
    def of(cls, predicted: list[list[PredictedStep]], load: _Load, setup: Setup, cost: CalibratedCost) -> "_AtSpeed":
        slowness, asked = tuple(map(slowness_of, predicted)), asked_in(load.schedule)
        return cls(predicted, slowness, tuple(simulate(setup, scaled(cost, each), asked) for each in slowness))

    def figures(self, sides: Sides, mean_steps_ms: Sequence[float | None]) -> Iterator[Levelled]:
        yield from levelled_figures(sides.measured, [summary_of(each.lives) for each in self.simulated])
        yield levelled(
            STEP,
            "mean",
            "ms",
            measured=mean_steps_ms,
            simulated=[_mean_step(each) for each in self.simulated],
        )


def _mean_step(simulated: SimulatedLoad) -> float | None:
    return simulated.busy_us / simulated.num_steps / 1e3 if simulated.num_steps else None


def _sides(seen: _Seen, simulated: SimulatedLoad) -> Sides:
    return Sides(
        measured=tuple(summary_of(run.lives) for run in seen.runs),
        simulated=summary_of(simulated.lives),
        peer=None if seen.peer is None else summary_of(seen.peer),
    )


def _validated(load: _Load, seen: _Seen, sides: Sides, simulated: SimulatedLoad, at_speed: _AtSpeed) -> ValidatedLoad:
    prompts, outputs = tokens_in(asked_in(load.schedule))
    steps = compared(
        STEP,
        "mean",
        "ms",
        measured=mean_steps([run.steps for run in seen.runs]),
        simulated=_mean_step(simulated),
    )
    return ValidatedLoad(
        workload=load.workload.name,
        level=load.level,
        rate_per_s=load.rate_per_s,
        saturation=LEVELS[load.level],
        requests=len(load.schedule.planned),
        prompt_tokens=prompts,
        output_tokens=outputs,
        schedule_sha256=load.schedule.sha256,
        validity=tuple(run.validity for run in seen.runs),
        compared=(*comparisons(sides), steps),
        slowness=at_speed.slowness,
        levelled=tuple(at_speed.figures(sides, steps.measured)),
        steps=step_errors(at_speed.predicted),
        decisions=tuple(run.decisions for run in seen.runs),
        outside={name: count / simulated.num_steps for name, count in simulated.outside.items()},
    )
