"""RunView: one run of the scheduler, whatever format it was recorded in."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from arriero.metrics.steps import StepFigures
from arriero.report.columns import RequestColumns, StepColumns


class Fact(NamedTuple):
    """One line of provenance."""

    name: str
    value: str


class RunLimits(NamedTuple):
    """What the run had to work with; None where the format does not say, or there is no limit."""

    rows: int | None  # of one step
    sequences: int | None  # that run at once
    kv_places: int | None
    kv_unit: str  # "cells" or "blocks"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """One run, ready to be drawn.

    Attributes:
        name: unique on its page.
        evidence: SIMULATED or MEASURED.
        facts: where it comes from.
        traits: what must agree for two runs to be compared, name → text; None where the format does not say.
        limits: of steps and memory.
        objectives: name of `columns.LATENCIES` → upper bound, microseconds.
        steps: None if the file holds none.
        requests: all of them.
        ended_at: of the last step, microseconds from the origin of the run's time line.
        step_figures: weighted by time; None where the file cannot say.
        evictions: cached blocks or runs that had to go; None where the file cannot say.
        window: figures of the steady part as the file says them, see `metrics.run_summary`; None without one.
        notes: what the page cannot show of this run, and how it would be recorded.
    """

    name: str
    evidence: str
    facts: tuple[Fact, ...]
    traits: Mapping[str, str | None]
    limits: RunLimits
    objectives: Mapping[str, float]
    steps: StepColumns | None
    requests: RequestColumns
    ended_at: float
    step_figures: StepFigures
    evictions: int | None
    notes: tuple[str, ...]
    window: Mapping[str, Any] | None = None

    @property
    def span(self) -> tuple[float, float]:
        """From the origin to the end, and never empty."""
        return 0.0, max(self.ended_at, 1.0)


WORKLOAD, SEED, COSTS, OBJECTIVES, LIMITS, MEMORY, PLANNER = (
    "workload", "seed", "costs", "objectives", "limits", "memory", "planner",
)  # fmt: skip
"""The traits, in the order in which differences are told."""
