"""Prefixes in the live engine, on a memory that checks that a sequence holds its request's tokens."""

import asyncio
from dataclasses import replace

import pytest

from arriero.backend.synthetic import SyntheticOptions
from arriero.backend.synthetic_memory import SyntheticStore
from arriero.core.errors import ConfigError, Draining
from arriero.core.events import (
    CopySequence,
    Event,
    MoveSequence,
    PrefixSource,
    RestoreSequence,
    RetainedAction,
    RetainedReport,
    ReuseVerdict,
)
from arriero.core.request import CancelReason, FinishReason
from arriero.engine.engine import Engine
from arriero.engine.observer import EngineSummary
from arriero.engine.options import EngineOptions, check_options
from arriero.engine.placement import Placement
from arriero.kv.reuse import EvictionCause, ReuseRules
from arriero.scheduler.draft import PrefillBudget
from arriero.testing.fakes import FaultyBackend, ScriptedBackend
from arriero.testing.faults import BlockedCall, Fault, RefusedOp
from tests.unit.engine.driving import ENDLESS, LIMIT_S, PLACEMENTS, StepLog, running

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("placement", PLACEMENTS, ids=["dedicated", "shared"])]

SCRIPT = {number: [10 * number + k for k in range(20)] for number in range(1, 20)}
UNIFIED = SyntheticOptions(num_sequences=6, num_rows=64, num_cells=1024, unified=True)
SEPARATE = SyntheticOptions(num_sequences=6, num_rows=64, num_cells=6 * 256)
RULES = ReuseRules()
OPTIONS = EngineOptions(check=True, retained=2, reuse=RULES)
PREFIX = list(range(100, 150))


def scripted(*faults: Fault, memory: SyntheticOptions = UNIFIED, store: SyntheticStore | None = None) -> FaultyBackend:
    return FaultyBackend(ScriptedBackend(SCRIPT, options=memory, store=store), *faults)


def events_of(log: StepLog, kind: type[Event]) -> list[Event]:
    return [event for record in log.records for event in record.events if isinstance(event, kind)]


@pytest.mark.parametrize("memory", [UNIFIED, SEPARATE], ids=["unified", "separate"])
async def test_the_next_turn_starts_from_the_answer_of_the_last(placement: Placement, memory: SyntheticOptions) -> None:
    async with running(scripted(memory=memory), placement, OPTIONS) as engine:
        first = await engine.submit(PREFIX, 5, end_tokens=ENDLESS).result()
        assert (first.cached_tokens, first.prefix, first.verdict) == (0, None, ReuseVerdict.NO_MATCH)
        assert (first.kv_cleared, first.pos_max_at_clear) == (False, None)
        handle = engine.submit([*PREFIX, *first.tokens, 7, 8], 5, end_tokens=ENDLESS, want_stream=True)
        second = await handle.result()
        assert handle.cached_tokens == second.cached_tokens == 54, "the last sampled token never entered KV"
        assert (second.prefix, second.verdict, second.matched_tokens) == (PrefixSource.TREE, ReuseVerdict.REUSED, 54)
        snapshot = await engine.ask_snapshot()
        assert snapshot.totals.prefill_rows == 50 + 3
        assert (snapshot.totals.prefix_hits, snapshot.totals.cached_tokens) == (1, 54)
        assert snapshot.scheduler.reuse is not None
        assert snapshot.scheduler.reuse.cached_tokens[PrefixSource.TREE] == 54


async def test_a_running_prefix_is_shared_and_a_cold_burst_computes_it_once(placement: Placement) -> None:
    blocked, log = BlockedCall(0), StepLog()
    async with running(scripted(blocked), placement, OPTIONS, [log]) as engine:
        handles = [engine.submit([*PREFIX, 200 + n, n], 3, end_tokens=ENDLESS) for n in range(4)]
        blocked.release.set()
        results = [await handle.result() for handle in handles]
        assert sorted(result.cached_tokens for result in results) == [0, 50, 50, 50]
        assert {result.prefix for result in results} <= {None, PrefixSource.RUNNING, PrefixSource.TREE}
        assert (await engine.ask_snapshot()).totals.prefill_rows == 50 + 4 * 2
    assert any(record.snapshot.scheduler.num_deferred_prefix for record in log.records)
    assert events_of(log, CopySequence)


async def test_no_prefix_crosses_a_scope_and_without_one_nothing_is_shared(placement: Placement) -> None:
    async with running(scripted(), placement, OPTIONS) as engine:
        for scope, expected in (("a", 0), ("b", 0), (None, 0), (None, 0), ("a", 49)):
            result = await engine.submit(PREFIX, 2, end_tokens=ENDLESS, cache_scope=scope).result()
            assert result.cached_tokens == expected
            assert (result.verdict is ReuseVerdict.NO_SCOPE) == (scope is None)


async def test_what_a_cancelled_request_computed_stays(placement: Placement) -> None:
    blocked = BlockedCall(1)
    options = replace(OPTIONS, budget=PrefillBudget(per_sequence=20))
    async with running(scripted(blocked), placement, options) as engine:
        handle = engine.submit(PREFIX, 5, end_tokens=ENDLESS)
        await asyncio.to_thread(blocked.entered.wait)
        handle.cancel(CancelReason.DISCONNECT)
        blocked.release.set()
        assert (await handle.result()).reason is FinishReason.CANCELLED
        again = await engine.submit(PREFIX, 5, end_tokens=ENDLESS).result()
        assert again.cached_tokens == 40


async def test_a_refused_copy_costs_a_full_prefill_and_nothing_else(placement: Placement) -> None:
    backend = scripted()
    for sequence_id in range(UNIFIED.num_sequences):
        backend.add(RefusedOp(CopySequence, sequence_id, times=1))
    async with running(backend, placement, OPTIONS) as engine:
        await engine.submit(PREFIX, 4, end_tokens=ENDLESS).result()
        second = await engine.submit([*PREFIX, 9], 4, end_tokens=ENDLESS).result()
        assert (second.reason, second.tokens) == (FinishReason.LENGTH, tuple(SCRIPT[2][:4]))
        assert second.num_preemptions == 1


async def test_holes_between_the_running_are_closed(placement: Placement) -> None:
    log, blocked, lengths = StepLog(), BlockedCall(0), (3, 20, 3, 20)
    async with running(scripted(blocked, memory=SEPARATE), placement, OPTIONS, [log]) as engine:
        handles = [engine.submit([1, n], each, end_tokens=ENDLESS) for n, each in enumerate(lengths)]
        blocked.release.set()
        results = [await handle.result() for handle in handles]
        assert [result.tokens for result in results] == [
            tuple(SCRIPT[n][:each]) for n, each in enumerate(lengths, start=1)
        ]
        assert (await engine.ask_snapshot()).totals.moves >= 1
    assert events_of(log, MoveSequence)
    last = max(record.plan.step for record in log.records if len(record.plan.rows) == 2)
    rows = next(record.plan.rows for record in log.records if record.plan.step == last)
    assert rows[1].sequence_id - rows[0].sequence_id == 1


async def test_where_moves_are_off_nobody_moves(placement: Placement) -> None:
    log = StepLog()
    async with running(scripted(memory=SEPARATE), placement, replace(OPTIONS, moves=False), [log]) as engine:
        handles = [engine.submit([1, 2, n], 3 + 9 * n, end_tokens=ENDLESS, cache_scope=None) for n in range(2)]
        for handle in reversed(handles):
            await handle.result()
    assert not events_of(log, MoveSequence)


async def test_the_cache_can_be_looked_at_and_erased(placement: Placement) -> None:
    async with running(scripted(), placement, OPTIONS) as engine:
        await engine.submit(PREFIX, 3, end_tokens=ENDLESS).result()
        picture = await engine.ask_cache()
        assert picture is not None
        assert [run.length for run in picture.runs] == [52]
        assert await engine.ask_retained(RetainedAction.RESTORE) == RetainedReport(0, 0)
        assert await engine.ask_retained(RetainedAction.ERASE) == RetainedReport(1, 52)
        picture = await engine.ask_cache()
        assert picture is not None
        assert picture.runs == ()
        assert (await engine.submit(PREFIX, 3, end_tokens=ENDLESS).result()).cached_tokens == 0


async def test_one_who_asks_no_more_harms_nobody(placement: Placement) -> None:
    blocked = BlockedCall(0)
    async with running(scripted(blocked), placement, OPTIONS) as engine:
        handle = engine.submit(PREFIX, 3, end_tokens=ENDLESS)
        await asyncio.to_thread(blocked.entered.wait)
        asked = [asyncio.ensure_future(each) for each in (engine.ask_cache(), engine.ask_snapshot())]
        await asyncio.sleep(0)
        for each in asked:
            each.cancel()
        await asyncio.wait(asked)
        blocked.release.set()
        assert (await handle.result()).reason is FinishReason.LENGTH


async def test_without_rules_there_is_no_cache(placement: Placement) -> None:
    async with running(scripted(), placement) as engine:
        result = await engine.submit(PREFIX, 3, end_tokens=ENDLESS).result()
        assert (result.verdict, result.kv_cleared) == (ReuseVerdict.DISABLED, True)
        assert await engine.ask_cache() is None
        assert (await engine.ask_snapshot()).scheduler.reuse is None
    with pytest.raises(Draining):
        await engine.ask_cache()
    with pytest.raises(Draining):
        await engine.ask_retained(RetainedAction.SAVE)


async def test_a_run_survives_its_engine_in_the_host_store(placement: Placement) -> None:
    store = SyntheticStore()
    options = replace(OPTIONS, reuse=ReuseRules(host_tokens=500))
    for expected, source in ((0, None), (52, PrefixSource.DISK)):
        log = StepLog()
        async with running(scripted(store=store), placement, options, [log]) as engine:
            result = await engine.submit([*PREFIX, 10, 11, 12][: 50 + 3 * bool(expected)], 3, request_id=1,
                                         end_tokens=ENDLESS).result()  # fmt: skip
            assert (result.cached_tokens, result.prefix) == (expected, source)
        assert bool(events_of(log, RestoreSequence)) == bool(expected)
        assert store.num_tokens >= 52


async def test_at_the_end_all_retained_runs_are_cleared_and_counted_apart(placement: Placement) -> None:
    log = StepLog()
    async with running(scripted(), placement, OPTIONS, [log]) as engine:
        for number in range(2):
            await engine.submit([number, *PREFIX], 3, end_tokens=ENDLESS).result()
    summary = log.summary
    assert isinstance(summary, EngineSummary)
    assert summary.residual_sequences == ()
    reuse = summary.snapshot.scheduler.reuse
    assert reuse is not None
    assert {cause: count for cause, count in reuse.evictions.items() if count} == {EvictionCause.TEARDOWN: 2}
    assert summary.snapshot.scheduler.kv.retained_cells == 0


async def test_so_many_run_at_once_and_no_more(placement: Placement) -> None:
    log, blocked = StepLog(), BlockedCall(0)
    async with running(scripted(blocked), placement, OPTIONS, [log]) as engine:
        handles = [engine.submit([n, n], 3, end_tokens=ENDLESS) for n in range(9)]
        blocked.release.set()
        for handle in handles:
            await handle.result()
    assert max(record.plan.shape.num_running for record in log.records) == UNIFIED.num_sequences - OPTIONS.retained


async def test_the_door_counts_who_may_run_and_who_may_wait(placement: Placement) -> None:
    del placement
    engine = Engine(scripted(), replace(OPTIONS, backlog=1))
    assert len([engine.enter() for _ in range(5)]) == 5
    assert engine.door.in_flight == 5


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (EngineOptions(retained=6), "--retained leaves no sequence id"),
        (EngineOptions(retained=-1), "--retained must be at least 0"),
        (EngineOptions(reuse=ReuseRules(host_tokens=9)), "need a host store"),
        (EngineOptions(exact=True, reuse=ReuseRules()), "keeps_answers=False"),
        (EngineOptions(exact=True, reuse=ReuseRules(keeps_answers=False)), "min_suffix=2"),
    ],
    ids=str,
)
async def test_options_that_do_not_go_together_are_refused(
    placement: Placement, options: EngineOptions, says: str
) -> None:
    del placement
    with pytest.raises(ConfigError, match=says):
        Engine(scripted(memory=SEPARATE), options)


async def test_a_memory_that_cannot_be_cut_is_refused_with_its_reason(placement: Placement) -> None:
    del placement
    backend = scripted(memory=SEPARATE)
    support = replace(backend.reuse_support, copy=False, reason="its layers are recurrent")
    for options in (OPTIONS, EngineOptions(moves=True)):
        with pytest.raises(ConfigError, match="its layers are recurrent"):
            check_options(backend.limits, support, options)
    check_options(backend.limits, support, EngineOptions())
    assert LIMIT_S
