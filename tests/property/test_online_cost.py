"""A model that follows its machine, and not its machine's neighbours."""

import math
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arriero.core.option_kinds import Threads
from arriero.costmodel.calibrated import CalibratedCost, HostCosts, ValidRange
from arriero.costmodel.online import FOLLOW, OnlineCost
from arriero.costmodel.passes import PassRules, Stretch
from arriero.costmodel.terms import PassCosts, TermGroup

COST = CalibratedCost(
    rules=PassRules(micro_batch=512, unified=False, stream_cells=4096),
    passes={
        1: PassCosts.of({
            "pass": 3000, "rows_0": 1500, "rows_16": 1200, "one_key": 10, "few_key": 10, "logit_row": 500,
        }),
        2: PassCosts.of({
            "pass": 3000, "build": 500, "rows_0": 1000, "rows_16": 700, "rows_64": 650, "one_key": 6, "few_key": 6,
            "many_key": 1, "logits": 300, "logit_row": 300,
        }),
    },
    threads=Threads(1, 2),
    host=HostCosts(step=200, entry=20, token=30),
    valid=ValidRange(rows=512, sequences=8, context=4096, pool=32_768),
)  # fmt: skip
EVEN = dict.fromkeys(TermGroup, 1.0)


def steps(number: int, seed: int) -> Iterator[list[Stretch]]:
    """Decode steps of one to eight sequences, every third with a chunk, as a server has them."""
    order = random.Random(seed)
    for place in range(number):
        rows = [Stretch(each, order.randrange(50, 2000), 1, wants_logits=True) for each in range(order.randint(1, 7))]
        if place % 3 == 0:
            rows.append(Stretch(len(rows), order.randrange(1000), order.randint(8, 200), wants_logits=False))
        yield rows


def watch(
    model: OnlineCost, real: CalibratedCost, number: int, *, seed: int = 1, noise: float = 0.02, far: float = 0.0
) -> None:
    """Let it see steps of a machine; a share `far` of them takes ten times as long."""
    order = random.Random(seed + 100)
    for rows in steps(number, seed):
        took = real.time(rows) * math.exp(order.gauss(0, noise)) * (10 if order.random() < far else 1)
        model.observe(rows, took)


def errors(model: CalibratedCost, real: CalibratedCost) -> list[float]:
    return [model.time(rows) / real.time(rows) - 1 for rows in steps(200, seed=77)]


def slower(**factors: float) -> CalibratedCost:
    by_group = EVEN | {TermGroup(name): factor for name, factor in factors.items()}
    return replace(COST, passes={number: each.scaled(by_group) for number, each in COST.passes.items()})


def test_a_model_that_is_right_stays_so() -> None:
    model = OnlineCost(COST)
    watch(model, COST, 3000)
    assert max(map(abs, errors(model.refined(), COST))) < 0.02
    assert model.disturbance < 0.02
    assert 0.01 < model.usual_error < 0.02  # the median of a normal error of 2 %


@pytest.mark.parametrize(
    "factors", [{"fixed": 1.2}, {"rows": 1.25}, {"attention": 1.3}, {"rows": 0.8, "attention": 0.8}]
)
def test_a_machine_that_became_slower_or_faster_is_followed(factors: dict[str, float]) -> None:
    real, model = slower(**factors), OnlineCost(COST)
    before = sum(map(abs, errors(COST, real))) / 200
    watch(model, real, 3000)
    after = errors(model.refined(), real)
    assert sum(map(abs, after)) / 200 < max(0.015, before / 4)
    assert abs(sum(after)) / 200 < 0.01


@settings(max_examples=20)
@given(st.integers(0, 10_000))
def test_a_tenth_of_the_steps_may_take_ten_times_as_long(seed: int) -> None:
    clean, disturbed = OnlineCost(COST), OnlineCost(COST)
    watch(clean, COST, 600, seed=seed)
    watch(disturbed, COST, 600, seed=seed, far=0.1)
    for one, other in zip(errors(clean.refined(), COST), errors(disturbed.refined(), COST), strict=True):
        assert abs(one - other) < 0.01


def test_steps_that_are_somewhat_slow_have_little_influence() -> None:
    """Half as long again is no disturbance, but it is far beyond the usual error."""
    model = OnlineCost(COST)
    order = random.Random(5)
    for rows in steps(3000, seed=5):
        took = COST.time(rows) * math.exp(order.gauss(0, 0.02))
        model.observe(rows, took * (1.5 if order.random() < 0.1 else 1))
    assert abs(sum(errors(model.refined(), COST))) / 200 < 0.015


@pytest.mark.parametrize("speed", [1.3, 0.8])
def test_a_machine_that_changes_its_speed_is_followed_within_seconds_of_computing(speed: float) -> None:
    real, model = slower(fixed=speed, rows=speed, attention=speed), OnlineCost(COST)
    watch(model, COST, 300)
    spent = 0.0
    for rows in steps(1000, seed=8):
        took = real.time(rows)
        model.observe(rows, took)
        spent += took
        if spent > 3 * FOLLOW.settle:
            break
    # of the thread that computes rows alone it has hardly seen a step
    wrong = sorted(map(abs, errors(model.refined(), real)))
    assert wrong[100] < 0.03
    watch(model, COST, 300)
    assert sum(map(abs, errors(model.refined(), COST))) / 200 < 0.02


def test_a_long_step_says_as_much_of_the_speed_as_many_short_ones() -> None:
    short, long = OnlineCost(COST), OnlineCost(COST)
    row, chunk = [Stretch(0, 500, 1, wants_logits=True)], [Stretch(0, 500, 512, wants_logits=False)]
    for _ in range(round(COST.time(chunk) / COST.time(row))):
        short.observe(row, 1.1 * COST.time(row))
    long.observe(chunk, 1.1 * COST.time(chunk))
    assert long.factors[2][TermGroup.FIXED] > 1.03
    assert short.factors[1][TermGroup.FIXED] > 1.03


def test_a_neighbour_that_stays_is_seen_and_not_learned() -> None:
    model = OnlineCost(COST)
    watch(model, COST, 300)
    quiet = model.refined()
    watch(model, slower(fixed=2.5, rows=2.5, attention=2.5), 500)
    assert model.disturbance > 0.9
    assert max(abs(a - b) for a, b in zip(errors(model.refined(), COST), errors(quiet, COST), strict=True)) < 0.01
    watch(model, COST, 500)
    assert model.disturbance < 0.02


def test_steps_that_are_far_faster_are_believed() -> None:
    """Calibrated beside a neighbour, and now it is quiet."""
    real, model = slower(fixed=0.55, rows=0.55, attention=0.55), OnlineCost(COST)
    watch(model, real, 3000)
    assert sum(map(abs, errors(model.refined(), real))) / 200 < 0.05


@given(st.lists(st.tuples(st.integers(1, 8), st.floats(1e-3, 1e9)), max_size=60))
def test_whatever_is_measured_costs_stay_positive_and_bounded(measured: list[tuple[int, float]]) -> None:
    model = OnlineCost(COST)
    for count, took in measured:
        model.observe([Stretch(each, 100, 1, wants_logits=True) for each in range(count)], took)
    every = [factor for factors in model.factors.values() for factor in factors.values()] + [model.host_factor]
    assert all(1 / FOLLOW.reach <= factor <= FOLLOW.reach for factor in every)
    assert model.refined().time([Stretch(0, 100, 1, wants_logits=True)]) > 0
    assert 0 <= model.change().spread <= math.expm1(0.5)


def test_threads_learn_for_themselves() -> None:
    model = OnlineCost(COST)
    row = [Stretch(0, 500, 1, wants_logits=True)]
    for _ in range(500):
        model.observe(row, 1.2 * COST.time(row))
    # a row alone is computed by one thread
    assert model.factors[2] == EVEN
    assert model.factors[1][TermGroup.ATTENTION] > 1.05
    both = COST.with_threads(Threads(2, 2))
    model.use_threads(both)
    seen = model.observe(row, both.time(row))
    assert seen is not None
    assert abs(seen.error) < 0.05


def test_what_says_nothing_is_left_out() -> None:
    model = OnlineCost(replace(COST, host=HostCosts()))
    assert model.observe([], 100.0) is None
    assert model.observe([Stretch(0, 1, 1, wants_logits=True)], 0.0) is None
    assert model.refined().passes == COST.passes


def test_what_is_told_makes_the_same_model() -> None:
    model = OnlineCost(COST)
    watch(model, slower(rows=1.2), 500)
    assert COST.changed(model.change()) == model.refined()
    assert model.change().threads == COST.threads
    assert {each.threads for each in model.change().factors} == {1, 2}
    model.use_threads(COST.with_threads(Threads(2, 2)))
    assert model.change().threads == Threads(2, 2)


def test_a_hundredth_of_the_steps_exceeds_the_prediction_and_its_spread() -> None:
    model, order = OnlineCost(COST), random.Random(3)
    late: list[bool] = []
    for rows in steps(6000, seed=9):
        took = COST.time(rows) * math.exp(order.gauss(0, 0.05))
        late.append(took > model.refined().time(rows) * (1 + model.spread))
        model.observe(rows, took)
    assert 0.004 < sum(late[2000:]) / 4000 < 0.02
    assert 0.09 < model.spread < 0.18  # 2.33 standard deviations are 0.12


def test_a_machine_without_noise_needs_no_spread_and_a_neighbour_gives_none() -> None:
    model = OnlineCost(COST)
    for rows in steps(300, seed=4):
        model.observe(rows, COST.time(rows))
    assert model.spread < 0.001
    watch(model, slower(fixed=2.5, rows=2.5, attention=2.5), 300)
    assert model.spread < 0.01


def test_it_starts_with_the_spread_of_its_calibration() -> None:
    assert OnlineCost(replace(COST, spread=0.08)).change().spread == pytest.approx(0.08)
