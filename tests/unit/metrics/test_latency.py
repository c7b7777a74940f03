from hypothesis import given
from hypothesis import strategies as st

from arriero.metrics.goodput import Slos, is_good, judge
from arriero.metrics.latency import Life, gaps
from arriero.metrics.queue import queue_depth

FIXTURE_X = Life(arrival_at=0, started_at=0, first_at=1000, finished_at=1300, num_tokens=4)


def test_four_tokens_a_tenth_apart() -> None:
    assert (FIXTURE_X.ttft, FIXTURE_X.tpot, FIXTURE_X.e2e, FIXTURE_X.queue_time) == (1000, 100.0, 1300, 0)
    assert gaps([1000, 1100, 1200, 1300]) == [100, 100, 100]


def test_what_never_came_is_undefined() -> None:
    waiting = Life(5, None, None, None, 0)
    assert (waiting.queue_time, waiting.ttft, waiting.tpot, waiting.e2e) == (None, None, None, None)
    one_token = Life(5, 6, 7, 7, 1)
    assert one_token.tpot is None
    decoding = Life(5, 6, 7, None, 9)
    assert decoding.tpot is None
    assert gaps([7]) == []


@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=50))
def test_the_mean_gap_is_tpot_and_parts_add_up(times: list[int]) -> None:
    token_at = sorted(times)
    life = Life(0, token_at[0] // 2, token_at[0], token_at[-1], len(token_at))
    samples = gaps(token_at)
    assert life.tpot is not None
    assert life.queue_time is not None
    assert life.ttft is not None
    assert sum(samples) / len(samples) == life.tpot
    assert life.queue_time + (token_at[0] - token_at[0] // 2) == life.ttft
    assert life.ttft + sum(samples) == life.e2e


def test_an_objective_counts_only_where_its_metric_is_defined() -> None:
    slos = Slos(ttft=1000, tpot=99, e2e=1300)
    assert not is_good(FIXTURE_X, slos)
    assert is_good(FIXTURE_X, slos._replace(tpot=100))
    assert is_good(Life(0, 0, None, 10, 0), Slos(ttft=0, tpot=0, e2e=10))
    assert judge([FIXTURE_X, FIXTURE_X._replace(first_at=1100)], slos) == (0, 1, 1, 0)


def test_arrivals_count_before_starts_of_the_same_moment() -> None:
    lives = [Life(0, 0, None, None, 0), Life(0, 10, None, None, 0), Life(20, None, None, None, 0)]
    depth = queue_depth(lives, 30)
    assert depth.maximum == 2
    assert depth.average == (10 * 1 + 10 * 0 + 10 * 1) / 30
    assert queue_depth([], 30) == (0, None)
    assert queue_depth(lives[:1], 0) == (1, None)
