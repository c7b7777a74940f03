"""E8, small, without a model; and that its statements can fail."""

import json

import msgspec
import pytest

from arriero.bench.experiments.definition import read_definition
from arriero.bench.experiments.experiment import Judgement, Outcome
from arriero.bench.experiments.fifo_pool_against_engine import EXPERIMENT
from arriero.bench.experiments.fifo_pool_rounds import Arm, Setting, order_of, predicted_calls
from arriero.metrics.mixed_decode import MixedPolicy
from tests.unit.bench.experiments.running import definition, find, not_so, rows_of, run_quick


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    return run_quick(EXPERIMENT)


def test_every_statement_holds_but_perhaps_counts_on_a_busy_machine(outcome: Outcome) -> None:
    assert not_so(outcome.statements, "for each call of the engine") == []
    assert sum("for each call of the engine" in each.text for each in outcome.statements) == 4
    assert sum(each.text.startswith("G45") for each in outcome.statements) == 1 + 2 * 2


def test_every_rule_of_the_gate_is_kept_with_the_runs(outcome: Outcome) -> None:
    rules = [json.loads(line) for line in outcome.raw["control.jsonl"].splitlines()]
    assert {(rule["runner"], rule["run"]) for rule in rules} == {
        (runner, run) for runner in ("threads", "asyncio") for run in ("mixed", "serial", "hindered")
    }
    assert all(rule["seen"] == rule["promised"] for rule in rules)


@pytest.mark.parametrize("quick", [False, True])
def test_both_sides_have_the_same_threads_in_each_shape(*, quick: bool) -> None:
    config = read_definition(definition(EXPERIMENT), EXPERIMENT.config, quick=quick)
    assert [shape.engine_threads for shape in config.shapes] == [shape.contexts for shape in config.shapes]


def test_the_engine_makes_about_as_few_calls_as_simulated(outcome: Outcome) -> None:
    rows = {(row["shape"], row["side"]): row["decode calls"] for row in rows_of(outcome, "Each side")}
    assert rows["exp10", "threads"] == rows["exp10", "asyncio"] == str(sum((16, 2, 4, 2, 16, 4, 2, 16, 2, 4, 2, 8)))
    predicted = {row["shape"]: row for row in rows_of(outcome, "Decode calls that the simulator")}
    assert predicted["exp10"]["pool"] == 78 + 12, "one call more for each request"
    assert predicted["exp10"]["shared"] == 48


def test_raw_records_hold_every_request_of_every_run(outcome: Outcome) -> None:
    lines = [json.loads(line) for line in outcome.raw["rounds.jsonl"].splitlines()]
    assert len(lines) == 2 * 2 * len(Arm)
    assert {len(line["lives"]) for line in lines} == {12}
    assert {(line["round"], line["arm"], line["place"]) for line in lines if line["shape"] == "exp10"} == {
        (0, "threads", 0), (0, "asyncio", 1), (0, "engine", 2),
        (1, "threads", 2), (1, "asyncio", 1), (1, "engine", 0),
    }  # fmt: skip


def test_figures_of_a_formula_are_labelled_as_simulated(outcome: Outcome) -> None:
    assert {str(table.label) for table in outcome.tables} == {"SIMULATED"}


def test_every_second_round_runs_in_the_opposite_order() -> None:
    assert order_of(0) == (Arm.THREADS, Arm.ASYNCIO, Arm.ENGINE)
    assert order_of(1) == order_of(0)[::-1]
    assert order_of(2) == order_of(0)


@pytest.mark.parametrize(
    ("contexts", "requests", "budgets", "pool", "shared"),
    [
        (4, 99, (8, 64, 256), 10_923, 2861),  # workload C, as published
        (4, 200, (8,), 1800, 450),  # workload A, as published
        (2, 200, (8,), 1800, 900),
    ],
)
def test_predictions_are_those_of_the_published_simulator(
    contexts: int, requests: int, budgets: tuple[int, ...], pool: int, shared: int
) -> None:
    setting = Setting(
        name="x", contexts=contexts, concurrent=requests, requests=requests, budgets=budgets,
        prompt=(1, 2, 3, 4, 5, 6), num_rows=128, engine_threads=1, rounds=2,
    )  # fmt: skip
    assert predicted_calls(setting, MixedPolicy.FIFO) == pool
    assert predicted_calls(setting, MixedPolicy.CONTINUOUS) == shared


def test_a_ratio_away_from_the_simulated_one_fails() -> None:
    config = read_definition(definition(EXPERIMENT), EXPERIMENT.config, quick=True)
    # one client at a time gives a shared context nothing to share
    alone = [msgspec.structs.replace(config.shapes[0], concurrent=1)]
    outcome = EXPERIMENT.run(msgspec.structs.replace(config, shapes=alone), lambda _: None)
    statement = find(outcome.statements, "the threads pool for each call of the engine")
    assert statement.judgement is Judgement.BROKEN
    assert statement.measured == 1.0
    assert outcome.judgement is Judgement.BROKEN
