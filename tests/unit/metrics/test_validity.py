import pytest

from arriero.metrics.client_life import ClientLife, Outcome
from arriero.metrics.client_window import ClientWindow
from arriero.metrics.validity import BusyProcess, Flag, Level, Validity, ValidityLimits, judge_validity, worst
from tests.unit.metrics.client_lives import closed_loop, failed, life, ns, steady


def late(lag: float, *, count: int = 200, rate: float = 20.0, wait: float = 0.1) -> list[ClientLife]:
    """Requests that all leave `lag` seconds late, and whose service TTFT is `wait`."""
    return [steady(f"r{k}", k / rate, sent=k / rate + lag, wait=wait + lag) for k in range(count)]


def test_f1_a_generator_that_sends_a_tenth_of_the_rate_is_invalid() -> None:
    lives = [steady(f"r{k}", k / 2000, sent=k / 200, wait=k / 200 - k / 2000 + 0.0005) for k in range(2000)]
    found = judge_validity(lives)
    assert found.flag is Flag.INVALID
    assert found.achieved == pytest.approx(0.1, abs=0.002)
    assert (found.lag_p50_ns, found.lag_max_ns) == (ns(999 / 200 - 999 / 2000), ns(1999 / 200 - 1999 / 2000))
    lag, pace = found.reasons
    assert lag == "requests left late: p99 of send lag 8,905.5 ms, more than 20.0 ms"
    assert pace.startswith("the generator fell behind: 204 of 2000 requests were sent in time (10.2% of the intended")


def test_a_punctual_run_is_valid_and_says_nothing() -> None:
    found = judge_validity(late(0.004), longest_block_ns=ns(0.1))
    assert (found.flag, found.reasons) == (Flag.VALID, ())
    assert (found.lag_limit_ns, found.median_service_ttft_ns, found.achieved) == (5e6, ns(0.1), 1.0)


@pytest.mark.parametrize(
    ("lag", "wait", "flag"),
    [
        (0.005, 0.01, Flag.VALID),
        (0.0051, 0.01, Flag.DEGRADED),
        (0.0051, 0.2, Flag.VALID),  # 5 % of 200 ms
        (0.02, 0.01, Flag.DEGRADED),
        (0.0201, 0.01, Flag.INVALID),
        (0.039, 0.2, Flag.DEGRADED),  # 20 % of 200 ms
        (0.041, 0.2, Flag.INVALID),
    ],
)
def test_lag_is_judged_against_the_servers_own_speed(lag: float, wait: float, flag: Flag) -> None:
    assert judge_validity(late(lag, wait=wait)).flag is flag


@pytest.mark.parametrize(
    ("unsent", "flag"), [(2, Flag.VALID), (3, Flag.DEGRADED), (10, Flag.DEGRADED), (11, Flag.INVALID)]
)
def test_the_rate_has_to_be_achieved(unsent: int, flag: Flag) -> None:
    lives = late(0.0)
    missing = [life(f"u{k}", intended=k / 20, sent=None, outcome=Outcome.NOT_SENT) for k in range(unsent)]
    assert judge_validity([*lives[unsent:], *missing]).flag is flag


def test_a_constant_lag_within_the_limit_does_not_lower_the_rate() -> None:
    few = late(0.004, count=3)  # the last one leaves after the end of the window
    assert judge_validity(few).achieved == 1.0


def test_a_blocked_loop_is_invalid_whatever_else() -> None:
    found = judge_validity(late(0.0), longest_block_ns=ns(0.1) + 1)
    assert found.flag is Flag.INVALID
    assert found.reasons == ("the generator's event loop was blocked for 100.0 ms, more than 100.0 ms",)


def test_beside_a_busy_process_a_run_is_at_most_degraded() -> None:
    others = [BusyProcess(name="sleepy", cores=0.05), BusyProcess(name="compiler", cores=0.9)]
    found = judge_validity(late(0.0), neighbours=others)
    assert found.flag is Flag.DEGRADED
    assert found.reasons[0].startswith(
        "other processes kept 0.95 cores busy, more than 0.25 (compiler 0.90, sleepy 0.05)"
    )
    assert [each.name for each in found.neighbours] == ["compiler", "sleepy"]
    assert judge_validity(late(0.5), neighbours=others).flag is Flag.INVALID
    assert judge_validity(late(0.0), neighbours=others[:1]).flag is Flag.VALID


def test_an_interrupted_run_is_at_most_degraded() -> None:
    found = judge_validity(late(0.0), was_interrupted=True)
    assert (found.flag, len(found.reasons)) == (Flag.DEGRADED, 1)


def test_without_a_request_nothing_is_valid() -> None:
    warm = steady("w", 0.0, is_warm_up=True)
    for lives in ([], [warm], [life("n", sent=None, outcome=Outcome.NOT_SENT)]):
        found = judge_validity(lives)
        assert (found.flag, found.reasons) == (Flag.INVALID, ("no request was sent in the window",))


def test_a_closed_loop_has_no_lag_to_judge() -> None:
    found = judge_validity(closed_loop(late(3.0)))
    assert (found.flag, found.lag_p99_ns, found.achieved, found.intended) == (Flag.VALID, None, None, None)
    assert judge_validity(closed_loop(late(0.0)), longest_block_ns=ns(1)).flag is Flag.INVALID


def test_only_the_window_is_judged() -> None:
    lives = [*late(0.0), steady("slow", 0.01, sent=9.0, wait=9.1)]
    assert judge_validity(lives).flag is Flag.VALID  # one in 201
    frame = ClientWindow(starts_at=0, stops_at=ns(0.06))
    assert judge_validity(lives, window=frame).flag is Flag.INVALID


def test_failures_do_not_hide_lag() -> None:
    lives = [failed(f"f{k}", k / 20, sent=k / 20 + 0.1) for k in range(100)]
    found = judge_validity(lives)
    assert (found.flag, found.median_service_ttft_ns) == (Flag.INVALID, None)


def connecting(took: float, *, late: float = 0.001, wait: float = 0.1, count: int = 100) -> list[ClientLife]:
    """Requests that leave `late` seconds late on connections of their own, each of which took so long to open."""
    lag = took + late
    return [steady(f"r{k}", k / 20, sent=k / 20 + lag, wait=wait + lag, connect_ns=ns(took)) for k in range(count)]


def test_lag_is_actual_minus_intended_send_whatever_it_was_spent_on() -> None:
    found = judge_validity(connecting(0.003))
    assert (found.flag, found.num_lags) == (Flag.VALID, 100)
    assert found.lag_p99_ns == found.lag_max_ns == pytest.approx(ns(0.004))
    slower = judge_validity(connecting(0.008))
    assert slower.flag is Flag.DEGRADED
    assert slower.lag_p99_ns == pytest.approx(ns(0.009))
    assert slower.reasons == ("requests left late: p99 of send lag 9.0 ms, more than 5.0 ms",)


def test_a_lag_that_only_connecting_makes_too_long_is_degraded_and_not_invalid() -> None:
    found = judge_validity(connecting(0.299))
    assert found.flag is Flag.DEGRADED
    assert found.lag_p99_ns == pytest.approx(ns(0.3))
    late, pace, excuse = found.reasons
    assert late == "requests left late: p99 of send lag 300.0 ms, more than 20.0 ms"
    assert pace.startswith("the generator fell behind: 94 of 100 requests were sent in time")
    assert excuse == "connecting took that long: without it p99 of send lag 1.0 ms"


@pytest.mark.parametrize(("late", "flag"), [(0.02, Flag.DEGRADED), (0.0201, Flag.INVALID)])
def test_connecting_excuses_no_lag_of_the_generators_own(late: float, flag: Flag) -> None:
    found = judge_validity(connecting(0.3, late=late, wait=0.01))
    assert found.flag is flag
    assert any("connecting" in reason for reason in found.reasons) is (flag is Flag.DEGRADED)


def test_connecting_excuses_no_blocked_loop() -> None:
    assert judge_validity(connecting(0.299), longest_block_ns=ns(0.2)).flag is Flag.INVALID


def test_a_server_that_refuses_connections_is_no_fault_of_the_generator() -> None:
    dead = [failed(f"f{k}", k / 20, sent=None, error="connection_refused") for k in range(100)]
    found = judge_validity(dead)
    assert (found.flag, found.achieved, found.lag_p99_ns, found.num_lags) == (Flag.VALID, 1.0, None, 0)


def test_of_few_requests_the_longest_lag_is_judged_and_called_so() -> None:
    found = judge_validity(late(0.3, count=99))
    assert (found.num_lags, found.lag_p99_ns) == (99, found.lag_max_ns)
    assert found.reasons[0] == "requests left late: longest send lag 300.0 ms (n = 99), more than 20.0 ms"


def test_the_limits_can_be_changed_and_are_in_the_result() -> None:
    lax = ValidityLimits(valid=Level(lag_ns=ns(1), lag_share=0, achieved=0.5), blocked_ns=ns(9))
    found = judge_validity(late(0.5), longest_block_ns=ns(2), limits=lax)
    assert (found.flag, found.limits, found.lag_limit_ns) == (Flag.VALID, lax, ns(1))


def test_the_worst_of_several() -> None:
    def flagged(lag: float) -> Validity:
        return judge_validity(late(lag))

    good, middling, bad = flagged(0.0), flagged(0.01), flagged(1.0)
    assert worst([good, bad, middling]) is bad
    assert worst([good, middling]) is middling
    assert worst([good]) is good
