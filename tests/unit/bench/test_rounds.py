"""Sides are measured in turns; an order that shows a drift as a difference is refused (F7)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.bench.rounds import FEWEST_AA_ROUNDS, FEWEST_ROUNDS, Order, Side, check_order, order_of, read_order, shown
from arriero.core.errors import ConfigError
from arriero.metrics.drift import FEWEST
from arriero.metrics.paired_figures import fewest_pairs

even = st.integers(min_value=FEWEST_ROUNDS // 2, max_value=20).map(lambda half: 2 * half)


def test_f7_abba_is_the_default_shape() -> None:
    assert shown(order_of(Order.ABBA, 6, seed=0)) == "ABBAABBAABBA"


@given(num_rounds=even, seed=st.integers(0, 1000), kind=st.sampled_from(Order))
def test_f7_each_round_has_both_sides_and_each_goes_first_as_often(kind: Order, num_rounds: int, seed: int) -> None:
    sides = order_of(kind, num_rounds, seed)
    firsts, seconds = sides[::2], sides[1::2]
    assert len(sides) == 2 * num_rounds
    assert all(first is second.other for first, second in zip(firsts, seconds, strict=True))
    assert firsts.count(Side.A) == firsts.count(Side.B) == num_rounds // 2
    assert order_of(kind, num_rounds, seed) == sides


@given(blocks=st.integers(1, 10), slope=st.floats(-0.01, 0.01), level=st.floats(1, 100))
def test_f7_a_linear_drift_cancels_over_abba(blocks: int, slope: float, level: float) -> None:
    sides = order_of(Order.ABBA, 4 + 4 * blocks, seed=0)
    sums = dict.fromkeys(Side, 0.0)
    for position, side in enumerate(sides):
        sums[side] += level + slope * position
    assert sums[Side.A] == pytest.approx(sums[Side.B])


def test_f7_seeded_orders_differ_by_seed() -> None:
    assert len({order_of(Order.SEEDED, 20, seed) for seed in range(10)}) > 1


@pytest.mark.parametrize("word", ["sequential", "aabb", "blocks"])
def test_f7_a_sequential_order_is_refused_with_the_reason(word: str) -> None:
    with pytest.raises(ConfigError, match="turns a drift of the machine into a difference; use abba or seeded"):
        read_order(word)


def test_orders_are_read_by_name() -> None:
    assert [read_order(word) for word in ("abba", "seeded")] == [Order.ABBA, Order.SEEDED]
    with pytest.raises(ConfigError, match="--order abab: no such order"):
        read_order("abab")


@pytest.mark.parametrize("text", ["AAABBB", "AABB", "ABAB", "BABA", "ABA", "AABBABBA"])
def test_f7_an_order_that_favours_a_side_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        check_order([Side(letter.lower()) for letter in text])


@pytest.mark.parametrize("num_rounds", [0, 1, 2, 4, 5, 7])
def test_too_few_or_odd_rounds_are_refused(num_rounds: int) -> None:
    with pytest.raises(ConfigError, match=f"{num_rounds} rounds: use an even number of at least 6"):
        order_of(Order.ABBA, num_rounds, seed=0)


def test_no_fewer_rounds_than_a_verdict_needs() -> None:
    assert FEWEST_ROUNDS == fewest_pairs(0.95) == FEWEST


def test_a_floor_may_rest_on_fewer() -> None:
    assert shown(order_of(Order.ABBA, 2, seed=0, fewest=FEWEST_AA_ROUNDS)) == "ABBA"
