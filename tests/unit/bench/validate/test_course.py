"""A whole validation on the live engine in virtual time, whose true costs are known."""

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest

from arriero.bench.loops import LoopRun
from arriero.bench.runner import Driver
from arriero.bench.runner_points import PointRun
from arriero.bench.schedule import Schedule
from arriero.bench.validate.course import CourseOptions, Findings, validate
from arriero.bench.validate.engine_side import MeasuredLoad, StepKeeper, decided_again
from arriero.bench.validate.loads import held_out
from arriero.bench.validate.sensitivity import CHANGE, EVERYTHING
from arriero.core.errors import ConfigError
from arriero.costmodel.calibrated import CalibratedCost
from arriero.engine.options import EngineOptions
from arriero.record.validation import Compared, LoadLevel, ValidatedLoad
from arriero.sim.cost_changes import scaled
from arriero.workload.settings import Vocabulary
from tests.unit.bench.validate.virtual_engine import VirtualEngine
from tests.unit.sim.whatif_rig import CALIBRATED

TOKENS = Vocabulary(first_token=1, size=200)


def run(
    side: VirtualEngine,
    cost: CalibratedCost = CALIBRATED,
    *,
    names: tuple[str, ...] = ("chat",),
    **more: Any,  # noqa: ANN401 - fields of CourseOptions
) -> Findings:
    workloads = tuple(each for each in held_out(512) if each.name in names)
    options = CourseOptions(**{"workloads": workloads, "num_requests": 10, "sample": 40, "vocabulary": TOKENS, **more})
    return asyncio.run(validate(side, cost, options, tell=lambda _part, _words: None))


def figure(load: ValidatedLoad, metric: str, name: str) -> Compared:
    (found,) = (each for each in load.compared if (each.metric, each.figure) == (metric, name))
    return found


def dearer(factor: float) -> CalibratedCost:
    found = scaled(CALIBRATED, factor)
    assert isinstance(found, CalibratedCost)
    return found


@pytest.fixture(scope="module")
def exact() -> Findings:
    """The engine takes exactly what is predicted."""
    return run(VirtualEngine(CALIBRATED), names=("mixed",), num_requests=20)


@pytest.fixture(scope="module")
def slower() -> Findings:
    """The engine takes a quarter more than is predicted, and a tenth more still in the second round."""
    return run(VirtualEngine(dearer(1.25), drift=(1.0,) * 4 + (1.1,) * 3), num_requests=40)


def test_where_the_cost_is_true_nothing_is_off(exact: Findings) -> None:
    assert [(load.workload, load.level) for load in exact.loads] == [("mixed", level) for level in LoadLevel]
    for load in exact.loads:
        assert all(each.error in {0.0, None} and each.noise in {0.0, None} for each in load.compared)
        assert all(each.bias == each.typical == each.total == 0 for each in load.steps)
        assert figure(load, "ttft", "p50").simulated is not None
        assert figure(load, "itl", "p99").simulated is not None
        assert load.decisions
        assert all(each.difference is None and each.requests == load.requests for each in load.decisions)
    assert {name: each.error for name, each in exact.capacities.items()} == {"mixed": 0.0}


def test_errors_and_noise_are_those_of_the_machine(slower: Findings) -> None:
    for load in slower.loads:
        for each in load.steps:
            assert each.bias == pytest.approx(0.3125, abs=0.07), "a quarter more, and a tenth of that in one round"
            assert each.total == pytest.approx(1 / 1.3125 - 1, abs=0.035), "rounds weigh by their steps"
        assert figure(load, "itl", "p50").error == pytest.approx(1 / 1.3125 - 1, abs=0.12)
    above = slower.loads[-1]
    assert above.level is LoadLevel.ABOVE
    assert slower.capacities["chat"].error == pytest.approx(1.3125 - 1, abs=0.12), (
        "a short load is partly its beginning"
    )
    assert 0.05 < (slower.capacities["chat"].noise or 0) < 0.2
    assert all(each.difference is None for load in slower.loads for each in load.decisions)


def test_a_machine_that_is_slower_for_everything_is_told_from_an_error_of_the_model(slower: Findings) -> None:
    """At the speed of each run nothing is off, though every figure is off by a quarter and more."""
    for load in slower.loads:
        assert min(load.slowness) == pytest.approx(1.25, abs=0.01)
        assert max(load.slowness) == pytest.approx(1.375, abs=0.01)
        assert {(each.metric, each.figure) for each in load.levelled} == {
            (each.metric, each.figure) for each in load.compared
        }
        for each in load.levelled:
            assert each.error == pytest.approx(0, abs=0.02) or each.error is None
            assert len(each.measured) == len(each.simulated) == 2


def test_a_model_that_is_right_needs_no_other_speed(exact: Findings) -> None:
    for load in exact.loads:
        assert load.slowness == (1.0, 1.0)
        assert all(each.error in {0.0, None} for each in load.levelled)


def test_more_is_offered_from_level_to_level_than_can_be_served(exact: Findings) -> None:
    below, at, above = exact.loads
    assert below.rate_per_s < at.rate_per_s < above.rate_per_s
    assert above.rate_per_s == pytest.approx(1.5 * at.rate_per_s)
    waits = [figure(load, "ttft", "p90").simulated or 0.0 for load in (below, at, above)]
    assert waits[0] < waits[1] < waits[2]


def test_rounds_turn_about_and_every_run_has_the_same_schedule() -> None:
    side = VirtualEngine(CALIBRATED)
    findings = run(side, num_requests=5)
    warm_up, *rounds = side.ran
    assert rounds == [*(load.schedule_sha256 for load in findings.loads),
                      *(load.schedule_sha256 for load in reversed(findings.loads))]  # fmt: skip
    assert warm_up not in rounds
    assert len(set(rounds)) == 3


def test_what_lies_beyond_the_calibrated_range_is_said() -> None:
    near = replace(CALIBRATED, valid=replace(CALIBRATED.valid, sequences=2, context=60))
    findings = run(VirtualEngine(CALIBRATED), near)
    for load in findings.loads:
        assert set(load.outside) == {"context", "sequences"}
        assert 0 < load.outside["context"] <= 1
        assert any(each.outside > 0 for each in load.steps)


def test_sensitivities_say_what_moves_what(exact: Findings) -> None:
    by_name = {each.coefficient: each.effects for each in exact.sensitivities}
    assert exact.sensitivity_load == "mixed, at saturation"
    assert next(iter(by_name)) == EVERYTHING
    assert (by_name[EVERYTHING]["itl.p50"] or 0) == pytest.approx(CHANGE, rel=0.5)
    assert (by_name[EVERYTHING]["output_tokens_per_s"] or 0) < -0.03
    assert (by_name["pass"]["itl.p50"] or 0) > (by_name["host_token"]["itl.p50"] or 0)
    assert set(by_name) == {
        EVERYTHING, "pass", "rows_0", "rows_16", "rows_64", "one_key", "few_key", "host_step", "host_entry",
        "host_token",
    }  # fmt: skip


def test_the_same_seed_gives_the_same_findings() -> None:
    first, second, other = (run(VirtualEngine(CALIBRATED), num_requests=5, seed=seed) for seed in (1, 1, 2))
    assert first == second
    assert other.loads[0].schedule_sha256 != first.loads[0].schedule_sha256


class Peer:
    """Another server, twice as slow; as much of a `Driver` as a validation asks for."""

    name = "peer"

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def run(self, schedule: Schedule) -> PointRun:
        self.asked.append(schedule.sha256)
        lives = (await VirtualEngine(dearer(2.0)).run(schedule)).lives
        return PointRun(schedule=schedule, came=LoopRun(lives=lives, began_at=0, stopped_at=0, ended_at=0))


def test_a_peer_answers_every_load_once() -> None:
    peer = Peer()
    options = CourseOptions(workloads=held_out(512)[:1], num_requests=6, sample=20, vocabulary=TOKENS)
    findings = asyncio.run(
        validate(
            VirtualEngine(CALIBRATED), CALIBRATED, options, peer=cast("Driver", peer), tell=lambda _part, _words: None
        )
    )
    assert peer.asked == [load.schedule_sha256 for load in findings.loads]
    for load in findings.loads:
        itl = figure(load, "itl", "p50")
        assert itl.peer is not None
        assert itl.measured[0] is not None
        assert itl.peer > 1.3 * itl.measured[0]


def test_one_run_shows_no_noise_and_is_refused() -> None:
    with pytest.raises(ConfigError, match="use 2 or more"):
        run(VirtualEngine(CALIBRATED), num_runs=1)


class Forgetful(VirtualEngine):
    """Tells of one step otherwise than it was."""

    async def run(self, schedule: Schedule) -> MeasuredLoad:
        load = await super().run(schedule)
        keeper = StepKeeper()
        keeper.steps = [*load.steps]
        place = next(number for number, step in enumerate(keeper.steps) if step.plan.rows)
        step = keeper.steps[place]
        keeper.steps[place] = replace(step, plan=replace(step.plan, num_waiting=step.plan.num_waiting + 1))
        return replace(load, decisions=decided_again(keeper, self.limits, EngineOptions()))


def test_a_decision_that_differs_is_told() -> None:
    findings = run(Forgetful(CALIBRATED), num_requests=6)
    told = [each.difference for load in findings.loads for each in load.decisions]
    assert len(told) == 6
    assert all(each is not None and "num_waiting" in each for each in told)
