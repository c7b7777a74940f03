import pytest

from arriero.metrics import client_latency as of
from arriero.metrics.client_life import Outcome
from arriero.metrics.client_window import client_window, counted_from, whole_run
from arriero.metrics.window import Window
from tests.unit.metrics.client_lives import X, Y, failed, life, ns


def test_tokens_of_one_chunk_arrive_together() -> None:
    assert of.token_at(Y) == [ns(1.05), ns(1.25), ns(1.25), ns(1.35)]
    assert of.itl_samples(Y) == [ns(0.2), 0, ns(0.1)]
    assert of.icl_samples(Y) == [ns(0.2), ns(0.1)]
    assert of.largest_gap(Y) == ns(0.2)


def test_latency_counts_from_the_intended_send_and_service_latency_from_the_actual_one() -> None:
    assert (of.ttft(Y), of.service_ttft(Y)) == (ns(1.05), ns(1.0))
    assert (of.e2e(Y), of.service_e2e(Y)) == (ns(1.35), ns(1.3))
    assert (of.send_lag(Y), of.closing_time(Y)) == (ns(0.05), ns(0.01))


def test_a_closed_loop_counts_from_the_send_and_has_no_lag() -> None:
    answer = life(intended=None, sent=2.0, chunks=[(2.5, 1)], closed=2.6)
    assert (of.ttft(answer), of.e2e(answer), of.send_lag(answer)) == (ns(0.5), ns(0.5), None)


def test_without_a_token_only_the_end_is_defined() -> None:
    empty = life(closed=0.4, outcome=Outcome.STOP)
    undefined = [of.ttft, of.service_ttft, of.tpot, of.largest_gap, of.closing_time, of.first_at, of.last_at]
    assert [formula(empty) for formula in undefined] == [None] * len(undefined)
    assert (of.itl_samples(empty), of.icl_samples(empty)) == ([], [])
    assert (of.e2e(empty), of.service_e2e(empty)) == (ns(0.4), ns(0.4))


def test_one_token_has_no_tpot_and_no_gap() -> None:
    single = life(chunks=[(0.3, 1)], closed=0.3)
    assert (of.ttft(single), of.tpot(single), of.largest_gap(single), of.itl_samples(single)) == (
        ns(0.3),
        None,
        None,
        [],
    )


def test_a_request_that_was_never_sent_has_no_latency_at_all() -> None:
    never = life(sent=None, outcome=Outcome.NOT_SENT, num_tokens=None)
    formulas = [of.ttft, of.service_ttft, of.e2e, of.service_e2e, of.send_lag, of.tpot]
    assert [formula(never) for formula in formulas] == [None] * len(formulas)


def test_the_servers_count_divides_and_the_chunks_are_marked() -> None:
    lying = life(chunks=[(1.0, 1), (1.4, 1)], closed=1.4, num_tokens=5)
    assert of.sums_differ(lying)
    assert of.num_tokens(lying) == 5
    assert of.tpot(lying) == ns(0.4) / 4
    assert of.itl_samples(lying) == [ns(0.4)]
    assert not of.sums_differ(X)
    silent = life(chunks=[(1.0, 1), (1.4, 2)], closed=1.4, num_tokens=None)
    assert (of.num_tokens(silent), of.sums_differ(silent)) == (3, False)


def test_a_chunk_without_a_token_is_a_chunk_and_no_token() -> None:
    odd = life(chunks=[(1.0, 0), (1.1, 1), (1.2, 1), (1.3, 0)], closed=1.3)
    assert (of.first_at(odd), of.last_at(odd)) == (ns(1.1), ns(1.2))
    assert len(of.icl_samples(odd)) == 3


def test_the_window_lies_between_warm_up_and_cool_down() -> None:
    lives = [life(str(at), intended=at, sent=at, closed=at + 5) for at in (1.0, 2.0, 3.0, 4.0)]
    frame = client_window(lives, warm_up_ns=ns(0.5), cool_down_ns=ns(1.0))
    assert frame.measured == Window(ns(1.5), ns(3.0))
    assert [frame.holds(each) for each in lives] == [False, True, True, False]
    assert whole_run(lives) == Window(ns(1.0), ns(9.0))


def test_the_schedules_own_ends_replace_first_and_last_arrival() -> None:
    frame = client_window([life(intended=1.0, sent=1.0)], starts_at=0, stops_at=ns(10))
    assert frame.measured == Window(0, ns(10))


def test_declared_warm_up_is_in_no_window() -> None:
    warm = life(intended=1.0, sent=1.0, closed=1.1, is_warm_up=True)
    assert not client_window([warm], starts_at=0, stops_at=ns(5)).holds(warm)
    assert client_window([warm]).measured == Window(0, 0)
    assert whole_run([warm]) == Window(0, 0)


def test_what_was_intended_after_the_stop_was_never_due() -> None:
    frame = client_window([], starts_at=0, stops_at=ns(3))
    late, early = (life(intended=at, sent=None, outcome=Outcome.NOT_SENT) for at in (4.0, 2.0))
    in_closed_loop = life(intended=None, sent=None, outcome=Outcome.NOT_SENT)
    assert [frame.was_due(each) for each in (late, early, in_closed_loop, failed("f", 9.0))] == [
        False,
        True,
        False,
        True,
    ]


def test_another_origin_moves_moments_and_no_duration() -> None:
    moved = counted_from(Y, ns(-7))
    assert moved.intended_at == ns(7)
    assert moved.sent_at == ns(7.05)
    assert [of.ttft(moved), of.e2e(moved), of.itl_samples(moved)] == [of.ttft(Y), of.e2e(Y), of.itl_samples(Y)]
    assert counted_from(moved, ns(7)) == Y
    never = life(sent=None, outcome=Outcome.NOT_SENT)
    assert counted_from(never, ns(1)).sent_at is None


@pytest.mark.parametrize("outcome", list(Outcome))
def test_three_outcomes_are_normal(outcome: Outcome) -> None:
    assert outcome.is_normal == (outcome in {Outcome.STOP, Outcome.LENGTH, Outcome.TOOL_CALLS})
