"""Sensitivity: what the simulated figures of one load would be if one coefficient were larger.

A coefficient that moves nothing need not be known well; one that moves a tail by as much as itself decides what a
simulation is worth.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from arriero.bench.validate.judging import TOKENS, latency, summary_of
from arriero.metrics.client_figures import ClientSummary
from arriero.record.journal_setup import Setup
from arriero.record.validation import Sensitivity
from arriero.sim.asked import Asked
from arriero.sim.cost_changes import AnyCost, coefficients, scaled, with_coefficient
from arriero.sim.whatif import simulate

CHANGE: Final = 0.1
"""By which each coefficient is made larger."""

EVERYTHING: Final = "all of them"
_FIGURES: Final = (("ttft", "p50"), ("ttft", "p90"), ("itl", "p50"), ("itl", "p99"), ("e2e", "p50"))


def sensitivities(setup: Setup, cost: AnyCost, asked: Sequence[Asked]) -> Iterator[Sensitivity]:
    """All coefficients together, then each that is not 0, in their order."""
    base = _figures(summary_of(simulate(setup, cost, asked).lives))
    yield _effects(EVERYTHING, base, setup, scaled(cost, 1 + CHANGE), asked)
    for name in coefficients(cost):
        yield _effects(name, base, setup, with_coefficient(cost, name, 1 + CHANGE), asked)


def _effects(
    name: str, base: dict[str, float | None], setup: Setup, cost: AnyCost, asked: Sequence[Asked]
) -> Sensitivity:
    found = _figures(summary_of(simulate(setup, cost, asked).lives))
    return Sensitivity(coefficient=name, effects={key: _change(base[key], value) for key, value in found.items()})


def _figures(summary: ClientSummary) -> dict[str, float | None]:
    latencies = {f"{metric}.{figure}": latency(summary, metric, figure) for metric, figure in _FIGURES}
    return {**latencies, TOKENS: summary.whole_run.output_tokens_per_s}


def _change(before: float | None, after: float | None) -> float | None:
    return after / before - 1 if before and after is not None else None
