"""Three coefficients of a step, fitted on half of the steps and judged on the other half.

    duration = base + prompt * prefill rows + decode * decode rows, in us, none of them negative

Least squares. With three coefficients the non-negative solution is found by trying every choice of those that are not
zero, which is exact and needs no library.
"""

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from arriero.bench.experiments.mixed_decode_trace import Trace, TraceStep
from arriero.metrics.quantiles import percentiles

_NUM_COEFFICIENTS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Coefficients and how well they do on steps that were not used for them.

    Attributes:
        fitted_on: which half.
        base_us, prompt_us, decode_us: of a decode call, of each prompt row, of each decode row.
        num_fitted, num_held: steps of each half.
        makespan_error: relative, of the sum of the held steps: predicted / measured - 1.
        typical_error: median over the held steps of the absolute relative error.
        error_p95: its 95th percentile.
    """

    fitted_on: str
    base_us: float
    prompt_us: float
    decode_us: float
    num_fitted: int
    num_held: int
    makespan_error: float
    typical_error: float
    error_p95: float | None

    def predicted_us(self, step: TraceStep) -> float:
        """How long a step takes."""
        return self.base_us + self.prompt_us * step.prefill_rows + self.decode_us * step.decode_rows


def halves(steps: Sequence[TraceStep], seed: int) -> dict[str, list[int]]:
    """Which steps a fit sees, by index; it is judged on all others. The first half decides.

    It is drawn by chance, and not by every second step: budgets are even, so every prompt is computed in an even
    one. It is drawn among steps with and without prompt rows apart, so that one with them is always seen.
    """
    chance = random.Random(seed)
    drawn: list[int] = []
    for has_prompt in (True, False):
        alike = [index for index, each in enumerate(steps) if (each.prefill_rows > 0) == has_prompt]
        chance.shuffle(alike)
        drawn += alike[: -(-len(alike) // 2)]
    every = range(len(steps))
    return {
        "half by chance": sorted(drawn),
        "the other half": [index for index in every if index not in set(drawn)],
        "first half": list(every[: len(every) // 2]),
    }


def fit_half(trace: Trace, name: str, fitted: Sequence[int]) -> Fit | None:
    """Fit on these steps, judge on the others; None if there is too little to fit or to judge."""
    held = sorted(set(range(len(trace.steps))) - set(fitted))
    if len(fitted) < _NUM_COEFFICIENTS or not held:
        return None
    base, prompt, decode = coefficients(
        [trace.steps[index] for index in fitted], [float(trace.durations[index]) for index in fitted]
    )
    draft = Fit(
        fitted_on=name,
        base_us=base,
        prompt_us=prompt,
        decode_us=decode,
        num_fitted=len(fitted),
        num_held=len(held),
        makespan_error=0.0,
        typical_error=0.0,
        error_p95=None,
    )
    return _judged(draft, [(trace.steps[index], float(trace.durations[index])) for index in held])


def coefficients(steps: Sequence[TraceStep], durations: Sequence[float]) -> tuple[float, float, float]:
    """Base, prompt and decode cost that fit best, none of them negative."""
    columns = np.array([(1.0, each.prefill_rows, each.decode_rows) for each in steps], np.float64)
    wanted = np.array(durations, np.float64)
    best: tuple[float, NDArray[np.float64]] | None = None
    for size in range(1, _NUM_COEFFICIENTS + 1):
        for chosen in combinations(range(_NUM_COEFFICIENTS), size):
            found = np.zeros(_NUM_COEFFICIENTS)
            found[list(chosen)] = np.linalg.lstsq(columns[:, chosen], wanted, rcond=None)[0]
            error = float(((columns @ found - wanted) ** 2).sum())
            if (found >= 0).all() and (best is None or error < best[0]):
                best = (error, found)
    # durations are positive, so the best base alone is
    assert best is not None, "some choice has no negative coefficient"
    base, prompt, decode = best[1].tolist()
    return base, prompt, decode


def _judged(fit: Fit, held: Sequence[tuple[TraceStep, float]]) -> Fit:
    predicted = [fit.predicted_us(step) for step, _ in held]
    measured = [duration for _, duration in held]
    errors = [abs(guess / seen - 1) for guess, seen in zip(predicted, measured, strict=True) if seen > 0]
    return Fit(
        fitted_on=fit.fitted_on,
        base_us=fit.base_us,
        prompt_us=fit.prompt_us,
        decode_us=fit.decode_us,
        num_fitted=fit.num_fitted,
        num_held=fit.num_held,
        makespan_error=sum(predicted) / sum(measured) - 1 if sum(measured) else 0.0,
        typical_error=statistics.median(errors) if errors else 0.0,
        error_p95=percentiles(errors).p95,
    )
