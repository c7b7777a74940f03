"""Interference of prompts with a decoding request: closed form, statements, and the quick variant."""

from collections.abc import Iterator
from dataclasses import replace
from math import ceil

import pytest

from arriero.backend.synthetic import SyntheticBackend, SyntheticOptions
from arriero.bench.experiments.experiment import Judgement, Statement
from arriero.bench.experiments.interference import EXPERIMENT
from arriero.bench.experiments.interference_figures import (
    Unbounded,
    judge,
    judge_counts,
    judge_http_counts,
    judge_two,
    linear_fit,
)
from arriero.bench.experiments.interference_runs import Caps, Scenario, SeenStep, promised_steps, run_scenario
from tests.unit.bench.experiments.running import find, not_so, rows_of, run_quick

ANCHOR = (1, 2, 3)
BUDGET = 8


@pytest.fixture
def backend() -> Iterator[SyntheticBackend]:
    made = SyntheticBackend(SyntheticOptions(num_sequences=3, num_rows=256, num_cells=3 * 256))
    yield made
    made.close()


@pytest.mark.parametrize("cap", [0, 1, 7, 32, 100])
@pytest.mark.parametrize("length", [1, 11, 79, 200])
def test_steps_beside_the_anchor_follow_the_closed_form(backend: SyntheticBackend, length: int, cap: int) -> None:
    found = run_scenario(backend, ANCHOR, [tuple(range(length))], BUDGET, Caps(per_sequence=cap))
    assert len(found.interference()) == min(BUDGET - 1, ceil(length / (cap or length)))
    assert set(judgements(judge("engine", [found]))) == {Judgement.HOLDS}
    assert judge_counts([found], BUDGET - 1).judgement is Judgement.HOLDS


def test_two_probes_are_bounded_together_by_the_step_cap_only(backend: SyntheticBackend) -> None:
    probes = [tuple(range(60)), tuple(range(60, 120))]
    free = run_scenario(backend, ANCHOR, probes, BUDGET, Caps(per_sequence=16))
    capped = run_scenario(backend, ANCHOR, probes, BUDGET, Caps(per_sequence=16, per_step=16))
    assert not_so(list(judge_two([free], [capped]))) == []
    assert not_so(list(judge_two([capped], [capped]))) != []


def judgements(statements: Iterator[Statement]) -> list[Judgement]:
    return [each.judgement for each in statements]


STEP = SeenStep(prefill_rows=32, decode_rows=1, active=2, largest_chunk=32, anchor_speaks=True, decode_us=900)
FIRST = replace(STEP, prefill_rows=3, decode_rows=0, active=1)
SOUND = Scenario(
    length=64, caps=Caps(per_sequence=32), num_probes=1, steps=(FIRST, STEP, STEP), anchor_hash="a", asked_rows=67
)


def with_step(step: SeenStep) -> Scenario:
    return replace(SOUND, steps=(FIRST, STEP, step))


@pytest.mark.parametrize(
    ("scenario", "words"),
    [
        (with_step(replace(STEP, prefill_rows=33)), "more prompt rows than the caps"),
        (with_step(replace(STEP, anchor_speaks=False)), "anchor got no token"),
        (with_step(replace(STEP, prefill_rows=31)), "do not add up"),
        (replace(SOUND, problems=("request 2: ended as cancelled",)), "failed, were rejected"),
    ],
)
def test_broken_promise_fails_its_statement(scenario: Scenario, words: str) -> None:
    assert set(judgements(judge("engine", [SOUND]))) == {Judgement.HOLDS}
    assert find(list(judge("engine", [scenario])), words).judgement is Judgement.BROKEN


def test_anchor_that_says_something_else_beside_another_cap_fails() -> None:
    other = replace(SOUND, anchor_hash="b")
    assert find(list(judge("engine", [SOUND, other])), "anchor's answer").judgement is Judgement.BROKEN


def test_no_scenarios_pass_nothing() -> None:
    assert judge_counts([], 7).judgement is Judgement.BROKEN
    assert judge_http_counts([], 6).judgement is Judgement.BROKEN


def test_http_counts_may_fall_short_of_the_closed_form_but_not_exceed_it() -> None:
    assert promised_steps(64, 32, 6) == 2
    once = replace(SOUND, steps=(FIRST, STEP))
    thrice = replace(SOUND, steps=(FIRST, STEP, STEP, STEP))
    never = replace(SOUND, steps=(FIRST,))
    assert judge_http_counts([SOUND, once], 6).judgement is Judgement.HOLDS
    assert judge_http_counts([thrice], 6).judgement is Judgement.BROKEN
    assert judge_http_counts([never], 6).judgement is Judgement.BROKEN


def test_straight_line_is_found_and_two_points_are_none() -> None:
    slope, r2 = linear_fit([(1, 12), (2, 14), (5, 20)])
    assert slope == pytest.approx(2)
    assert r2 == pytest.approx(1)
    assert linear_fit([(1, 1), (2, 2)]) == (None, None)
    assert linear_fit([(1, 1), (1, 2), (1, 3)]) == (None, None)


def test_residual_is_what_one_call_for_both_saves_or_costs() -> None:
    assert Unbounded(length=9, alone=80, decode=30, together=100).residual == pytest.approx(-0.1)


@pytest.mark.slow
def test_quick_variant_holds_in_the_engine_and_over_http() -> None:
    outcome = run_quick(EXPERIMENT)
    assert not_so(outcome.statements) == []
    engine = rows_of(outcome, "Interference, engine only")
    assert [(row["prompt"], row["B"], row["interference steps"]) for row in engine] == [
        ("L11", 0, 1), ("L11", 32, 1), ("L79", 0, 1), ("L79", 32, 3),
    ]  # fmt: skip
    assert len(rows_of(outcome, "Interference, over HTTP")) == len(engine)
