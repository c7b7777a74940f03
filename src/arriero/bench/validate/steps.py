"""Single steps: what each took in the engine against what the cost says of its rows, whatever the simulator does.

An error here is one of the cost model alone. Errors of requests also hold what follows from it: a step that is
predicted too short lets somebody in too early, and so on.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean, median
from typing import NamedTuple

from arriero.core.events import CopySequence, DropSequence, Event, MoveSequence, RestoreSequence, TrimSequence
from arriero.core.ids import SequenceId
from arriero.costmodel.calibrated import CalibratedCost, StepKind, kind_of
from arriero.engine.observer import StepRecord
from arriero.metrics.quantiles import nearest_rank
from arriero.record.validation import StepErrors


class PredictedStep(NamedTuple):
    """One step of one run.

    Attributes:
        kind: what it was made of.
        took_us, predicted_us: from its begin to its end.
        is_outside: beyond the calibrated range.
    """

    kind: StepKind
    took_us: float
    predicted_us: float
    is_outside: bool


def predicted_steps(steps: Sequence[StepRecord], cost: CalibratedCost) -> Iterator[PredictedStep]:
    """Every step with rows, with its prediction."""
    pool = _Pool()
    for step in steps:
        rows = step.plan.rows
        if rows:
            prediction = cost.predict(rows, pool=pool.used)
            took = step.ended_at - step.began_at
            yield PredictedStep(kind_of(rows), float(took), float(prediction.time), bool(prediction.outside))
        pool.follow(step)


def step_errors(runs: Sequence[Iterable[PredictedStep]]) -> tuple[StepErrors, ...]:
    """Errors of all runs of one load, by kind of step; a step that took no time, or should have, is left out."""
    found: dict[StepKind, list[list[PredictedStep]]] = defaultdict(lambda: [[] for _ in runs])
    for number, run in enumerate(runs):
        for step in run:
            if step.took_us > 0 and step.predicted_us > 0:
                found[step.kind][number].append(step)
    return tuple(_errors(kind, found[kind]) for kind in StepKind if kind in found)


def slowness_of(run: Iterable[PredictedStep]) -> float:
    """What the steps of a run took / what was predicted of them, the first one left out; 1 without any.

    The first step of a run touches memory that nobody has touched before, and says nothing about the machine's speed.
    """
    rest = list(run)[1:]
    took, predicted = sum(step.took_us for step in rest), sum(step.predicted_us for step in rest)
    return took / predicted if took > 0 and predicted > 0 else 1.0


def mean_steps(runs: Sequence[Iterable[StepRecord]]) -> list[float | None]:
    """Mean milliseconds of a step with rows, of each run."""
    means: list[float | None] = []
    for run in runs:
        took = [float(step.ended_at - step.began_at) for step in run if step.plan.rows]
        means.append(fmean(took) / 1e3 if took else None)
    return means


def _errors(kind: StepKind, runs: Sequence[Sequence[PredictedStep]]) -> StepErrors:
    steps = [step for run in runs for step in run]
    errors = [step.took_us / step.predicted_us - 1 for step in steps]
    sizes = sorted(map(abs, errors))
    means = [fmean(step.took_us for step in run) for run in runs if run]
    return StepErrors(
        kind=kind,
        num_steps=len(steps),
        bias=median(errors),
        typical=median(sizes),
        p90=nearest_rank(sizes, 0.9),
        total=sum(step.predicted_us for step in steps) / sum(step.took_us for step in steps) - 1,
        noise=(max(means) - min(means)) / fmean(means) if len(means) == len(runs) else None,
        outside=sum(step.is_outside for step in steps) / len(steps),
    )


class _Pool:
    """Cells in use, as far as rows and operations say; counts in the unified layout only."""

    def __init__(self) -> None:
        self._held: dict[SequenceId, int] = {}

    @property
    def used(self) -> int:
        """Before the next step."""
        return sum(self._held.values())

    def follow(self, step: StepRecord) -> None:
        """Take over what a step did."""
        for row in step.plan.rows:
            self._held[row.sequence_id] = row.start + row.num_rows
        for event in step.events:
            _apply(event, self._held)


def _apply(event: Event, held: dict[SequenceId, int]) -> None:
    match event:
        case DropSequence(sequence_id):
            held.pop(sequence_id, None)
        case TrimSequence(sequence_id, length):
            held[sequence_id] = min(length, held.get(sequence_id, 0))
        case (
            CopySequence(sequence_id=sequence_id, length=length)
            | RestoreSequence(sequence_id=sequence_id, length=length)
        ):
            held.setdefault(sequence_id, length)
        case MoveSequence(source, sequence_id):
            held[sequence_id] = held.pop(source, 0)
        case _:
            pass
