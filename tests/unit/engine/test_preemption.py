"""Pressure on the live engine's memory: answers stay what they are, whatever yields, and nothing is left outside.

The synthetic backend says a hash of all that a sequence holds, so an answer tells whether its KV came back as it was.
"""

import asyncio
from dataclasses import replace
from typing import TypeVar

import pytest

from arriero.backend.synthetic import SyntheticBackend, SyntheticOptions
from arriero.backend.synthetic_memory import SyntheticStore
from arriero.core.errors import ConfigError
from arriero.core.events import Admitted, Event, ForgetSaved, Preempted, PreemptionCause, RestoreSequence, SaveSequence
from arriero.core.request import CancelReason, FinishReason, SamplingParams
from arriero.engine.engine import Engine
from arriero.engine.handle import Result
from arriero.engine.observer import StepRecord
from arriero.engine.options import EngineOptions
from arriero.engine.placement import Placement, Shared
from arriero.engine.swapping import WHATEVER_IT_COSTS
from arriero.kv.reuse import ReuseRules
from arriero.record.journal_reader import read_lines
from arriero.scheduler.preemption import SwapRule
from arriero.sim.replay import replay
from arriero.testing.fakes import FaultyBackend
from arriero.testing.faults import BlockedCall, Fault, NoPlace, RefusedOp
from tests.unit.engine.driving import ENDLESS, PLACEMENTS, StepLog, running
from tests.unit.engine.journals import engine_with_journal

pytestmark = pytest.mark.anyio

EventT = TypeVar("EventT", bound=Event)
NUM_TOKENS = 30
POOL = SyntheticOptions(num_sequences=4, num_rows=64, num_cells=100, unified=True)
ROOMY = replace(POOL, num_cells=400)
STREAMS = SyntheticOptions(num_sequences=4, num_rows=64, num_cells=4 * 64)
SWAPS = EngineOptions(check=True, swap=WHATEVER_IT_COSTS, swap_tokens=1000)
PROMPTS = [[10 * number + k for k in range(12 + number)] for number in range(4)]


def kept_by(store: SyntheticStore, memory: SyntheticOptions, *faults: Fault) -> FaultyBackend:
    return FaultyBackend(SyntheticBackend(memory, store=store), *faults)


async def serve(
    memory: SyntheticOptions,
    options: EngineOptions,
    *faults: Fault,
    log: StepLog | None = None,
    placement: Placement | None = None,
    sampling: SamplingParams | None = None,
) -> list[Result]:
    """Four requests at once, to their ends; nothing is left in the store."""
    store, blocked = SyntheticStore(), BlockedCall(0)
    backend = kept_by(store, memory, blocked, *faults)
    async with running(backend, placement or Shared(), options, [] if log is None else [log]) as engine:
        handles = [
            engine.submit(
                prompt, NUM_TOKENS, end_tokens=ENDLESS, cache_scope=None, sampling=sampling or SamplingParams()
            )
            for prompt in PROMPTS
        ]
        blocked.release.set()
        results = [await handle.result() for handle in handles]
        snapshot = await engine.ask_snapshot()
    assert snapshot.scheduler.kv.swapped_tokens == store.num_tokens == 0
    return results


def events_of(log: StepLog, kind: type[EventT]) -> list[EventT]:
    return [event for record in log.records for event in record.events if isinstance(event, kind)]


class UntilPreempted(StepLog):
    """Says on its event loop when somebody has yielded; for the shared placement, where steps end on that loop."""

    def __init__(self) -> None:
        super().__init__()
        self.happened = asyncio.Event()

    def on_step(self, record: StepRecord) -> None:
        super().on_step(record)
        if any(isinstance(event, Preempted) for event in record.events):
            self.happened.set()


CASES = {
    "all swapped": (SWAPS, {True}),
    "some swapped": (replace(SWAPS, swap_tokens=30), {True, False}),
    "none swapped": (replace(SWAPS, swap=None), {False}),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("placement", PLACEMENTS, ids=["dedicated", "shared"])
async def test_every_answer_is_the_same_with_and_without_pressure(placement: Placement, case: str) -> None:
    roomy = await serve(ROOMY, SWAPS)
    assert not any(result.num_preemptions for result in roomy)
    (options, ways), log = CASES[case], StepLog()
    tight = await serve(POOL, options, log=log, placement=placement)
    assert [result.tokens for result in tight] == [result.tokens for result in roomy]
    assert {result.reason for result in tight} == {FinishReason.LENGTH}
    assert {event.swapped for event in events_of(log, Preempted)} == ways
    assert tight[0].num_preemptions == 0, "the oldest never yields"


async def test_what_is_swapped_is_not_computed_again() -> None:
    log = StepLog()
    await serve(POOL, SWAPS, log=log)
    assert events_of(log, Preempted)
    summary = log.summary
    assert summary is not None
    totals = summary.snapshot.totals
    assert totals.repeated_rows == 0
    num_back = sum(event.resumed for event in events_of(log, Admitted))
    assert totals.prefill_rows == sum(map(len, PROMPTS)) + num_back, "one row for each that came back"


async def test_random_state_and_penalties_go_on_where_they_were() -> None:
    sampling = SamplingParams(temperature=0.8, seed=7, repeat_penalty=1.3)
    roomy = await serve(ROOMY, SWAPS, sampling=sampling)
    tight = await serve(POOL, SWAPS, sampling=sampling)
    assert sum(result.num_preemptions for result in tight)
    assert [result.tokens for result in tight] == [result.tokens for result in roomy]


@pytest.mark.parametrize("kind", [SaveSequence, RestoreSequence], ids=["save", "restore"])
async def test_what_memory_refuses_is_computed_again_and_nobody_is_harmed(
    kind: type[SaveSequence] | type[RestoreSequence],
) -> None:
    roomy = await serve(ROOMY, SWAPS)
    log = StepLog()
    tight = await serve(POOL, SWAPS, RefusedOp(kind), log=log)
    assert [result.tokens for result in tight] == [result.tokens for result in roomy]
    assert tight[0].num_preemptions == 0
    assert events_of(log, SaveSequence)
    causes = {event.cause for event in events_of(log, Preempted)}
    assert (PreemptionCause.REFUSED in causes) == (kind is RestoreSequence)


async def test_a_store_that_is_damaged_costs_a_second_computing() -> None:
    class Damage(Fault):
        """Changes the first thing that is kept, before it is brought back."""

        def __init__(self, store: SyntheticStore) -> None:
            self._store = store
            self.num_damaged = 0

        def refuses(self, op: object) -> bool:
            if isinstance(op, RestoreSequence) and not self.num_damaged:
                self.num_damaged += 1
                self._store.corrupt(op.key)
            return False

    roomy = await serve(ROOMY, SWAPS)
    store = SyntheticStore()
    damage = Damage(store)
    async with running(kept_by(store, POOL, damage), Shared(), SWAPS) as engine:
        handles = [
            engine.submit(prompt, NUM_TOKENS, end_tokens=ENDLESS, cache_scope=None, request_id=number)
            for number, prompt in enumerate(PROMPTS, 1)
        ]
        results = [await handle.result() for handle in handles]
    assert damage.num_damaged == 1
    assert [result.tokens for result in results] == [result.tokens for result in roomy]


async def test_exact_composition_gives_every_answer_after_a_swap() -> None:
    exact = replace(SWAPS, exact=True)
    roomy = await serve(STREAMS, exact)
    for swap in (WHATEVER_IT_COSTS, None):
        log = StepLog()
        tight = await serve(STREAMS, replace(exact, swap=swap), NoPlace(9, 20), log=log)
        assert [result.tokens for result in tight] == [result.tokens for result in roomy]
        assert len(events_of(log, Preempted)) == 2
        assert len(events_of(log, RestoreSequence)) == (2 if swap else 0)


async def test_cancelled_while_it_waits_outside() -> None:
    store, log = SyntheticStore(), UntilPreempted()
    async with running(kept_by(store, POOL), Shared(), SWAPS, [log]) as engine:
        handles = [engine.submit(prompt, 60, end_tokens=ENDLESS, cache_scope=None) for prompt in PROMPTS]
        await log.happened.wait()
        for handle in handles:
            handle.cancel(CancelReason.DISCONNECT)
        results = [await handle.result() for handle in handles]
        assert all(result.reason in {FinishReason.CANCELLED, FinishReason.LENGTH} for result in results)
        snapshot = await engine.ask_snapshot()
        assert snapshot.scheduler.kv.swapped_tokens == store.num_tokens == 0
    assert len(events_of(log, ForgetSaved)) == len(events_of(log, SaveSequence))


async def test_a_shutdown_leaves_nothing_outside() -> None:
    store, log = SyntheticStore(), UntilPreempted()
    async with running(kept_by(store, POOL), Shared(), SWAPS, [log]) as engine:
        handles = [engine.submit(prompt, 60, end_tokens=ENDLESS, cache_scope=None) for prompt in PROMPTS]
        await log.happened.wait()
        engine.shutdown()
        engine.cancel_all()
        for handle in handles:
            await handle.result()
    assert store.num_tokens == 0


@pytest.mark.parametrize("reuse", [None, ReuseRules(), ReuseRules(host_tokens=300)], ids=["none", "tree", "host"])
async def test_the_journal_of_a_run_under_pressure_can_be_replayed(reuse: ReuseRules | None) -> None:
    rule = SwapRule(row_time=3, answer_row_time=3, token_time=1, swap_time=20)
    options = replace(SWAPS, swap=rule, swap_tokens=40, reuse=reuse, keep_alive=False)
    engine, journal = engine_with_journal(kept_by(SyntheticStore(), POOL), options)
    for number, prompt in enumerate(PROMPTS):
        engine.submit(prompt, NUM_TOKENS, end_tokens=ENDLESS, cache_scope="a" if number % 2 else None)
    engine.start(Shared())
    await engine.wait_closed()
    lines = journal.lines()
    assert b'["swapped_out"' in b"".join(lines)
    assert replay(read_lines(lines), check=True).unfinished == 0


async def test_swapping_without_a_store_is_refused_with_the_remedy() -> None:
    with pytest.raises(ConfigError, match="needs a host store"):
        Engine(SyntheticBackend(POOL), SWAPS)
    with pytest.raises(ConfigError, match="swap_tokens must be at least 0"):
        Engine(SyntheticBackend(POOL), EngineOptions(swap_tokens=-1))
