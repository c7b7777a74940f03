"""Diagnostics on the scripted backend: sums, stamps, idle time, and nothing at all when it is off."""

import dataclasses
from collections.abc import Sequence

import msgspec
import pytest

from arriero.engine.diagnostics import Diagnostics
from arriero.engine.engine import Engine
from arriero.engine.handle import Result
from arriero.engine.observer import EngineTotals, Observer, StreamCounts
from arriero.engine.options import EngineOptions
from arriero.engine.placement import Dedicated
from arriero.engine.trace import Tracer
from arriero.record.diagnostics import DiagnosticsRow, EngineStartRow, EngineSummaryRow, IterRow, decode_row, encode_row
from arriero.record.lines import LineList
from arriero.record.published import CANCEL_COUNTS, STREAM_COUNTS, TOTALS
from arriero.scheduler.cancels import CancelCounts
from arriero.scheduler.draft import PrefillBudget
from arriero.testing.fakes import FaultyBackend
from arriero.testing.faults import FailedCall, FailedRequest, NoPlace
from tests.unit.engine.gate_runs import (
    CANCEL_AFTER_16,
    ENDLESS,
    ENDS_BY_ITSELF,
    JOIN_WITHIN_S,
    PROMPT,
    TickingClock,
    backend,
    published_budgets,
    run_preloaded,
    step_by_hand,
)

Rows = tuple[list[IterRow], EngineSummaryRow]


def read(sink: LineList) -> Rows:
    """Iteration rows and the summary; the order of kinds is checked here."""
    rows: list[DiagnosticsRow] = [decode_row(line) for line in sink.lines]
    first, *middle, last = rows
    assert isinstance(first, EngineStartRow)
    assert isinstance(last, EngineSummaryRow)
    assert first.engine_t_start_us_absolute == last.engine_t_start_us_absolute
    iters = [row for row in middle if isinstance(row, IterRow)]
    assert len(iters) == len(middle)
    return iters, last


def g8() -> tuple[Rows, list[Result]]:
    sink = LineList()
    budgets = published_budgets(93, 6)
    _, results = run_preloaded([Diagnostics(sink)], budgets, num_active=93, cancels=CANCEL_AFTER_16, stream=True)
    return read(sink), results


def ask(engine: Engine, *budgets: int) -> None:
    for budget in budgets:
        engine.submit(PROMPT, budget, end_tokens=ENDLESS)


def test_g42_rows_of_a_batch_add_up_and_sums_equal_totals() -> None:
    (iters, summary), results = g8()
    for row in iters:
        assert row.prefill_rows_in_iter + row.decode_rows_in_iter == row.batch_n_tokens
    assert sum(row.prefill_rows_in_iter for row in iters) == summary.prefill_rows == 99 * len(PROMPT)
    assert sum(row.tokens_emitted_in_iter for row in iters) == summary.tokens_emitted
    assert summary.tokens_emitted == sum(result.num_decoded for result in results)
    assert summary.stream_tokens_emitted_total == summary.tokens_emitted
    assert sum(row.completed_in_iter for row in iters) == summary.completed_count == 93
    assert sum(row.cancelled_in_iter for row in iters) == summary.cancelled_count == 6
    assert sum(row.decode_calls_in_iter for row in iters) == summary.decode_calls == 256
    assert len(iters) == summary.update_iterations
    assert sum(row.admitted_in_iter for row in iters) == 99
    assert summary.admitted_count == 6
    assert summary.promises_fulfilled == summary.submitted_count == 99
    ends = (summary.streams_closed_completed, summary.streams_closed_cancelled, summary.streams_closed_error)
    assert ends == (93, 6, 0)
    assert summary.streams_opened == 99
    assert summary.preload_prefill_llama_decode_included == 1


def test_g8_the_published_figures_of_single_iterations() -> None:
    (iters, _), _ = g8()
    by_number = {row.iter: row for row in iters}
    assert [row.iter for row in iters] == list(range(len(iters)))
    at_17 = by_number[17]
    assert (at_17.prefill_rows_in_iter, at_17.decode_rows_in_iter, at_17.batch_n_tokens) == (36, 56, 92)
    assert (at_17.admitted_in_iter, at_17.prefill_requests_advanced) == (6, 6)
    assert by_number[16].cancelled_in_iter == 6
    assert (by_number[0].admitted_in_iter, by_number[0].active_seq_count) == (93, 93)
    depths = sorted(row.waiting_queue_depth_after_admission for row in iters if row.decoded and row.iter > 0)
    assert (len(depths), depths[127], depths[-1]) == (255, 0, 6)


def test_g43_stamps_are_in_order() -> None:
    (_, summary), results = g8()
    for result in results:
        assert result.admitted_at is not None
        assert result.first_token_at is not None
        assert result.arrival_at <= result.admitted_at <= result.first_token_at <= result.finished_at
        if result.cancel_observed_at is not None:
            assert result.first_token_at <= result.cancel_observed_at <= result.finished_at
    assert summary.cancel_active_observed == sum(result.cancel_observed_at is not None for result in results) == 6


def test_times_add_up_and_never_go_back() -> None:
    (iters, summary), _ = g8()
    ends = [row.t_us_from_engine_start + row.iter_wall_us for row in iters]
    begins = [row.t_us_from_engine_start for row in iters]
    assert all(end <= begin for end, begin in zip(ends, begins[1:], strict=False))
    assert all(row.iter_wall_us > 0 for row in iters)
    assert summary.wall_ms >= ends[-1] / 1000


def test_a_pass_without_a_decode_call_has_a_row_too() -> None:
    sink = LineList()
    step_by_hand(backend(1), [Diagnostics(sink)], [lambda engine: ask(engine, 2), Engine.shutdown])
    iters, summary = read(sink)
    # empty start, two steps of the request, its empty end, the pass that sees the shutdown
    assert [row.decoded for row in iters] == [False, True, True, False, False]
    assert [row.outcome for row in iters] == [None, "sampled", "sampled", None, None]
    idle = [row for row in iters if not row.decoded]
    assert {(row.batch_n_tokens, row.llama_decode_wall_us, row.decode_calls_in_iter) for row in idle} == {(0, 0, 0)}
    assert summary.preload_prefill_llama_decode_included == 0
    assert (summary.engine_shutdown_observed, summary.residual_kv_empty, summary.crashed) == (1, True, None)


def test_idle_time_belongs_to_the_iteration_after_the_wait() -> None:
    sink = LineList()
    acts = [lambda engine: ask(engine, 2), lambda engine: ask(engine, 1, 1), Engine.shutdown]
    step_by_hand(backend(2), [Diagnostics(sink)], acts)
    iters, summary = read(sink)
    waited = [row for row in iters if row.idle_wait_us > 0]
    assert len(waited) == summary.engine_idle_waits == 3
    # the clock is read once before the wait and once after it; a submission reads it as well
    assert [(row.idle_wait_us, row.prefill_rows_in_iter) for row in waited] == [(20, 6), (30, 12), (10, 0)]


def test_a_cancel_in_the_queue_counts_apart() -> None:
    sink = LineList()

    def cancelled_at_once(engine: Engine) -> None:
        ask(engine, 4)
        engine.cancel(1)
        engine.cancel(99)

    step_by_hand(backend(1), [Diagnostics(sink)], [cancelled_at_once, Engine.shutdown])
    iters, summary = read(sink)
    assert sum(row.queued_cancelled_in_iter for row in iters) == summary.queued_cancelled == 1
    assert sum(row.cancelled_in_iter for row in iters) == summary.cancelled_count == 0
    assert (summary.cancel_request_calls, summary.cancel_unknown_request_id) == (2, 1)
    assert summary.decode_calls == 0


def test_failures_preemptions_and_repeated_calls_are_counted_in_their_iteration() -> None:
    sink = LineList()
    served = FaultyBackend(backend(3), FailedRequest(1), FailedCall(4), NoPlace(8))
    step_by_hand(served, [Diagnostics(sink)], [lambda engine: ask(engine, 8, 8, 8), Engine.shutdown])
    iters, summary = read(sink)
    assert sum(row.failed_in_iter for row in iters) == summary.failed_count == 1
    assert sum(row.preempted_in_iter for row in iters) == summary.preemptions == 1
    assert {row.outcome for row in iters} == {None, "sampled", "no_room"}
    assert sum(row.decode_calls_in_iter for row in iters) == summary.decode_calls == served.num_calls
    assert max(row.decode_calls_in_iter for row in iters) > 1
    assert summary.completed_count == 2


def test_the_budget_decision_of_each_iteration_is_there() -> None:
    sink = LineList()
    options = EngineOptions(budget=PrefillBudget(per_sequence=4, per_step=6))
    acts = [lambda engine: ask(engine, 1, 1), Engine.shutdown]
    step_by_hand(backend(2), [Diagnostics(sink)], acts, options)
    iters, _ = read(sink)
    taken = [(row.prefill_rows_in_iter, row.prefill_requests_advanced, row.prefill_caps_hit) for row in iters]
    assert taken[1:3] == [(6, 2, ("prefill_rows_per_seq", "prefill_rows_per_step")), (6, 2, ())]


def test_waiters_that_the_end_aborts_are_in_the_summary() -> None:
    sink = LineList()
    run_preloaded([Diagnostics(sink)], [8, 64], num_active=1)
    iters, summary = read(sink)
    assert summary.failed_reserved_count == 1
    assert sum(row.failed_reserved_in_iter for row in iters) == 0  # after the last iteration


def busy_reads(observers: Sequence[Observer], budget: int) -> int:
    """How often the clock is read in a run of so many steps."""
    clock = TickingClock()
    engine = Engine(backend(1), ENDS_BY_ITSELF, observers=observers, clock=clock)
    engine.submit(PROMPT, budget, preloaded=True, end_tokens=ENDLESS)
    engine.start(Dedicated())
    assert engine.join(JOIN_WITHIN_S).crashed is None
    return clock.num_reads


def test_without_observers_each_step_reads_the_clock_equally_often_and_no_line_appears(
    capfd: pytest.CaptureFixture[str],
) -> None:
    reads = [busy_reads((), budget) for budget in (10, 20, 40)]
    each_step = (reads[1] - reads[0]) / 10
    assert each_step == (reads[2] - reads[1]) / 20 == 4  # begin, call, commit, end
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_diagnostics_read_no_clock_of_their_own() -> None:
    assert busy_reads([Diagnostics(LineList())], 20) == busy_reads((), 20)


def test_g44_tokens_are_the_same_with_and_without() -> None:
    budgets = published_budgets(9, 3)
    choices: list[list[Observer]] = [[], [Diagnostics(LineList()), Tracer(LineList(), pool="dedicated")]]
    runs = [run_preloaded(observers, budgets, num_active=9, cancels={1: 4})[1] for observers in choices]
    plain, observed = ({result.request_id: result.tokens for result in results} for results in runs)
    assert plain == observed


def test_the_same_run_gives_the_same_bytes_apart_from_the_measured_decode_time() -> None:
    sinks = [LineList(), LineList()]
    for sink in sinks:
        run_preloaded([Diagnostics(sink)], published_budgets(6), num_active=6, cancels={1: 4})
    first, second = ([without_decode_time(line) for line in sink.lines] for sink in sinks)
    assert first == second


def without_decode_time(line: bytes) -> bytes:
    """The stopwatch of the decode call is the one clock that a test cannot set."""
    row = decode_row(line)
    return encode_row(msgspec.structs.replace(row, llama_decode_wall_us=0) if isinstance(row, IterRow) else row)


@pytest.mark.parametrize(
    ("names", "kind"), [(TOTALS, EngineTotals), (CANCEL_COUNTS, CancelCounts), (STREAM_COUNTS, StreamCounts)]
)
def test_no_count_is_forgotten(names: dict[str, str], kind: type) -> None:
    ours = {field.name for field in dataclasses.fields(kind)}
    assert ours - set(names) <= {"queued"}  # in the totals as `queued_cancelled`
    assert set(names) <= ours
