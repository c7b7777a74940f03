"""Predictions, threads and interrupted calls among the metrics, of an engine in virtual time."""

from arriero.engine.observer import StepRecord
from arriero.engine.options import EngineOptions
from arriero.http.control_metrics import RATIOS
from arriero.http.exposition import MetricsPage, PageOptions
from arriero.http.metrics import Metrics
from arriero.testing.machine import Machine
from tests.unit.engine.driving import ENDLESS
from tests.unit.engine.machines import TimedEngine, scaling_cost

COST = scaling_cost(1, 2)
PAGE = PageOptions(model="m", info={"version": "0"}, settings={})


def test_what_the_cost_profile_does_can_be_watched() -> None:
    machine, metrics = Machine(COST, cores=2), Metrics()

    def before(record: StepRecord) -> None:
        machine.busy = 1 if record.plan.step >= 20 else 0

    options = EngineOptions(check=True, cost=COST, adapts_threads=True)
    timed = TimedEngine(machine, options, before=before, observers=[metrics])
    for _ in range(3):
        timed.engine.submit([5] * 40, 200, end_tokens=ENDLESS)
    records = timed.run(60)
    ratios = metrics.tally.distribution("prediction_ratio", "decode", bounds=RATIOS)
    within = dict(ratios.buckets)
    num_decode = sum(not record.plan.shape.prefill_chunks for record in records)
    assert within[float("inf")] == num_decode
    assert within[float("inf")] - within[4.0] == 3, "the steps before it yielded"
    assert metrics.tally.count("thread_shifts", "yielded") == 1
    assert metrics.tally.count("step_threads", "prefill") == 1
    page = MetricsPage(metrics, PAGE).render().decode()
    for line in (
        'arriero_thread_shifts_total{cause="yielded"} 1.0',
        'arriero_step_threads{kind="prefill"} 1.0',
        f'arriero_step_prediction_ratio_count{{kind="decode"}} {float(num_decode)}',
        "arriero_interrupted_calls_total 0.0",
    ):
        assert line in page
    recalibrations = timed.log.records[-1].snapshot.totals.recalibrations
    assert recalibrations > 0, "the scheduler was told of the threads"
    assert f"arriero_cost_recalibrations_total {float(recalibrations)}" in page


def test_without_a_profile_there_is_nothing_to_show() -> None:
    metrics = Metrics()
    timed = TimedEngine(Machine(COST, cores=2), EngineOptions(check=True), observers=[metrics])
    timed.engine.submit([5] * 40, 5, end_tokens=ENDLESS)
    timed.run(10)
    assert metrics.tally.distribution("prediction_ratio", "decode", bounds=RATIOS).buckets[-1][1] == 0
    assert metrics.tally.count("step_threads", "prefill") == 0
