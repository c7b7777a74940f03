"""From the options of an engine to the limits of its scheduler, and to the same ones in a replay."""

import pytest

from arriero.backend.synthetic import SyntheticOptions
from arriero.engine.building import build_scheduler
from arriero.engine.journal import describe
from arriero.engine.options import EngineOptions, step_budget
from arriero.engine.pass_rules import rules_of
from arriero.scheduler.draft import PrefillBudget
from arriero.scheduler.step_target import StepTarget
from arriero.sim.composition import build_scheduler as recorded_scheduler
from arriero.testing.costs import FUSED, calibrated

LIMITS = SyntheticOptions(num_sequences=4, num_rows=64, micro_batch=32, num_cells=512).limits()
COST = calibrated(FUSED, rules=rules_of(LIMITS), spread=0.05)
CAPS = PrefillBudget(per_sequence=9, per_step=20)
TARGET = StepTarget(limit=62_500, cost=COST)


def test_a_target_joins_the_caps() -> None:
    options = EngineOptions(budget=CAPS, cost=COST, itl_target_ms=62.5)
    assert step_budget(options) == PrefillBudget(9, 20, TARGET)
    assert step_budget(EngineOptions(budget=CAPS, cost=COST)) is CAPS


@pytest.mark.parametrize(
    "options",
    [
        EngineOptions(budget=CAPS),
        EngineOptions(cost=COST),
        EngineOptions(budget=CAPS, cost=COST, itl_target_ms=62.5),
        EngineOptions(budget=PrefillBudget(within=TARGET)),
        EngineOptions(exact=True, cost=COST, itl_target_ms=40),
    ],
)
def test_a_replay_plans_with_the_same_limits(options: EngineOptions) -> None:
    live = build_scheduler(LIMITS, options, 0)
    again = recorded_scheduler(describe(LIMITS, options, 0))
    assert again._limits == live._limits
    assert (again._limits.cost is None) == (options.cost is None and options.budget.within is None)
