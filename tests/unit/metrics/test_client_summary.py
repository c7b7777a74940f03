import math
from dataclasses import asdict, replace

import pytest

from arriero.metrics.client_distribution import Pool, describe
from arriero.metrics.client_figures import INFINITE, ClientSlos, ClientSummary
from arriero.metrics.client_life import ClientLife, Outcome
from arriero.metrics.client_summary import remake, summarise
from arriero.metrics.client_window import ClientWindow, client_window
from arriero.metrics.definitions import DEFINITIONS, PercentileRule, Samples
from tests.unit.metrics.client_lives import Y, closed_loop, failed, life, ns, steady


def hundred() -> list[ClientLife]:
    """A request each 0.1 s; request k waits (k + 1) ms for its first token, then 9 ms for each of 4 more."""
    return [steady(f"r{k}", k / 10, wait=(k + 1) / 1000, gap=0.009) for k in range(100)]


# ── distributions ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_to_ten_by_either_rule() -> None:
    nearest = describe(range(1, 11))
    linear = describe(range(1, 11), rule=PercentileRule.LINEAR)
    assert (nearest.p50, nearest.p90, nearest.max, nearest.mean, nearest.min) == (5, 9, 10, 5.5, 1)
    assert (linear.p50, linear.p90) == (5.5, 9.1)
    assert linear.p95 == pytest.approx(9.55)


def test_no_p99_below_a_hundred_and_no_p99_9_below_a_thousand() -> None:
    few, hundred_samples, many = describe(range(99)), describe(range(100)), describe(range(1000))
    assert few.p99 is None
    assert few.reasons == {
        "p99": "fewer than 100 samples: see max",
        "p99_9": "fewer than 1000 samples: see max",
    }
    assert (hundred_samples.p99, hundred_samples.p99_9) == (98, None)
    assert (many.p99, many.p99_9, many.reasons) == (989, 998, {})


def test_without_samples_all_is_null_with_a_reason() -> None:
    nothing = describe([])
    assert [nothing.mean, nothing.min, nothing.p50, nothing.max] == [None] * 4
    assert set(nothing.reasons.values()) == {"no request has it"}


def test_failures_are_larger_than_every_sample() -> None:
    found = describe([1.0, 2.0, 3.0], num_infinite=1)
    assert (found.p50, found.p90, found.max, found.mean) == (2.0, None, None, None)
    assert (found.n, found.num_infinite) == (3, 1)
    assert all(found.is_infinite(name) for name in ("p90", "p95", "max", "mean"))
    assert not found.is_infinite("p50")
    assert not found.is_infinite("p99")  # unknown, which is another thing
    only = describe([], num_infinite=2)
    assert (only.min, only.is_infinite("min"), only.is_infinite("p50")) == (None, True, True)


def test_heavier_values_pull_percentiles_and_mean() -> None:
    pool = Pool()
    pool.add(Samples((1.0,), 1))
    pool.add(Samples((9.0,), 8))
    pool.add(Samples((2.0,), 1))
    found = pool.describe(PercentileRule.NEAREST_RANK)
    assert (found.p50, found.n, found.mean) == (9.0, 3, 7.5)


def test_the_mean_is_that_of_exact_sums() -> None:
    assert describe([1e16, 1.0, -1e16]).mean == 1 / 3


# ── tables ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_hundred_requests_by_hand() -> None:
    summary = summarise(hundred())
    table = summary.latency.finished
    assert table.ttft_ns is not None
    assert table.itl_ns is not None
    assert table.tpot_ns is not None
    assert table.e2e_ns is not None
    assert (table.ttft_ns.p50, table.ttft_ns.p99, table.ttft_ns.max) == (ns(0.050), ns(0.099), ns(0.100))
    assert (table.itl_ns.n, table.itl_ns.p50) == (400, ns(0.009))
    assert (table.tpot_ns.mean, table.e2e_ns.p50) == (ns(0.009), ns(0.086))
    assert summary.latency.all == table
    assert (summary.definitions, summary.loop) == ("arriero", "open")


def test_failures_count_as_infinity_in_the_second_table_only() -> None:
    lives = [*hundred()[:95], *(failed(f"f{k}", 9.5 + k / 10, outcome) for k, outcome in enumerate(_FAILURES))]
    summary = summarise(lives)
    finished, everybody = summary.latency.finished.ttft_ns, summary.latency.all
    assert finished is not None
    assert (finished.n, finished.num_infinite, finished.is_infinite("max")) == (95, 0, False)
    assert everybody is not None
    for name in ("ttft_ns", "tpot_ns", "e2e_ns", "itl_max_ns", "service_ttft_ns", "service_e2e_ns"):
        table = getattr(everybody, name)
        assert (table.n, table.num_infinite) == (95, 5)
        assert table.p95 is not None
        assert table.is_infinite("p99")
        assert table.reasons["max"] == INFINITE


_FAILURES = (
    Outcome.ERROR,
    Outcome.REJECTED,
    Outcome.TIMEOUT,
    Outcome.CANCELLED_BY_SERVER,
    Outcome.NOT_SENT,
)


def test_a_planned_cancel_is_in_neither_table() -> None:
    cancelled = steady("c", 1.0, wait=99.0, outcome=Outcome.CANCELLED_BY_CLIENT)
    summary = summarise([steady("r", 0.0), cancelled, steady("s", 2.0)])
    assert summary.latency.all == summary.latency.finished
    assert summary.latency.finished.ttft_ns is not None
    assert summary.latency.finished.ttft_ns.n == 2
    assert (summary.counts.submitted, summary.counts.finished, summary.counts.cancelled) == (3, 2, 1)


def test_a_failed_request_shows_the_gaps_it_had_and_one_that_never_ended() -> None:
    broken = steady("b", 1.0, tokens=3, gap=0.5, outcome=Outcome.ERROR, error="connection_closed")
    summary = summarise([steady("r", 0.0, tokens=2, gap=0.02), broken])
    assert summary.latency.all is not None
    assert summary.latency.all.itl_ns is not None
    assert (summary.latency.all.itl_ns.n, summary.latency.all.itl_ns.num_infinite) == (3, 1)
    assert summary.latency.finished.itl_ns is not None
    assert summary.latency.finished.itl_ns.n == 1


def test_undefined_adds_no_sample_and_is_counted() -> None:
    single = life("s", chunks=[(0.3, 1)], closed=0.3)
    table = summarise([single, steady("r", 1.0)]).latency.finished
    assert table.tpot_ns is not None
    assert table.ttft_ns is not None
    assert (table.tpot_ns.n, table.tpot_ns.num_undefined) == (1, 1)
    assert (table.ttft_ns.n, table.ttft_ns.num_undefined) == (2, 0)


def test_other_definitions_show_what_their_tool_shows() -> None:
    lives = [steady(f"r{k}", float(k)) for k in range(4)]
    views = {name: summarise(lives, definitions=words) for name, words in DEFINITIONS.items()}
    assert views["vllm"].latency.all is None
    assert views["aiperf"].latency.all is not None
    assert views["aiperf"].latency.finished.tpot_ns is None
    assert views["llmperf"].attainment is None
    assert views["llmperf"].window.reasons["good_requests_per_s"] == "llmperf of December 2024 has no goodput"
    assert views["inference-perf"].latency.finished.normalised_ns is not None
    assert views["vllm"].send_lag_ns is None
    assert views["guidellm"].latency.finished.service_ttft_ns is None


def test_linear_percentiles_in_the_views_of_tools_that_take_them() -> None:
    lives = [steady(f"r{k}", float(k), wait=0.1 * (k + 1)) for k in range(2)]
    found = {name: summarise(lives, definitions=words).latency.finished.ttft_ns for name, words in DEFINITIONS.items()}
    medians = {name: None if each is None else each.p50 for name, each in found.items()}
    assert medians["arriero"] == medians["guidellm"] == ns(0.1)
    assert medians["vllm"] == medians["aiperf"] == medians["inference-perf"] == medians["llmperf"] == ns(0.15)


def test_aiperf_shows_lag_against_the_least_late_request() -> None:
    lives = [steady("a", 0.0, sent=0.3), steady("b", 1.0, sent=1.5)]
    ours = summarise(lives).send_lag_ns
    theirs = summarise(lives, definitions=DEFINITIONS["aiperf"]).send_lag_ns
    assert ours is not None
    assert theirs is not None
    assert (ours.min, ours.max) == (ns(0.3), ns(0.5))
    assert (theirs.min, theirs.max) == (0, ns(0.2))


# ── counts, lengths, connections ────────────────────────────────────────────────────────────────────────────────────


def test_nothing_is_dropped() -> None:
    lives = [
        steady("a", 0.0, is_warm_up=True),
        steady("b", 1.0),
        failed("c", 2.0, Outcome.REJECTED, status=503, error="http_503"),
        failed("d", 3.0, Outcome.REJECTED, status=429, error="http_429"),
        failed("e", 4.0, error="connection_refused"),
        life("f", intended=9.0, sent=None, outcome=Outcome.NOT_SENT, num_tokens=None),
    ]
    counts = summarise(lives, window=client_window(lives, stops_at=ns(5))).counts
    assert (counts.intended, counts.warm_up, counts.not_due, counts.submitted, counts.finished) == (5, 1, 1, 4, 1)
    assert sum(counts.by_outcome.values()) == counts.intended
    assert set(counts.by_outcome) == {outcome.value for outcome in Outcome}
    assert counts.by_error == {"connection_refused": 1, "http_429": 1, "http_503": 1}
    assert counts.by_status == {"429": 1, "503": 1}


def test_chunks_are_shown_beside_tokens_when_they_carry_several() -> None:
    lengths = summarise([Y]).lengths
    assert (lengths.tokens_per_chunk, lengths.shows_chunks) == (4 / 3, True)
    assert not summarise([steady("r", 0.0)]).lengths.shows_chunks
    assert summarise([failed("f", 0.0)]).lengths.tokens_per_chunk is None


def test_lengths_that_differ_are_counted() -> None:
    lives = [
        steady("a", 0.0, num_tokens=9, asked_tokens=9),  # five chunks of one token each
        steady("b", 1.0, asked_tokens=8, outcome=Outcome.STOP),
        steady("c", 2.0, num_tokens=None, asked_tokens=5, prompt_tokens=11, asked_prompt_tokens=10),
        steady("d", 3.0, asked_tokens=5, prompt_tokens=10, asked_prompt_tokens=10),
    ]
    lengths = summarise(lives).lengths
    assert (lengths.sums_differ, lengths.without_usage) == (1, 1)
    assert (lengths.other_output, lengths.other_output_share, lengths.other_prompt) == (1, 0.25, 1)


def test_new_and_reused_connections_are_told_apart() -> None:
    lives = [steady("a", 0.0, connect_ns=300), steady("b", 1.0), steady("c", 2.0, connect_ns=500)]
    connections = summarise(lives).connections
    assert (connections.opened, connections.reused, connections.connect_ns.max) == (2, 1, 500)


# ── rates and goodput ───────────────────────────────────────────────────────────────────────────────────────────────


def five_in_ten_seconds() -> tuple[list[ClientLife], ClientWindow]:
    """Arrivals at 0, 2, 4, 6, 8 s; 5 tokens each from 0.1 s on, 20 ms apart; W = [1 s, 7 s]."""
    lives = [steady(f"r{k}", 2.0 * k, prompt_tokens=100, cached_tokens=25) for k in range(5)]
    return lives, ClientWindow(starts_at=0, stops_at=ns(10), warm_up_ns=ns(1), cool_down_ns=ns(3))


def test_rates_over_the_window_and_over_the_whole_run() -> None:
    lives, frame = five_in_ten_seconds()
    summary = summarise(lives, window=frame, slos=ClientSlos(ttft_ns=ns(0.2)))
    window = summary.window
    assert (window.begins_at, window.ends_at) == (ns(1), ns(7))
    assert (window.offered_per_s, window.requests_per_s, window.output_tokens_per_s) == (0.5, 0.5, 2.5)
    assert (window.prompt_tokens_per_s, window.prompt_computed_per_s, window.prompt_cached_per_s) == (50, 37.5, 12.5)
    assert (window.good_requests_per_s, window.good_tokens_per_s) == (0.5, 2.5)
    whole = summary.whole_run
    assert (whole.begins_at, whole.ends_at) == (0, ns(8.18))
    assert whole.requests_per_s == 5 / 8.18
    assert whole.output_tokens_per_s == 25 / 8.18
    assert (summary.warm_up_ns, summary.cool_down_ns) == (ns(1), ns(3))
    assert summary.counts.submitted == 3


def test_tokens_in_the_window_count_whatever_becomes_of_their_request() -> None:
    frame = ClientWindow(starts_at=0, stops_at=ns(10))
    broken = steady("b", 1.0, tokens=4, outcome=Outcome.ERROR)
    halfway = steady("h", 9.9, wait=0.06, gap=0.04, tokens=3)  # tokens at 9.96, 10.00, 10.04
    window = summarise([broken, halfway], window=frame).window
    assert window.output_tokens_per_s == 0.6
    assert window.requests_per_s == 0.0  # it ends after the window
    vllm = summarise([broken, halfway], window=frame, definitions=DEFINITIONS["vllm"]).window
    assert vllm.output_tokens_per_s == 3 / (10.04 - 1.0)


def test_what_the_server_does_not_say_is_not_guessed() -> None:
    lives, frame = five_in_ten_seconds()
    silent = [replace(each, cached_tokens=None, prompt_tokens=None) for each in lives]
    window = summarise(silent, window=frame).window
    assert (window.prompt_tokens_per_s, window.prompt_cached_per_s, window.prompt_computed_per_s) == (None, None, None)
    assert window.reasons["prompt_cached_per_s"].startswith("3 of 3 requests")
    known = [replace(each, asked_prompt_tokens=60) for each in silent]
    assert summarise(known, window=frame).window.prompt_tokens_per_s == 30


def test_goodput_and_attainment_over_submitted_and_over_finished() -> None:
    lives = [
        steady("good", 1.0),
        steady("late", 2.0, wait=0.5),
        steady("slow", 3.0, gap=0.2),
        steady("stall", 4.0, tokens=2, gap=0.09),
        failed("f", 5.0),
        failed("q", 6.0, Outcome.REJECTED, status=503),
        life("single", intended=7.0, sent=7.0, chunks=[(7.1, 1)], closed=7.1),
    ]
    slos = ClientSlos(ttft_ns=ns(0.2), tpot_ns=ns(0.1), e2e_ns=ns(1), largest_gap_ns=ns(0.05))
    summary = summarise(lives, window=ClientWindow(starts_at=0, stops_at=ns(10)), slos=slos)
    found = summary.attainment
    assert found is not None
    assert (found.good, found.of_submitted, found.of_finished, found.served_fraction) == (2, 2 / 7, 2 / 5, 5 / 7)
    assert found.misses == {"largest_gap_ns": 2, "tpot_ns": 1, "ttft_ns": 1}
    assert (summary.window.good_requests_per_s, summary.window.good_tokens_per_s) == (0.2, 0.6)


def test_without_objectives_goodput_says_so() -> None:
    summary = summarise([steady("r", 1.0)])
    assert summary.attainment is None
    assert summary.window.reasons["good_requests_per_s"] == "no objectives were set"


def test_the_shares_of_a_run_without_requests_have_reasons() -> None:
    summary = summarise([], slos=ClientSlos(ttft_ns=1))
    assert summary.attainment is not None
    assert summary.attainment.of_submitted is None
    assert summary.attainment.reasons == {
        "of_finished": "no request that ended normally",
        "of_submitted": "no request in the window",
        "served_fraction": "no request in the window",
    }
    assert summary.window.reasons["requests_per_s"] == "the window is empty"


def test_a_closed_loop_is_labelled_and_counts_sends() -> None:
    summary = summarise(closed_loop([steady("a", 0.0), steady("b", 1.0), steady("c", 2.0)]))
    assert (summary.loop, summary.send_lag_ns, summary.window.offered_per_s) == ("closed", None, 1.5)
    some = [*closed_loop([steady("a", 0.0)]), steady("b", 1.0)]
    assert summarise(some).loop == "mixed"


def test_the_window_leaves_out_ramp_and_drain() -> None:
    lives, frame = five_in_ten_seconds()
    slow_start = replace(lives[0], chunk_at=tuple(at + ns(5) for at in lives[0].chunk_at), closed_at=ns(5.18))
    summary = summarise([slow_start, *lives[1:]], window=frame)
    assert summary.latency.finished.ttft_ns is not None
    assert summary.latency.finished.ttft_ns.max == ns(0.1)
    assert summary.window.requests_per_s == 4 / 6  # its end lies in the window, its arrival does not


def test_a_summary_can_be_made_again_from_the_log() -> None:
    lives, frame = five_in_ten_seconds()
    slos = ClientSlos(ttft_ns=ns(0.2))
    first = summarise(lives, window=frame, slos=slos)
    assert remake(first, lives) == first
    for words in DEFINITIONS.values():
        assert remake(first, lives, words) == summarise(lives, window=frame, slos=slos, definitions=words)


def test_every_figure_that_is_missing_has_a_reason() -> None:
    summary = summarise([failed("f", 0.0), steady("r", 1.0)], slos=ClientSlos())

    def check(values: object) -> None:
        if isinstance(values, dict):
            for name, value in values.items():
                if value is None and "reasons" in values:
                    assert values["reasons"][name]
                check(value)

    check({name: value for name, value in asdict(summary).items() if name != "attainment"})


def test_a_summary_holds_no_infinity_and_no_nan() -> None:
    def check(values: object) -> None:
        if isinstance(values, dict):
            for value in values.values():
                check(value)
        elif isinstance(values, float):
            assert math.isfinite(values)

    summary: ClientSummary = summarise([failed("f", 0.0), failed("g", 1.0)])
    check(asdict(summary))
