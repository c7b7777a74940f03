"""What holds for the figures of any run that a client could have seen."""

import math
from dataclasses import fields, replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.metrics import client_latency as of
from arriero.metrics.client_distribution import describe
from arriero.metrics.client_figures import ClientSlos, Distribution, LatencyTable
from arriero.metrics.client_life import ClientLife, Outcome
from arriero.metrics.client_summary import remake, summarise
from arriero.metrics.client_window import client_window, counted_from
from arriero.metrics.definitions import DEFINITIONS
from arriero.metrics.quantiles import percentiles
from arriero.metrics.validity import Flag, judge_validity
from tests.property.client_runs import MS, lives, runs

NORMAL = st.sampled_from([outcome for outcome in Outcome if outcome.is_normal])
SLOS = st.builds(
    ClientSlos,
    ttft_ns=st.none() | st.integers(0, 500 * MS),
    tpot_ns=st.none() | st.integers(0, 200 * MS),
    e2e_ns=st.none() | st.integers(0, 1_500 * MS),
    largest_gap_ns=st.none() | st.integers(0, 300 * MS),
)


@given(lives(outcomes=NORMAL))
def test_the_mean_of_a_requests_gaps_is_its_tpot(life: ClientLife) -> None:
    agreed = replace(life, num_tokens=sum(life.chunk_tokens))
    gaps = of.itl_samples(agreed)
    if gaps:
        assert of.tpot(agreed) == pytest.approx(sum(gaps) / len(gaps), rel=1e-12)
    else:
        assert of.tpot(agreed) is None


@given(lives(outcomes=NORMAL))
def test_parts_add_up(life: ClientLife) -> None:
    ttft, e2e, closing = of.ttft(life), of.e2e(life), of.closing_time(life)
    assert life.closed_at is not None
    assert life.arrival_at is not None
    if ttft is None:
        assert e2e == life.closed_at - life.arrival_at
        return
    assert e2e == ttft + sum(of.itl_samples(life))
    assert e2e is not None
    assert closing is not None
    assert e2e + closing == life.closed_at - life.arrival_at
    assert sum(of.icl_samples(life)) == life.chunk_at[-1] - life.chunk_at[0]


@given(lives(outcomes=NORMAL))
def test_intended_latency_is_service_latency_and_send_lag(life: ClientLife) -> None:
    lag = of.send_lag(life) or 0
    for intended, service in ((of.ttft(life), of.service_ttft(life)), (of.e2e(life), of.service_e2e(life))):
        assert (intended is None) == (service is None)
        if intended is not None and service is not None:
            assert intended == service + lag


@given(lives())
def test_gaps_come_with_tokens_in_order(life: ClientLife) -> None:
    tokens = of.token_at(life)
    assert len(tokens) == sum(life.chunk_tokens)
    assert all(earlier <= later for earlier, later in pairwise(tokens))
    assert (of.first_at(life), of.last_at(life)) == ((tokens[0], tokens[-1]) if tokens else (None, None))


@given(lives(outcomes=NORMAL), st.integers(-(10**12), 10**12))
def test_no_figure_depends_on_the_origin_of_the_clock(life: ClientLife, origin: int) -> None:
    moved = counted_from(life, origin)
    for words in DEFINITIONS.values():
        for name in words.latencies:
            assert list(words.samples(name, moved).values) == list(words.samples(name, life).values)


@given(lives(outcomes=NORMAL))
def test_one_token_a_chunk_sent_as_intended_makes_most_tools_agree(life: ClientLife) -> None:
    assert life.sent_at is not None
    simple = replace(
        life,
        intended_at=life.sent_at,
        chunk_tokens=(1,) * len(life.chunk_at),
        num_tokens=len(life.chunk_at),
        empty_at=(),
    )
    ours = DEFINITIONS["arriero"]
    assert DEFINITIONS["vllm"].ttft(simple) == ours.ttft(simple)
    assert list(DEFINITIONS["vllm"].itl(simple).values) == list(ours.itl(simple).values)
    assert DEFINITIONS["vllm"].tpot(simple) == ours.tpot(simple)
    assert DEFINITIONS["inference-perf"].tpot(simple) == ours.tpot(simple)
    assert next(iter(DEFINITIONS["guidellm"].itl(simple).values), None) == ours.tpot(simple)
    assert next(iter(DEFINITIONS["aiperf"].itl(simple).values), None) == ours.tpot(simple)


@given(runs(), SLOS)
def test_nothing_is_dropped_and_shares_fit_together(run: list[ClientLife], slos: ClientSlos) -> None:
    summary = summarise(run, slos=slos)
    counts, found = summary.counts, summary.attainment
    assert counts.intended + counts.warm_up == len(run)
    assert sum(counts.by_outcome.values()) == counts.intended
    assert counts.finished + counts.cancelled <= counts.submitted <= counts.intended - counts.not_due
    assert found is not None
    assert found.good <= counts.finished
    if found.of_submitted is not None and found.served_fraction is not None:
        assert found.of_submitted <= found.served_fraction + 1e-12
        if found.of_finished is not None:
            assert found.of_finished * found.served_fraction == pytest.approx(found.of_submitted)


@given(runs())
def test_the_second_table_is_the_first_and_one_infinity_for_each_failure(run: list[ClientLife]) -> None:
    summary = summarise(run)
    counts, latency = summary.counts, summary.latency
    failures = counts.submitted - counts.finished - counts.cancelled
    assert latency.all is not None
    for field in fields(LatencyTable):
        finished: Distribution | None = getattr(latency.finished, field.name)
        everybody: Distribution | None = getattr(latency.all, field.name)
        assert (finished is None) == (everybody is None)
        if finished is None or everybody is None:
            continue
        assert (finished.num_infinite, everybody.num_infinite) == (0, failures)
        assert everybody.num_undefined == finished.num_undefined
        assert everybody.n >= finished.n
        if finished.p50 is not None and everybody.p50 is not None and everybody.n == finished.n:
            assert everybody.p50 >= finished.p50


@given(runs(), SLOS, st.sampled_from(list(DEFINITIONS)))
def test_a_summary_is_made_again_from_the_log_alone(run: list[ClientLife], slos: ClientSlos, name: str) -> None:
    window = client_window(run, warm_up_ns=100 * MS, cool_down_ns=50 * MS)
    first = summarise(run, window=window, slos=slos)
    assert remake(first, list(reversed(run))) == first
    words = DEFINITIONS[name]
    assert remake(first, run, words) == summarise(run, window=window, slos=slos, definitions=words)


@given(runs(), SLOS)
def test_a_warm_up_request_is_in_no_figure(run: list[ClientLife], slos: ClientSlos) -> None:
    without = [life for life in run if not life.is_warm_up]
    one, other = summarise(run, slos=slos), summarise(without, slos=slos)
    assert replace(one, counts=replace(one.counts, warm_up=0)) == other


@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=150), st.integers(0, 20))
def test_percentiles_are_those_of_the_simulator_with_infinities_at_the_end(samples: list[float], failures: int) -> None:
    found = describe(samples, num_infinite=failures)
    exact = percentiles([*samples, *[math.inf] * failures])
    for name in ("p50", "p90", "p95", "p99"):
        value = getattr(exact, name)
        if name == "p99" and len(samples) + failures < 100:
            assert getattr(found, name) is None
        elif value == math.inf:
            assert found.is_infinite(name)
        else:
            assert getattr(found, name) == value


@given(runs())
def test_the_flag_is_valid_exactly_without_reasons(run: list[ClientLife]) -> None:
    found = judge_validity(run)
    assert (found.flag is Flag.VALID) == (not found.reasons)


@given(runs(), st.integers(0, 300))
def test_more_lag_never_improves_the_flag(run: list[ClientLife], more: int) -> None:
    window = client_window(run, starts_at=0, stops_at=3_000 * MS)
    later = [sent_later(life, more * MS) for life in run]
    # the service TTFT shrinks as the send moves, so the limit does not grow
    before, after = judge_validity(run, window=window), judge_validity(later, window=window)
    assert list(Flag).index(after.flag) >= list(Flag).index(before.flag)


def sent_later(life: ClientLife, more: int) -> ClientLife:
    if life.sent_at is None or life.intended_at is None:
        return life
    return replace(life, sent_at=life.sent_at + more)
