"""Forecasts grow with the work that is there, and averages follow what was served."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.core.option_kinds import Threads
from arriero.core.plan import StepShape
from arriero.costmodel.calibrated import CalibratedCost, ValidRange
from arriero.costmodel.passes import PassRules
from arriero.costmodel.terms import PassCosts
from arriero.scheduler.backlog import Ahead
from arriero.scheduler.forecast import CalibratedPace, Load, time_to_answer, time_to_start
from arriero.scheduler.served_lately import ServedLately, ServedPace

PACE = ServedPace(row=100.0, each_step=1000.0)
LOADS = st.builds(
    Load,
    sequences=st.integers(1, 8),
    running=st.integers(0, 8),
    ahead=st.builds(Ahead, st.integers(0, 50), st.integers(0, 5_000)),
    answer_tokens=st.floats(1, 500),
    computed_share=st.floats(0, 1),
)


def test_an_idle_server_starts_at_once() -> None:
    load = Load(sequences=4, running=0, ahead=Ahead(), answer_tokens=50)
    assert time_to_start(load, PACE) == 0
    assert time_to_answer(load, PACE, prompt_tokens=10, max_tokens=20) == 10 * 100 + 19 * 1000


def test_a_full_server_starts_when_answers_have_ended() -> None:
    load = Load(sequences=4, running=4, ahead=Ahead(7, 300), answer_tokens=50)
    assert time_to_start(load, PACE) == 300 * 100 + 8 * 50 * 1000 // 4
    assert time_to_start(replace(load, computed_share=0.5), PACE) == 150 * 100 + 8 * 50 * 1000 // 4


def test_an_answer_is_expected_to_be_as_long_as_answers_were() -> None:
    load = Load(sequences=1, running=0, ahead=Ahead(), answer_tokens=5)
    assert time_to_answer(load, PACE, 0, 1000) == 4 * 1000
    assert time_to_answer(load, PACE, 0, 3) == 2 * 1000


@given(LOADS, st.integers(0, 4_000), st.integers(1, 1_000), st.integers(1, 20))
def test_more_of_anything_is_never_sooner(load: Load, prompt: int, output: int, more: int) -> None:
    start, answer = time_to_start(load, PACE), time_to_answer(load, PACE, prompt, output)
    assert 0 <= start <= answer
    ahead = load.ahead
    heavier = [
        replace(load, running=load.running + more),
        replace(load, ahead=Ahead(ahead.requests + more, ahead.tokens)),
        replace(load, ahead=Ahead(ahead.requests, ahead.tokens + more)),
        replace(load, answer_tokens=load.answer_tokens + more),
    ]
    for each in heavier:
        assert time_to_start(each, PACE) >= start
        assert time_to_answer(each, PACE, prompt, output) >= answer
    assert time_to_answer(load, PACE, prompt + more, output) >= answer
    assert time_to_answer(load, PACE, prompt, output + more) >= answer


# ── by a profile ────────────────────────────────────────────────────────────────────────────────────────────────────


def calibrated() -> CalibratedCost:
    """Every pass 2 ms, and 10 us for each row."""
    return CalibratedCost(
        rules=PassRules(micro_batch=64, unified=False, stream_cells=1024),
        passes={1: PassCosts.of({"pass": 2_000.0, "rows_0": 10.0, "rows_16": 10.0, "rows_64": 10.0})},
        threads=Threads(1, 1),
        valid=ValidRange(rows=64, sequences=8, context=1024, pool=8192),
    )


def test_a_profile_counts_passes() -> None:
    pace = CalibratedPace(cost=calibrated(), rows=64, context=100)
    assert pace.prompt(0) == 0
    assert pace.prompt(64) == 2_640
    assert pace.prompt(130) == 2 * 2_640 + 2_020
    assert pace.step(0) == 0
    assert pace.step(4) == calibrated().step_time(StepShape(4, 0, 0, 400, 4))


# ── by what was served ──────────────────────────────────────────────────────────────────────────────────────────────


def test_before_anything_was_served_nothing_is_known() -> None:
    served = ServedLately()
    assert served.pace is None
    assert (served.answer_tokens, served.prompt_tokens, served.computed_share) == (1.0, 0.0, 1.0)
    served.add_step(1000, 0, 0)
    assert served.pace is None


@dataclass
class Machine:
    """What it really costs."""

    base: int
    row: int

    def step(self, served: ServedLately, prefill_rows: int, decode_rows: int) -> None:
        served.add_step(self.base + self.row * prefill_rows, prefill_rows, decode_rows)


@given(
    st.integers(1, 50_000),
    st.integers(0, 2_000),
    st.lists(st.tuples(st.integers(1, 512), st.integers(1, 8)), min_size=1, max_size=30),
)
def test_steps_without_and_with_prompt_rows_tell_the_two_costs_apart(
    base: int, row: int, mixed: list[tuple[int, int]]
) -> None:
    served, machine = ServedLately(), Machine(base, row)
    for prefill_rows, decode_rows in mixed:
        machine.step(served, 0, decode_rows)
        machine.step(served, prefill_rows, decode_rows)
    assert served.pace is not None
    assert served.pace.step(8) == pytest.approx(base)
    assert served.pace.prompt(1000) == pytest.approx(1000 * row, abs=1e-3 * base)


def test_what_is_long_ago_counts_less() -> None:
    served = ServedLately(half_life=1_000_000)
    for _ in range(100):
        served.add_step(10_000, 0, 4)
    for _ in range(100):
        served.add_step(50_000, 0, 4)
    assert served.pace is not None
    assert 45_000 < served.pace.step(1) < 50_000


def test_shares_and_lengths_are_averages() -> None:
    served = ServedLately()
    served.add_prompt(100, 80)
    served.add_prompt(300, 0)
    served.add_answer(10)
    served.add_answer(30)
    assert (served.prompt_tokens, served.answer_tokens) == (200, 20)
    assert served.computed_share == pytest.approx(320 / 400)
