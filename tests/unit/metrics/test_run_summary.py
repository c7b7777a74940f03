import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.metrics.distribution import distribution
from arriero.metrics.goodput import Slos
from arriero.metrics.intervals import interval, over_runs, t_quantile
from arriero.metrics.latency import Life
from arriero.metrics.run_summary import run_summary
from arriero.metrics.served import Outcome, Served, ServedTally
from arriero.metrics.steps import StepTally
from arriero.metrics.window import Window, measured_window


def finished(arrival: int, token_at: list[int], *, prompt: int = 10, cached: int = 0) -> tuple[Served, list[int]]:
    life = Life(arrival, arrival, token_at[0], token_at[-1], len(token_at))
    return Served(life, Outcome.FINISHED, prompt, cached, was_looked_up=True, largest_gap=None), token_at


def unfinished(arrival: int, outcome: Outcome = Outcome.UNFINISHED) -> tuple[Served, list[int]]:
    return Served(Life(arrival, None, None, None, 0), outcome, 10, 0, was_looked_up=False, largest_gap=None), []


def tally(*requests: tuple[Served, list[int]], window: Window | None = None) -> ServedTally:
    found = ServedTally(window)
    for served, token_at in requests:
        found.add(served, token_at)
    return found


def steps() -> StepTally:
    found = StepTally(rows_allowed=8, kv_pool=10, tokens_per_place=4)
    found.step(30, rows=8, sequences=2, waiting=1, kv_held=5, kv_tokens=20)
    found.step(10, rows=2, sequences=2, waiting=0, kv_held=10, kv_tokens=30)
    found.idle(60)
    return found


def test_time_weighted_figures_by_hand() -> None:
    figures = steps().figures()
    assert (figures.num_steps, figures.num_idle, figures.busy_us, figures.idle_us) == (2, 1, 40, 60)
    assert figures.idle_fraction == 0.6
    assert figures.kv_utilization == (5 * 30 + 10 * 10) / (10 * 100)
    assert figures.kv_peak == 10
    assert figures.kv_fragmentation == (1000 - (20 * 30 + 30 * 10)) / 1000
    assert figures.batch_utilization == (8 * 30 + 2 * 10) / (8 * 40)
    assert (figures.mean_rows, figures.mean_sequences) == (5.0, 2.0)
    assert (figures.num_waiting_peak, figures.mean_waiting) == (1, 0.3)


def test_a_tally_without_steps_is_undefined_not_zero() -> None:
    figures = StepTally(rows_allowed=8, kv_pool=0).figures()
    assert figures.idle_fraction is None
    assert figures.kv_utilization is None
    assert figures.batch_utilization is None


def test_survivors_do_not_hide_those_who_never_finished() -> None:
    requests = tally(finished(0, [100, 200]), unfinished(0), unfinished(5, Outcome.REJECTED))
    summary = run_summary(requests, steps().figures(), makespan_us=1_000_000, slos=Slos(ttft=150))
    assert summary["whole_run"]["good_of_finished"] == 1.0
    assert summary["whole_run"]["good_of_submitted"] == 1 / 3
    assert summary["whole_run"]["requests_per_s"] == 1.0
    assert summary["whole_run"]["complete"] is False
    assert "2 of 3 requests did not finish" in summary["marks"][0]
    assert summary["latency"]["finished"]["ttft_us"]["p50"] == 100
    of_all = summary["latency"]["all"]["ttft_us"]
    assert (of_all["n"], of_all["censored"]) == (1, 2)
    assert of_all["p50"] == {"value": None, "reason": "the rank falls among censored requests"}
    assert of_all["mean"]["value"] is None


def test_planned_cancellations_are_in_no_latency_table() -> None:
    requests = tally(finished(0, [100, 200]), unfinished(0, Outcome.CANCELLED))
    summary = run_summary(requests, steps().figures(), makespan_us=1_000, slos=Slos())
    assert summary["latency"]["all"]["ttft_us"]["censored"] == 0
    assert summary["counts"]["cancelled"] == 1
    assert summary["marks"] == []


def test_undefined_is_null_with_a_reason() -> None:
    summary = run_summary(ServedTally(), StepTally(8, 0).figures(), makespan_us=0, slos=Slos())
    assert summary["whole_run"]["requests_per_s"] == {"value": None, "reason": "no time passed"}
    assert summary["whole_run"]["good_of_submitted"]["reason"] == "no requests"
    assert summary["prefix_cache"]["token_hit_rate"]["value"] is None
    assert summary["latency"]["itl_us_token_weighted"]["p50"]["reason"] == "no request has two tokens"
    assert summary["window"] is None


def test_gaps_count_by_token_or_by_request() -> None:
    requests = tally(finished(0, [0, 10]), finished(0, [0, 1, 2, 3, 4, 5, 6, 7, 8]))
    assert requests.gaps.pooled == {10: 1, 1: 8}
    assert requests.gaps.shared == {10: 1.0, 1: 1.0}
    assert [each.largest_gap for each in requests.requests] == [10, 1]


def test_the_largest_gap_is_an_objective_of_its_own() -> None:
    requests = tally(finished(0, [10, 500]), finished(0, [10, 20]))
    summary = run_summary(requests, steps().figures(), makespan_us=1_000, slos=Slos(), largest_gap_slo=100)
    assert summary["whole_run"]["good_requests"] == 1


def test_a_window_counts_tokens_whatever_becomes_of_their_request() -> None:
    window = measured_window(0, 1_000, 100, 200)
    assert window == Window(100, 800)
    requests = tally(finished(0, [90, 100, 200]), finished(150, [300, 900]), finished(900, [950]), window=window)
    summary = run_summary(requests, steps().figures(), makespan_us=1_000, slos=Slos())["window"]
    assert summary["output_tokens_per_s"] == 3 / 0.0007
    assert summary["requests_per_s"] == 1 / 0.0007
    assert summary["offered_per_s"] == 1 / 0.0007
    assert summary["good_of_submitted"] == 1.0


def test_hit_rates_of_requests_and_of_tokens() -> None:
    requests = tally(finished(0, [5, 6], prompt=10, cached=8), finished(0, [5, 6], prompt=30))
    found = run_summary(requests, steps().figures(), makespan_us=1_000, slos=Slos())["prefix_cache"]
    assert (found["request_hit_rate"], found["token_hit_rate"]) == (0.5, 0.2)


def test_no_p99_below_a_hundred_samples() -> None:
    assert distribution(range(99))["p99"]["value"] is None
    assert distribution(range(100))["p99"] == 98
    assert distribution(range(99))["max"] == 98


@given(st.lists(st.integers(0, 100), min_size=1, max_size=200), st.integers(0, 50))
def test_censored_requests_count_as_larger_than_every_sample(samples: list[int], num_censored: int) -> None:
    shown = distribution(samples, num_censored=num_censored)["p50"]
    padded = sorted([*samples, *[10**9] * num_censored])
    rank = padded[max(1, -(-len(padded) // 2)) - 1]
    assert (shown if isinstance(shown, int) else None) == (rank if rank < 10**9 else None)


def test_quantiles_of_students_t_are_those_of_tables() -> None:
    for freedom, expected in ((1, 12.7062), (2, 4.3027), (4, 2.7764), (9, 2.2622), (30, 2.0423)):
        assert t_quantile(0.975, freedom) == pytest.approx(expected, abs=5e-5)
    assert t_quantile(0.95, 5) == pytest.approx(2.0150, abs=5e-5)


def test_an_interval_of_several_seeds() -> None:
    found = interval([10.0, 12.0, 14.0])
    assert found.mean == 12.0
    assert found.half_width == pytest.approx(4.302653 * 2 / 3**0.5, abs=1e-5)
    assert interval([3.0]).half_width is None
    merged = over_runs([{"a": 1, "b": {"c": 2.0}, "ok": True}, {"a": 3, "b": {"c": {"value": None, "reason": "x"}}}])
    assert merged["a"]["mean"] == 2.0
    assert merged["b.c"] == {"mean": 2.0, "half_width": None, "num_runs": 1}
    assert "ok" not in merged
