"""What steps cost in a what-if: a profile, the costs that a journal holds, or a fit of the journal's own steps."""

from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

from arriero.core.errors import ConfigError
from arriero.costmodel.calibrated import CalibratedCost
from arriero.costmodel.models import RoundedMicroseconds
from arriero.costmodel.passes import Stretch
from arriero.sim.cost_changes import AnyCost
from arriero.sim.recorded_run import RecordedRun, RecordedStep
from arriero.sim.whatif_setup import cost_for, recorded_cost

if TYPE_CHECKING:
    from collections.abc import Sequence

FEWEST_STEPS: Final = 20
"""Steps below which nothing can be fitted."""


class StepCosts(NamedTuple):
    """Costs, and how well they fit the recorded steps.

    Attributes:
        cost: of a step.
        words: where it comes from.
        typical: median size of measured / predicted - 1 over the recorded steps; None without a step.
        bias: median of the same.
    """

    cost: AnyCost
    words: str
    typical: float | None
    bias: float | None


def costs_of(run: RecordedRun, profile: Path | None) -> StepCosts:
    """The costs to simulate with.

    Args:
        run: that was recorded.
        profile: a file that was named, or None.

    Raises:
        ConfigError: there is no profile, and too little was recorded for a fit. DataError: the file cannot be used.
    """
    if profile is not None:
        from arriero.record.cost_profile import cost_of, read_cost_profile

        return _judged(cost_for(cost_of(read_cost_profile(profile)), run.setup), f"profile {profile.name}", run.steps)
    known = recorded_cost(run.setup)
    if known is not None:
        return _judged(known, "the profile that the server had", run.steps)
    return _judged(fitted(run.steps), f"fitted on the {len(run.steps):,} steps of the journal", run.steps)


def fitted(steps: "Sequence[RecordedStep]") -> RoundedMicroseconds:
    """A base, and so much for each prompt row, decode row and token of context; none of them negative.

    Raises:
        ConfigError: too few steps.
    """
    if len(steps) < FEWEST_STEPS:
        raise ConfigError(
            f"the journal has {len(steps)} steps, and {FEWEST_STEPS} are needed to fit their cost; "
            "name a profile of `arriero calibrate` with --profile"
        )
    import numpy as np

    from arriero.lab.nonnegative import solve_robust

    matrix = np.array([(1.0, step.prefill_rows, step.decode_rows, step.context_tokens) for step in steps])
    target = np.array([max(step.took_us, 1e-3) for step in steps])
    base, prefill, decode, context = (float(value) for value in solve_robust(matrix, target, np.ones(len(steps))))
    return RoundedMicroseconds(base=base, prefill_row=prefill, decode_row=decode, context_token=context)


def _judged(cost: AnyCost, words: str, steps: "Sequence[RecordedStep]") -> StepCosts:
    errors = [
        step.took_us / predicted - 1 for step in steps if step.took_us > 0 and (predicted := _predicted(cost, step)) > 0
    ]
    if not errors:
        return StepCosts(cost, words, None, None)
    return StepCosts(cost, words, median(map(abs, errors)), median(errors))


def _predicted(cost: AnyCost, step: RecordedStep) -> float:
    if isinstance(cost, CalibratedCost):
        return float(cost.time(step.rows))
    return (
        cost.base
        + cost.prefill_row * step.prefill_rows
        + cost.decode_row * step.decode_rows
        + cost.sequence * len([row for row in step.rows if _has_rows(row)])
        + cost.context_token * step.context_tokens
    )


def _has_rows(row: Stretch) -> bool:
    return row.num_rows > 0
