from dataclasses import replace

import pytest

from arriero.core.errors import ConfigError
from arriero.core.ids import RequestId, SequenceId
from arriero.core.option_kinds import Threads
from arriero.core.plan import BatchPlan, DecodeRow, PrefillChunk, StepShape
from arriero.core.request import Request
from arriero.costmodel.calibrated import (
    CalibratedCost,
    HostCosts,
    Outside,
    StepKind,
    ValidRange,
    kind_of,
)
from arriero.costmodel.models import TimeOverflow
from arriero.costmodel.passes import PassRules, Stretch
from arriero.costmodel.terms import PassCosts

COST = CalibratedCost(
    rules=PassRules(micro_batch=512, unified=False, stream_cells=2048),
    passes={
        1: PassCosts.of({"pass": 2000, "rows_0": 1000, "rows_16": 1000, "logit_row": 500}),
        2: PassCosts.of({"pass": 3000, "rows_0": 600, "rows_16": 600, "logit_row": 300}),
    },
    threads=Threads(1, 2),
    host=HostCosts(step=100, entry=10, token=2, delivery=3),
    valid=ValidRange(rows=512, sequences=4, context=1000, pool=8192),
)


def decode(sequence_id: int, start: int = 10) -> Stretch:
    return Stretch(sequence_id, start, 1, wants_logits=True)


def chunk(sequence_id: int, num_rows: int, start: int = 0) -> Stretch:
    return Stretch(sequence_id, start, num_rows, wants_logits=False)


def test_one_row_is_computed_by_the_decode_threads_and_more_by_the_others() -> None:
    assert COST.decode_time([decode(0)]) == 2000 + 1000 + 500
    assert COST.decode_time([decode(0), decode(1)]) == 3000 + 1200 + 600
    # a hole makes two passes of one row each
    assert COST.decode_time([decode(0), decode(2)]) == 2 * 3500


def test_the_host_adds_its_share() -> None:
    assert COST.time([decode(0), decode(1), chunk(2, 1)]) == COST.decode_time([decode(0), decode(1), chunk(2, 1)]) + (
        100 + 3 * 10 + 2 * 5
    )
    assert COST.time([]) == 100


def test_it_is_rounded_once() -> None:
    cost = replace(COST, host=HostCosts(step=0.3), passes={1: PassCosts.of({"pass": 0.3}), 2: PassCosts.of({})})
    assert cost.time([decode(0)]) == 1


def test_rows_of_a_plan_are_taken_as_they_are() -> None:
    request = Request(request_id=RequestId(1), prompt=(1, 2, 3, 4), max_tokens=4, arrival_at=0)
    rows = (
        DecodeRow(request, SequenceId(0), 10, 5),
        PrefillChunk(request, SequenceId(1), 0, (1, 2, 3), wants_logits=False),
    )
    shape = StepShape(decode_rows=1, prefill_rows=3, prefill_chunks=1, context_tokens=10, num_running=2)
    plan = BatchPlan(step=1, rows=rows, shape=shape, events=(), caps_hit=(), num_waiting=0, wake_at=None)
    assert COST.plan_time(plan) == COST.time([decode(0, 10), chunk(1, 3)])


def test_counts_alone_stand_for_equal_rows() -> None:
    shape = StepShape(decode_rows=2, prefill_rows=0, prefill_chunks=0, context_tokens=20, num_running=2)
    assert COST.step_time(shape) == COST.time([decode(0), decode(1)])


def test_calls_apart_are_decode_calls_of_their_own() -> None:
    calls = (StepShape(1, 0, 0, 10, 1), StepShape(0, 5, 1, 0, 1))
    shape = StepShape(1, 5, 1, 10, 2, calls)
    expected = COST.decode_time([decode(0)]) + COST.decode_time([chunk(0, 5)]) + 100 + 2 * 10 + 5
    assert COST.step_time(shape) == expected


def test_what_was_measured_is_inside() -> None:
    assert COST.predict([decode(0, 999)]) == (COST.time([decode(0, 999)]), ())


@pytest.mark.parametrize(
    ("rows", "outside"),
    [
        ([decode(0, 1000)], Outside.CONTEXT),
        ([chunk(0, 10, start=995)], Outside.CONTEXT),
        ([decode(number) for number in range(5)], Outside.SEQUENCES),
    ],
)
def test_what_lies_beyond_is_flagged(rows: list[Stretch], outside: Outside) -> None:
    assert COST.predict(rows).outside == (outside,)


def test_passes_beyond_the_longest_measured_one_are_flagged() -> None:
    short = replace(COST, valid=replace(COST.valid, rows=256))
    assert short.predict([chunk(0, 257)]).outside == (Outside.ROWS,)
    # a micro-batch that was measured bounds every pass
    cut = replace(short, rules=replace(COST.rules, micro_batch=256))
    assert cut.predict([chunk(0, 257)]).outside == ()


def test_a_pool_fuller_than_measured_is_flagged_where_there_is_one() -> None:
    assert COST.predict([decode(0)], pool=9000).outside == ()
    pooled = replace(COST, rules=PassRules(micro_batch=512, unified=True, stream_cells=16_384))
    assert pooled.predict([decode(0)], pool=9000).outside == (Outside.POOL,)


def test_threads_that_were_not_measured_are_refused() -> None:
    with pytest.raises(ConfigError, match="--threads 4: calibrated for 1, 2 only"):
        COST.with_threads(Threads(4, 4))
    assert COST.with_threads(Threads(2, 2)).decode_time([decode(0)]) == 3000 + 600 + 300


def test_the_best_threads_are_found_for_short_and_long_passes_apart() -> None:
    assert COST.best_threads([decode(0)]) == Threads(1, 2)
    # the chunk's 40 rows leave one pass of two rows and one of 39
    assert COST.best_threads([decode(0), chunk(1, 40)]) == Threads(1, 2)
    worse = replace(COST, passes={1: COST.passes[1], 2: PassCosts.of({"pass": 90_000})}, threads=Threads(2, 2))
    assert worse.best_threads([decode(0)]) == Threads(1, 2)
    assert worse.best_threads([chunk(0, 40)]) == Threads(2, 1)
    assert worse.best_threads([]) == Threads(2, 2)


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        ([decode(0), decode(1)], StepKind.DECODE),
        ([chunk(0, 8)], StepKind.PREFILL),
        ([chunk(0, 1)], StepKind.PREFILL),
        ([decode(0), chunk(1, 8)], StepKind.MIXED),
    ],
)
def test_steps_have_a_kind(rows: list[Stretch], kind: StepKind) -> None:
    assert kind_of(rows) is kind


def test_what_does_not_fit_in_64_bits_is_refused() -> None:
    with pytest.raises(TimeOverflow, match="64-bit"):
        replace(COST, host=HostCosts(step=1e19)).time([decode(0)])
