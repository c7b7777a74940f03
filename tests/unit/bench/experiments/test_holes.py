"""Holes: populations, a run computed again on other ids, and the quick variant on the formula."""

import itertools

import pytest
from msgspec.structs import replace

from arriero.bench.experiments.contexts import ContextShape, ModelSettings, SyntheticSource
from arriero.bench.experiments.definition import read_definition
from arriero.bench.experiments.experiment import Judgement
from arriero.bench.experiments.failed_cells import FailedCells
from arriero.bench.experiments.holes import EXPERIMENT, Holes, ServedRun, judge
from arriero.bench.experiments.holes_engine import EngineRun, run_engine
from arriero.bench.experiments.holes_load import Population, plan_of, send_population
from arriero.bench.experiments.holes_replay import StepPair
from arriero.bench.experiments.sides import OURS, THEIRS
from arriero.core.errors import ConfigError
from arriero.metrics.client_life import ClientLife, Outcome
from arriero.testing.virtual_loop import run_virtual, virtual_pace
from tests.unit.bench.experiments.running import definition, find, not_so, rows_of, run_quick
from tests.unit.bench.scripted_target import ScriptedTarget

POPULATION = Population(
    requests=30, fewest=2, most=5, prompt_low=3, prompt_high=9, output_low=1, output_high=8, first_token=0,
    vocabulary=200,
)  # fmt: skip


def test_plan_is_fixed_and_no_two_prompts_begin_alike() -> None:
    plan = plan_of(POPULATION, 7, 0)
    assert plan == plan_of(POPULATION, 7, 0)
    assert plan.asks[0].prompt != plan_of(POPULATION, 7, 1).asks[0].prompt
    assert len({ask.prompt[0] for ask in plan.asks}) == 30
    assert all(3 <= len(ask.prompt) <= 9 and 1 <= ask.max_tokens <= 8 for ask in plan.asks)
    assert set(plan.sizes) == {2, 3, 4, 5}


@pytest.mark.parametrize("wrong", [{"fewest": 6}, {"prompt_low": 10}, {"output_low": 9}, {"vocabulary": 29}])
def test_populations_that_cannot_be_made_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        plan_of(replace(POPULATION, **wrong), 1, 0)


def test_population_keeps_as_many_under_way_as_was_drawn() -> None:
    plan = plan_of(POPULATION, 3, 0)

    async def send() -> tuple[ScriptedTarget, tuple[ClientLife, ...]]:
        target = ScriptedTarget(virtual_pace(), delay=lambda ask, _: ask.max_tokens * 1_000_000)
        return target, await send_population(target, plan)

    target, lives = run_virtual(send())
    assert len(lives) == 30
    assert target.most_at_once == 5
    assert sorted(life.request_id for life in lives) == sorted(ask.request_id for ask in plan.asks)


@pytest.mark.parametrize("closes", [True, False])
def test_run_is_computed_again_on_its_own_ids_and_on_contiguous_ones(closes: bool) -> None:  # noqa: FBT001 - a table
    source = SyntheticSource(ModelSettings(backend="synthetic"))
    shape = ContextShape(num_sequences=8, positions=64)
    run = run_engine(source, shape, plan_of(POPULATION, 5, 0), 0, closes_holes=closes)
    assert len(run.lives) == 30
    assert all(life.outcome is Outcome.LENGTH for life in run.lives)
    assert run.steps
    assert run.num_moves == sum(step.num_moves for step in run.steps)
    assert (run.num_moves > 0) <= closes
    assert run.against_contiguous is not None


def step(as_recorded: int, contiguous: int) -> StepPair:
    return StepPair(num_rows=3, num_breaks=1, as_recorded=as_recorded, contiguous=contiguous, num_moves=0)


def engine_run(ratio: float, *, closes: bool = True) -> EngineRun:
    return EngineRun(
        closes_holes=closes, round=0, lives=(), num_moves=0, steps=(step(int(1000 * ratio), 1000),),
        mean_running=3, wall_us=5,
    )  # fmt: skip


def served_run(server: str, number: int, total_ms: int) -> ServedRun:
    life = ClientLife(
        request_id="r", intended_at=None, sent_at=0, closed_at=total_ms * 1_000_000, outcome=Outcome.LENGTH,
        asked_tokens=4, num_tokens=4,
    )  # fmt: skip
    return ServedRun(server=server, round=number, lives=(life,))


def test_steps_and_speed_are_judged() -> None:
    config = replace(read_definition(definition(EXPERIMENT), Holes), peer="llama-server")
    for ratio, speed, expected in ((1.05, 2, Judgement.HOLDS), (1.2, 1, Judgement.BROKEN)):
        served = [served_run(name, number, 100 * (speed if name == THEIRS else 1))
                  for number, name in itertools.product(range(3), (OURS, THEIRS))]  # fmt: skip
        statements = list(judge(config, [engine_run(ratio), engine_run(3, closes=False)], served, FailedCells()))
        assert find(statements, "mean step time").judgement is expected
        assert find(statements, "output tok/s").judgement is expected


@pytest.mark.slow
def test_quick_variant_runs_both_engines_and_the_server() -> None:
    outcome = run_quick(EXPERIMENT)
    assert not_so(outcome.statements, "mean step time", "llama-server") == []
    assert [row["holes"] for row in rows_of(outcome, "Steps of an engine")] == ["closed", "left"]
    assert [row["server"] for row in rows_of(outcome, "The same population")] == [OURS]
