"""Predictions of single steps, in one pool too."""

import asyncio
from dataclasses import replace

import pytest

from arriero.backend.synthetic import SyntheticOptions
from arriero.bench.validate.loads import held_out, schedule_of
from arriero.bench.validate.steps import PredictedStep, mean_steps, predicted_steps, slowness_of, step_errors
from arriero.costmodel.calibrated import StepKind
from arriero.costmodel.terms import PassCosts
from arriero.engine.options import EngineOptions
from arriero.scheduler.draft import PrefillBudget
from arriero.scheduler.policy_spec import PolicySpec
from arriero.workload.settings import Vocabulary
from tests.unit.bench.validate.virtual_engine import VirtualEngine
from tests.unit.sim.whatif_rig import CALIBRATED

POOLED = replace(
    CALIBRATED,
    rules=replace(CALIBRATED.rules, unified=True, stream_cells=2048, cell_pad=1),
    passes=dict.fromkeys((1, 2), PassCosts.of({"pass": 1000, "rows_0": 100, "one_scan": 2, "few_scan": 2})),
)
MEMORY = SyntheticOptions(num_sequences=4, num_rows=64, micro_batch=64, num_cells=2048, unified=True)
SCHEDULE = schedule_of(held_out(512)[0], 30.0, 40, 2, Vocabulary(first_token=1, size=200))


def test_in_one_pool_the_cells_of_the_others_count() -> None:
    # shorter prompts take the rows of longer ones, which keep their cells
    policy = PolicySpec(word="shortest-prefill")
    options = EngineOptions(cost=POOLED, budget=PrefillBudget(None, 16), policy=policy)
    side = VirtualEngine(POOLED, memory=MEMORY, options=options)
    steps = asyncio.run(side.run(SCHEDULE)).steps
    predicted = list(predicted_steps(steps, POOLED))
    assert {step.kind for step in predicted} == set(StepKind)
    assert all(step.took_us == step.predicted_us for step in predicted)
    alone = [POOLED.time(step.plan.rows) for step in steps if step.plan.rows]
    assert sum(alone) < sum(step.predicted_us for step in predicted), "some step has neighbours without rows"


def test_errors_are_those_of_the_predictions() -> None:
    steps = asyncio.run(VirtualEngine(CALIBRATED).run(SCHEDULE)).steps
    slower = replace(CALIBRATED, host=replace(CALIBRATED.host, step=CALIBRATED.host.step + 5000))
    once, twice = (list(predicted_steps(steps, slower)) for _ in range(2))
    errors = {each.kind: each for each in step_errors([once, twice])}
    assert set(errors) == set(StepKind)
    decode = [step for step in once if step.kind is StepKind.DECODE]
    assert errors[StepKind.DECODE].num_steps == 2 * len(decode)
    sizes = sorted(1 - step.took_us / step.predicted_us for step in decode)
    assert errors[StepKind.DECODE].typical == pytest.approx(sizes[len(sizes) // 2], abs=0.02)
    assert errors[StepKind.DECODE].bias == -errors[StepKind.DECODE].typical
    assert errors[StepKind.DECODE].noise == 0
    total = sum(step.predicted_us for step in decode) / sum(step.took_us for step in decode) - 1
    assert errors[StepKind.DECODE].total == pytest.approx(total)


def test_a_run_without_steps_has_no_mean_and_no_noise() -> None:
    steps = asyncio.run(VirtualEngine(CALIBRATED).run(SCHEDULE)).steps
    full, empty = mean_steps([steps, ()])
    assert full is not None
    assert full > 1
    assert empty is None
    assert all(each.noise is None for each in step_errors([list(predicted_steps(steps, CALIBRATED)), []]))


def test_the_speed_of_a_run_is_all_that_it_took_over_all_that_was_predicted_but_for_the_cold_first_step() -> None:
    times = ((900.0, 100.0), (30.0, 20.0), (90.0, 60.0))
    steps = [PredictedStep(StepKind.DECODE, took, predicted, is_outside=False) for took, predicted in times]
    assert slowness_of(steps) == 1.5
    assert slowness_of(steps[:1]) == 1.0
    assert slowness_of([]) == 1.0
