import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import cast

import pytest

from arriero.bench.ask import Ask
from arriero.bench.loops_pace import Pace
from arriero.bench.runner import BenchRun, LiveDriver, assemble, run_bench, run_point
from arriero.bench.runner_points import Rules
from arriero.bench.schedule import Limits
from arriero.bench.schedule_arrivals import ClosedLoop, OpenLoop, Process, Replay
from arriero.bench.schedule_making import LoopPlan, ScheduleOptions
from arriero.bench.schedule_work import fixed_work
from arriero.bench.sweep import PlannedPoint, plan_points
from arriero.core.errors import ConfigError
from arriero.metrics.client_figures import ClientSlos
from arriero.metrics.client_life import ClientLife, Outcome
from arriero.metrics.validity import Flag
from arriero.record.bench_parts import Evidence, Point, TargetFacts
from arriero.record.bench_result import decode_result, encode_result
from arriero.record.bench_result_run import run_facts
from arriero.record.machine import machine_facts
from arriero.testing.virtual_loop import VirtualLoop, run_virtual, virtual_pace
from tests.unit.bench.scripted_target import MS, S, ScriptedTarget

EVEN = OpenLoop(rate_per_s=20, process=Process.CONSTANT)


def points(
    loop: LoopPlan,
    values: tuple[float, ...] = (),
    count: int = 100,
    *,
    warm_up_requests: int = 0,
    limits: Limits | None = None,
) -> tuple[PlannedPoint, ...]:
    of = fixed_work(prompt_tokens=8, max_tokens=4, count=count)
    options = ScheduleOptions(loop=loop, warm_up_requests=warm_up_requests, limits=limits or Limits())
    return plan_points(of, options, values)


def run(
    planned: tuple[PlannedPoint, ...],
    *,
    stop_at: int | None = None,
    rules: Rules | None = None,
    cost: float = 0,
    outcome: Callable[[Ask], Outcome] = lambda _ask: Outcome.LENGTH,
) -> BenchRun:
    """Run in virtual time against answers that take 50 ms; each ask keeps the loop busy for `cost` seconds."""

    async def main() -> BenchRun:
        pace = virtual_pace()
        asked = _Busy(pace, lambda _ask, _now: 50 * MS, outcome)
        asked.cost = cost
        stop = asyncio.Event()
        if stop_at is not None:
            asyncio.get_running_loop().call_at(stop_at / S, stop.set)
        driver = LiveDriver(asked, pace=pace, look_s=None)
        return await run_bench(driver, planned, rules or Rules(), stop=stop)

    return run_virtual(main())


class _Busy(ScriptedTarget):
    cost: float

    async def ask(self, ask: Ask, intended_at: int | None) -> ClientLife:
        if self.cost:
            cast("VirtualLoop", asyncio.get_running_loop()).jump(self.cost)
        return await super().ask(ask, intended_at)


def test_a_point_has_its_flag_its_counts_and_its_window() -> None:
    (point,) = run(points(EVEN)).points
    assert point.validity.flag is Flag.VALID
    assert (point.summary.counts.intended, point.summary.counts.finished) == (100, 100)
    assert (point.summary.window.begins_at, point.summary.window.ends_at) == (0, 99 * 50 * MS)
    assert (point.schedule.loop, point.schedule.seed, point.setting) == ("open", 0, {})
    assert point.lives[0].intended_at == 0


def test_f1_a_generator_that_is_slower_than_its_load_is_invalid() -> None:
    (point,) = run(points(OpenLoop(rate_per_s=10_000), count=3000), cost=0.001).points
    assert point.validity.flag is Flag.INVALID
    assert "left late" in point.validity.reasons[0]
    assert point.validity.achieved is not None
    assert point.validity.achieved < 0.2
    latency = point.summary.latency.finished.ttft_ns
    assert latency is not None
    assert latency.max is not None
    assert latency.max > 2.5e9  # from the intended time, so the lag is in it


def test_a_blocked_loop_is_invalid() -> None:
    (point,) = run(points(EVEN, count=20), cost=0.12).points
    assert point.validity.flag is Flag.INVALID
    assert any("blocked" in reason for reason in point.validity.reasons)


def test_warm_up_requests_are_in_no_figure_and_the_window_begins_after_them() -> None:
    (point,) = run(points(EVEN, warm_up_requests=10)).points
    assert (point.summary.counts.warm_up, point.summary.counts.intended) == (10, 90)
    assert (point.schedule.num_requests, point.schedule.num_warm_up) == (90, 10)
    assert point.summary.window.begins_at == 10 * 50 * MS


def test_time_is_left_out_at_both_ends() -> None:
    limits = Limits(duration_ns=4 * S, warm_up_ns=S, cool_down_ns=S)
    (point,) = run(points(EVEN, limits=limits)).points
    assert (point.summary.window.begins_at, point.summary.window.ends_at) == (S, 3 * S)
    assert point.summary.window.offered_per_s == pytest.approx(20, rel=0.03)
    assert point.summary.counts.warm_up == 20


def test_a_sweep_has_a_point_for_each_value_with_prompts_of_its_own() -> None:
    planned = points(EVEN, (10, 40))
    found = run(planned).points
    assert [point.setting for point in found] == [{"rate_per_s": 10.0}, {"rate_per_s": 40.0}]
    assert [point.summary.whole_run.offered_per_s for point in found] == pytest.approx([10, 40], rel=0.1)
    prompts = [{item.ask.prompt for item in each.schedule.planned} for each in planned]
    assert not prompts[0] & prompts[1]
    clients = points(ClosedLoop(num_clients=1), (2, 3))
    assert [len(each.schedule.client_starts) for each in clients] == [2, 3]
    assert [dict(each.setting) for each in clients] == [{"clients": 2}, {"clients": 3}]
    assert len(points(Replay())) == 1


def test_an_interrupt_ends_the_sweep_and_keeps_the_points_so_far() -> None:
    found = run(points(EVEN, (10, 20, 40)), stop_at=12 * S)
    assert found.interrupted
    assert [point.setting["rate_per_s"] for point in found.points] == [10, 20]
    last = found.points[-1]
    assert last.validity.flag is Flag.DEGRADED
    assert "interrupted" in last.validity.reasons[0]
    assert last.summary.counts.not_due > 0
    assert last.summary.counts.submitted == last.summary.counts.finished + last.summary.counts.cancelled


def test_an_interrupt_in_a_closed_loop_counts_the_rest_too() -> None:
    (point,) = run(points(ClosedLoop(num_clients=2), (2,)), stop_at=S).points
    assert point.summary.counts.intended == 100
    assert point.summary.counts.by_outcome["not_sent"] > 50
    assert point.summary.loop == "closed"


def test_failures_stay_in_the_counts_and_in_the_second_table() -> None:
    def outcome(asked: Ask) -> Outcome:
        return Outcome.REJECTED if asked.request_id.endswith("7") else Outcome.LENGTH

    rules = Rules(slos=ClientSlos(ttft_ns=60 * MS))
    (point,) = run(points(EVEN), outcome=outcome, rules=rules).points
    summary = point.summary
    assert summary.counts.by_outcome["rejected"] == 10
    assert summary.latency.all is not None
    assert summary.latency.all.ttft_ns is not None
    assert summary.latency.all.ttft_ns.num_infinite == 10
    assert summary.attainment is not None
    assert (summary.attainment.of_submitted, summary.attainment.of_finished) == (0.9, 1.0)


def test_a_result_is_written_and_read_again() -> None:
    found = run(points(EVEN, (10, 20)))
    result = assemble(
        found,
        evidence=Evidence.MEASURED,
        facts=run_facts(["arriero", "bench"], started_at=datetime(2026, 1, 1, tzinfo=UTC), seconds=1.0),
        machine=machine_facts(),
        target=TargetFacts(name="scripted", kind="in-process"),
    )
    assert decode_result(encode_result(result), file="x") == result
    assert result.validity == found.points[0].validity


def test_nothing_measured_is_no_result() -> None:
    with pytest.raises(ConfigError, match="nothing was measured"):
        assemble(
            BenchRun(points=()),
            evidence=Evidence.MEASURED,
            facts=run_facts([], started_at=datetime(2026, 1, 1, tzinfo=UTC), seconds=0.0),
            machine=machine_facts(),
            target=TargetFacts(name="x", kind="http"),
        )


def test_the_raw_log_can_be_left_out() -> None:
    async def main() -> Point:
        pace = virtual_pace()
        driver = LiveDriver(ScriptedTarget(pace), pace=pace, look_s=None)
        return await run_point(driver, points(EVEN)[0], Rules(keep_raw=False))

    point = run_virtual(main())
    assert (point.keeps_lives, point.lives) == (False, ())


@pytest.mark.parametrize(("look_s", "looks"), [(None, (False, False)), (0.0, (False, True)), (0.01, (True, True))])
async def test_the_machine_is_looked_at_before_and_during_a_run(look_s: float | None, looks: tuple[bool, bool]) -> None:
    pace = Pace(lambda: 0, lambda _at: asyncio.sleep(0))
    driver = LiveDriver(ScriptedTarget(pace), "in-process", pace=pace, look_s=look_s)
    point = await run_point(driver, points(ClosedLoop(num_clients=1), count=2)[0], Rules())
    assert (point.load_before is not None, point.load_during is not None) == looks
    assert driver.evidence is Evidence.MEASURED
