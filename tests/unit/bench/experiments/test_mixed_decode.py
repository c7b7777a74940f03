"""E9, small, in virtual time; the fit by known costs; and that a wrong decision is told."""

import random
from dataclasses import replace

import pytest

from arriero.backend.protocol import BackendLimits
from arriero.bench.experiments.experiment import Judgement, Outcome
from arriero.bench.experiments.mixed_decode import EXPERIMENT
from arriero.bench.experiments.mixed_decode_fit import coefficients, fit_half, halves
from arriero.bench.experiments.mixed_decode_runs import Case, LiveRun, preset_lengths, run_presets, run_simulated
from arriero.bench.experiments.mixed_decode_statements import Judged, statements
from arriero.bench.experiments.mixed_decode_trace import Trace, TraceStep, first_difference
from tests.unit.bench.experiments.running import find, not_so, rows_of, run_quick


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    return run_quick(EXPERIMENT)


def test_the_same_decisions_in_both_worlds_and_the_costs_are_found_again(outcome: Outcome) -> None:
    assert not_so(outcome.statements) == []
    assert outcome.judgement is Judgement.HOLDS
    costs = rows_of(outcome, "Costs of a decode call")
    for row in costs:
        if row["fitted on"] == "half by chance":
            assert (row["base us"], row["us per prompt row"], row["us per decode row"]) == (4000, 500, 500)
    assert {row["case"] for row in costs} == {"workload-c", "all-at-once"}


def test_a_run_with_everybody_at_once_has_the_closed_forms(outcome: Outcome) -> None:
    texts = [each.text for each in outcome.statements if each.text.startswith("all-at-once")]
    assert sum("highest positions" in text or "anybody ends" in text for text in texts) == 2
    assert not any("highest positions" in each.text and "workload-c" in each.text for each in outcome.statements)


def step(number: int, prefill: int, decode: int) -> TraceStep:
    rows = [(0, 0, "prefill", prefill)] if prefill else []
    rows += [(slot, slot, "decode", 1) for slot in range(1, decode + 1)]
    return TraceStep(number, tuple(rows), (), ())


def test_coefficients_of_an_exact_model_are_found() -> None:
    shapes = [step(n, prefill, decode) for n, (prefill, decode) in enumerate([(6, 0), (0, 4), (6, 3), (0, 1)])]
    durations = [100 + 7 * each.prefill_rows + 3 * each.decode_rows for each in shapes]
    assert coefficients(shapes, durations) == pytest.approx((100, 7, 3))


def test_no_coefficient_is_ever_negative() -> None:
    chance = random.Random(5)
    for _ in range(50):
        shapes = [step(n, 6 * chance.randint(0, 2), chance.randint(0, 4)) for n in range(12)]
        found = coefficients(shapes, [chance.uniform(1, 100) for _ in shapes])
        assert min(found) >= 0
    shrinking = [step(n, 0, n) for n in range(6)]
    assert coefficients(shrinking, [60 - 10 * n for n in range(6)]) == pytest.approx((35, 0, 0))


def test_halves_are_drawn_among_each_kind_and_leave_nobody_out() -> None:
    shapes = [step(n, 6 if n % 8 == 0 else 0, 3) for n in range(40)]
    drawn = halves(shapes, seed=1)
    by_chance, other = drawn["half by chance"], drawn["the other half"]
    assert sorted(by_chance + other) == list(range(40))
    assert sum(shapes[index].prefill_rows > 0 for index in by_chance) == 3
    assert sum(shapes[index].prefill_rows > 0 for index in other) == 2
    assert halves(shapes, seed=1) == drawn
    assert halves(shapes, seed=2) != drawn
    assert drawn["first half"] == list(range(20))


def test_errors_are_those_of_the_half_that_was_not_fitted() -> None:
    shapes = tuple(step(n, 0, n % 4 + 1) for n in range(8))
    durations = tuple(100.0 if n < 4 else 200.0 for n in range(8))
    fit = fit_half(Trace(shapes, durations), "first half", [0, 1, 2, 3])
    assert fit is not None
    assert fit.makespan_error == pytest.approx(-0.5)
    assert fit.typical_error == pytest.approx(0.5)
    assert (fit.num_fitted, fit.num_held) == (4, 4)
    assert fit_half(Trace(shapes[:2], durations[:2]), "x", [0]) is None


LIMITS = BackendLimits(
    num_sequences=2, num_rows=16, micro_batch=16, num_cells=512, sequence_limit=256, unified=False, vocab_size=10
)
CASE = Case(name="c", slots=2, budgets=(2, 5, 3), prompt=(1, 2, 3), num_rows=16, threads=1)


def judged(live: Trace) -> Judged:
    run = LiveRun(trace=live, results=(), decode_calls=len(live.steps), limits=LIMITS)
    return Judged(
        case=CASE,
        lives=(run,),
        simulated=run_simulated(CASE, LIMITS, None),
        presets=run_presets(CASE, None),
        preset_lengths=preset_lengths(CASE),
        fits=(),
    )


def changed(trace: Trace, number: int, **change: object) -> Trace:
    steps = list(trace.steps)
    steps[number] = steps[number]._replace(**change)  # type: ignore[arg-type]  # fields of a table
    return Trace(tuple(steps), trace.durations)


def test_a_simulated_trace_is_what_the_scheduler_does() -> None:
    trace = run_simulated(CASE, LIMITS, None)
    assert [(each.prefill_rows, each.decode_rows) for each in trace.steps] == [
        (6, 0), (0, 2), (3, 1), (0, 2), (0, 2),
    ]  # fmt: skip
    assert trace.admission_order == [0, 1, 2]
    assert trace.admitted_in() == {0: 0, 1: 0, 2: 2}
    assert trace.finished_in() == {0: 1, 1: 4, 2: 4}
    assert trace.num_steps_of() == {0: 2, 1: 5, 2: 3}
    assert trace.makespan == 5


@pytest.mark.parametrize(
    ("number", "change", "word"),
    [
        (0, {"admitted": (1, 0)}, "admitted"),
        (2, {"rows": ((2, 1, "prefill", 3), (1, 0, "decode", 1))}, "rows"),
        (4, {"finished": (1, 2)}, "finished"),
    ],
)
def test_the_first_decision_that_differs_is_told(number: int, change: dict[str, object], word: str) -> None:
    simulated = run_simulated(CASE, LIMITS, None)
    live = changed(simulated, number, **change)
    assert first_difference(simulated, simulated) is None
    difference = first_difference(live, simulated)
    assert difference is not None
    assert word in difference
    assert f"step {number}" in difference
    found = list(statements([judged(live)], 0.1))
    assert found[0].judgement is Judgement.BROKEN
    assert found[0].measured == difference


def test_a_request_takes_one_step_more_in_the_preset_than_in_reality() -> None:
    chunked = replace(
        CASE, prompt=tuple(range(20)), budgets=(2, 5)
    )  # a prompt of two calls, which both have to wait for
    assert preset_lengths(replace(CASE, slots=1)) == {0: 1 + 2, 1: 1 + 5, 2: 1 + 3}
    assert preset_lengths(replace(chunked, slots=1)) == {0: 2 + 2, 1: 2 + 5}
    found = judged(run_simulated(CASE, LIMITS, None))
    words = "ceil(P / rows) + D steps in the preset"
    assert find(list(statements([found], 0.1)), words).judgement is Judgement.HOLDS
    short = replace(found, preset_lengths={**found.preset_lengths, 1: 5})
    assert find(list(statements([short], 0.1)), words).measured == 2
    assert find(list(statements([short], 0.1)), words).judgement is Judgement.BROKEN


def test_a_trace_that_ends_early_differs() -> None:
    simulated = run_simulated(CASE, LIMITS, None)
    short = Trace(simulated.steps[:-1], simulated.durations[:-1])
    assert first_difference(short, simulated) == "4 steps, and 5 in the other"


def test_without_a_fit_the_makespan_is_undecided() -> None:
    simulated = run_simulated(CASE, LIMITS, None)
    last = list(statements([judged(simulated)], 0.1))[-1]
    assert last.judgement is Judgement.OPEN
