"""Validation: how far simulations are from measurements, schema `arriero-validation-v1`, one JSON file.

Each load was measured at least twice, so beside every error of the simulation stands what the engine differs from
itself by. Errors are simulated / mean of the measured - 1; noise is (largest - smallest measured) / mean.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, Literal

from msgspec import Meta

from arriero.costmodel.calibrated import StepKind
from arriero.metrics.validity import Validity, worst
from arriero.record import bench_result_text as layout
from arriero.record.bench_parts import BenchPart, Evidence, RunFacts, TargetFacts
from arriero.record.bench_result import broken
from arriero.record.machine import MachineFacts
from arriero.record.profile_facts import ProfileFacts
from arriero.record.strict import Count, Name, Positive, Sha256

SCHEMA: Final = "arriero-validation-v1"

Share = Annotated[float, Meta(ge=0, le=1)]
Noise = Annotated[float, Meta(ge=0)]
CLOSE: Final = frozenset({"step", "itl", "output_tokens_per_s", "requests_per_s"})
CLOSE_GOAL: Final = 0.05
QUEUED: Final = frozenset({"ttft", "e2e"})
QUEUED_FIGURES: Final = frozenset({"p50", "p90"})
QUEUED_GOAL: Final = 0.10
NOISES: Final = 1.5
"""So many times its noise a latency with a queue may be off, if that is more than its goal."""
_DIGITS: Final = 1e-9


class LoadLevel(StrEnum):
    """How much is offered, against what can be served."""

    BELOW = "below"
    AT = "at"
    ABOVE = "above"


class Compared(BenchPart, frozen=True, kw_only=True):
    """One figure, measured and simulated.

    Attributes:
        metric: what it is of: `ttft`, `itl`, `e2e`, `step`, `output_tokens_per_s`, `requests_per_s`.
        figure: which of it: `p50`, `p90`, `p99`, `mean`, `rate`.
        unit: of its values.
        measured: of each run, in their order; null where it is undefined or infinite.
        simulated: null likewise.
        error: simulated / mean of the measured - 1; null where one of them is.
        noise: (largest - smallest measured) / mean; null where one of them is.
        peer: the same of the peer, which answered the same requests; null without one.
    """

    metric: Name
    figure: Name
    unit: Literal["ms", "per_s"]
    measured: tuple[float | None, ...]
    simulated: float | None
    error: float | None
    noise: Noise | None
    peer: float | None = None


class Levelled(BenchPart, frozen=True, kw_only=True):
    """One figure of each run, beside a simulation of its own: every cost times the run's `ValidatedLoad.slowness`.

    What is left is what the cost model and the simulator get wrong on a machine whose speed is known.

    Attributes:
        metric, figure, unit: as of `Compared`.
        measured, simulated: of each run, in their order; null where it is undefined or infinite.
        error: mean over the runs of simulated / measured - 1; null where one of them is.
    """

    metric: Name
    figure: Name
    unit: Literal["ms", "per_s"]
    measured: tuple[float | None, ...]
    simulated: tuple[float | None, ...]
    error: float | None

    @property
    def noise(self) -> None:
        """None: at its own speed a machine has none that an error could be excused by."""
        return


class StepErrors(BenchPart, frozen=True, kw_only=True):
    """How far predictions of single steps are from what the steps took; errors are measured / predicted - 1.

    Attributes:
        kind: of step.
        num_steps: of all runs.
        bias: median of the errors.
        typical: median of their sizes.
        p90: of their sizes.
        total: all predictions / all measured - 1.
        noise: (largest - smallest mean of a run) / mean; null where a run has no such step.
        outside: share of the steps beyond the calibrated range.
    """

    kind: StepKind
    num_steps: Positive
    bias: float
    typical: Noise
    p90: Noise
    total: float
    noise: Noise | None
    outside: Share


class Decisions(BenchPart, frozen=True, kw_only=True):
    """One run of the engine, decided again by a fresh scheduler from its messages and its measured times.

    Attributes:
        steps: passes of the loop.
        requests: submissions.
        difference: the first decision that differed; null if all were the same.
    """

    steps: Count
    requests: Count
    difference: str | None


class ValidatedLoad(BenchPart, frozen=True, kw_only=True):
    """One workload at one rate.

    Attributes:
        workload: its name.
        rate_per_s: of arrivals, in an open loop.
        saturation: the rate as a part of the simulated saturation rate.
        requests, prompt_tokens, output_tokens: of the schedule.
        schedule_sha256: of the schedule, which was the same for every run and for the simulation.
        validity: of each run.
        compared: figures.
        slowness: of each run: what its steps took / what was predicted of them; the machine's speed in one number.
        levelled: the same figures, each run beside a simulation at its own speed.
        steps: by kind.
        decisions: of each run.
        outside: in what simulated steps lay outside the calibrated range -> the share of them.
    """

    workload: Name
    level: LoadLevel
    rate_per_s: Annotated[float, Meta(gt=0)]
    saturation: Annotated[float, Meta(gt=0)]
    requests: Positive
    prompt_tokens: Count
    output_tokens: Count
    schedule_sha256: Sha256
    validity: tuple[Validity, ...]
    compared: tuple[Compared, ...]
    slowness: tuple[Annotated[float, Meta(gt=0)], ...]
    levelled: tuple[Levelled, ...]
    steps: tuple[StepErrors, ...]
    decisions: tuple[Decisions, ...]
    outside: dict[str, Share]


class Sensitivity(BenchPart, frozen=True, kw_only=True):
    """What a coefficient moves.

    Attributes:
        coefficient: its name.
        effects: figure -> its relative change, where the coefficient is larger by `Validation.change`; null where the
            figure is undefined.
    """

    coefficient: Name
    effects: dict[str, float | None]


class Validation(BenchPart, frozen=True, kw_only=True):
    """A whole validation.

    Attributes:
        validity: of the least trustworthy run.
        evidence: what the measured figures are.
        run: how it came about.
        target: the engine.
        profile: the costs that were simulated with.
        differences: in what the profile's machine, model or context is another one; empty if it fits.
        loads: at least one.
        capacities: output tokens a second where more was offered than could be served, for each workload.
        sensitivities: on one load, `sensitivity_load`.
        change: by which coefficients were changed there.
        peer: what answered the same requests, or null.
    """

    validity: Validity
    schema_version: Literal["arriero-validation-v1"] = SCHEMA
    evidence: Evidence
    run: RunFacts
    machine: MachineFacts
    target: TargetFacts
    profile: ProfileFacts
    differences: tuple[str, ...]
    loads: tuple[ValidatedLoad, ...]
    capacities: dict[str, Compared]
    sensitivities: tuple[Sensitivity, ...]
    sensitivity_load: str
    change: Annotated[float, Meta(gt=0)]
    peer: TargetFacts | None = None

    @property
    def cost_error(self) -> float:
        """By how much a simulated capacity may be wrong: the largest error or noise of any workload's."""
        sizes = [size for each in self.capacities.values() for size in (each.error, each.noise) if size is not None]
        return max(map(abs, sizes), default=0.0)


def compared(
    metric: str,
    figure: str,
    unit: Literal["ms", "per_s"],
    *,
    measured: Sequence[float | None],
    simulated: float | None,
    peer: float | None = None,
) -> Compared:
    """A figure with its error and its noise."""
    known = [value for value in measured if value is not None]
    mean = sum(known) / len(known) if known and len(known) == len(measured) else 0.0
    return Compared(
        metric=metric,
        figure=figure,
        unit=unit,
        measured=tuple(measured),
        simulated=simulated,
        error=simulated / mean - 1 if mean > 0 and simulated is not None else None,
        noise=(max(known) - min(known)) / mean if mean > 0 else None,
        peer=peer,
    )


def levelled(
    metric: str,
    figure: str,
    unit: Literal["ms", "per_s"],
    *,
    measured: Sequence[float | None],
    simulated: Sequence[float | None],
) -> Levelled:
    """A figure with the mean of its errors."""
    errors = [
        theirs / ours - 1
        for ours, theirs in zip(measured, simulated, strict=True)
        if ours is not None and theirs is not None and ours > 0
    ]
    return Levelled(
        metric=metric,
        figure=figure,
        unit=unit,
        measured=tuple(measured),
        simulated=tuple(simulated),
        error=sum(errors) / len(errors) if errors and len(errors) == len(measured) else None,
    )


def goal_of(each: Compared | Levelled) -> float | None:
    """How large an error may be; None where none is set.

    Step times, gaps and throughput follow from the costs directly. Latencies that hold a queue move by more than what
    they are made of, and from run to run, so there the noise of the engine counts too.
    """
    if each.metric in CLOSE:
        return CLOSE_GOAL
    if each.metric in QUEUED and each.figure in QUEUED_FIGURES:
        return max(QUEUED_GOAL, NOISES * (each.noise or 0.0))
    return None


def is_met(each: Compared | Levelled) -> bool | None:
    """Whether an error keeps its goal; None without either."""
    goal = goal_of(each)
    return None if goal is None or each.error is None else abs(each.error) <= goal


def encode_validation(validation: Validation, *, file: str = "validation") -> bytes:
    """The bytes of the file; the same validation always gives the same.

    Raises:
        DataError: it would not be accepted when read.
    """
    _check(validation, file)
    return layout.encode(validation, file=file)


def read_validation(path: Path) -> Validation:
    """Read and check a file.

    Raises:
        DataError: it cannot be read, a field is missing, unknown or impossible, or figures do not go together.
    """
    validation = layout.decode(layout.read(path), Validation, SCHEMA, file=str(path))
    _check(validation, str(path))
    return validation


def _check(validation: Validation, file: str) -> None:
    if not validation.loads:
        raise broken(file, "loads", "a validation has at least one; run again")
    runs = [each for load in validation.loads for each in load.validity]
    if not runs or validation.validity != worst(runs):
        raise broken(file, "validity", "is not that of the least trustworthy run; run again")
    for index, load in enumerate(validation.loads):
        _check_figures(load.compared, f"loads[{index}].compared", file)
        _check_levelled(load, f"loads[{index}]", file)
    _check_figures(validation.capacities.values(), "capacities", file)


def _check_figures(figures: Iterable[Compared], place: str, file: str) -> None:
    """Errors and noise follow from the values beside them."""
    for each in figures:
        made = compared(each.metric, each.figure, each.unit, measured=each.measured, simulated=each.simulated)
        for name in ("error", "noise"):
            said, expected = getattr(each, name), getattr(made, name)
            if not _is_same(said, expected):
                raise broken(file, f"{place}.{name}", f"{said} does not follow from the values; run again")


def _check_levelled(load: ValidatedLoad, place: str, file: str) -> None:
    """One simulation for each run, and errors that follow from both."""
    if len(load.slowness) != len(load.validity):
        raise broken(file, f"{place}.slowness", "has not one number for each run; run again")
    for each in load.levelled:
        made = levelled(each.metric, each.figure, each.unit, measured=each.measured, simulated=each.simulated)
        if not _is_same(each.error, made.error) or len(each.measured) != len(load.validity):
            raise broken(file, f"{place}.levelled.error", f"{each.error} does not follow from the values; run again")


def _is_same(said: float | None, expected: float | None) -> bool:
    return said is None if expected is None else said is not None and abs(said - expected) <= _DIGITS
