from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.metrics.explain_parts import Basis
from arriero.metrics.explain_shares import CallSplit, RowsTime, Shares, Work, apportion


def decode(request_id: int) -> Work:
    return Work(request_id, request_id, 10, 1, wants_logits=True, is_decode=True)


def prompt(request_id: int, num_rows: int) -> Work:
    return Work(request_id, request_id, 0, num_rows, wants_logits=False, is_decode=False)


def times(split: CallSplit) -> list[int]:
    """The decode rows' time, then that of each prompt."""
    return [split.decode, *(each.time for each in split.prompts)]


def squares(rows: Sequence[Work]) -> float:
    """10 for the call, and the square of the rows."""
    return 10 + sum(row.num_rows for row in rows) ** 2


@given(st.integers(0, 10**9), st.lists(st.floats(0, 1e6), min_size=1, max_size=8))
def test_parts_are_whole_and_together_the_amount(amount: int, weights: list[float]) -> None:
    parts = apportion(amount, weights)
    assert len(parts) == len(weights)
    assert min(parts) >= 0
    assert sum(parts) == amount


@given(st.integers(0, 10**6), st.lists(st.integers(0, 50), min_size=2, max_size=6))
def test_a_part_is_as_near_to_its_proportion_as_whole_numbers_allow(amount: int, weights: list[int]) -> None:
    total = sum(weights)
    for part, weight in zip(apportion(amount, weights), weights, strict=True):
        exact = amount * weight / total if total else amount / len(weights)
        assert abs(part - exact) <= 1


def test_without_a_cost_model_time_goes_by_rows() -> None:
    shares = Shares()
    assert shares.basis is Basis.ROWS
    assert times(shares.divide([decode(1), decode(2), prompt(3, 6), prompt(4, 2)], 100)) == [20, 60, 20]


def test_with_one_it_goes_by_what_each_prompt_adds_to_the_decode_rows() -> None:
    shares = Shares(squares)
    assert shares.basis is Basis.COST
    # alone 10 + 2 x 2 = 14; with three more rows 10 + 5 x 5 = 35, so 21 more; with one more 10 + 3 x 3 = 19, so 5 more
    split = shares.divide([decode(1), prompt(2, 3), decode(3), prompt(4, 1)], 40)
    assert times(split) == [14, 21, 5]
    assert [each.work.request_id for each in split.prompts] == [2, 4]


def test_measured_time_is_divided_in_the_predicted_proportion() -> None:
    assert times(Shares(squares).divide([decode(1), prompt(2, 3)], 52)) == [22, 30]  # 11 and 15, twice


def test_what_needs_no_division_asks_no_model() -> None:
    def never(rows: Sequence[Work]) -> float:
        raise AssertionError(rows)

    shares = Shares(never)
    assert times(shares.divide([decode(1), decode(2)], 30)) == [30]
    assert times(shares.divide([], 30)) == [30]
    assert times(shares.divide([prompt(1, 5)], 30)) == [0, 30]


@pytest.mark.parametrize("time_of", [None, lambda _: 0.0], ids=["rows", "a cost of nothing"])
def test_a_prompt_that_adds_nothing_is_to_blame_for_nothing(time_of: RowsTime | None) -> None:
    assert times(Shares(time_of).divide([decode(1), prompt(2, 0)], 30)) == [30, 0]


def test_prompts_without_a_row_divide_their_call_evenly() -> None:
    assert times(Shares().divide([prompt(1, 0), prompt(2, 0)], 31)) == [10, 10, 11]


def test_a_model_for_which_a_prompt_makes_a_step_shorter_blames_nobody_for_less_than_nothing() -> None:
    split = Shares(lambda rows: 100.0 - sum(row.num_rows for row in rows)).divide([decode(1), prompt(2, 9)], 70)
    assert times(split) == [70, 0]
