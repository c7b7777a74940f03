"""A cancel inside a decode call: the call ends, the others' work is done again, and their answers are the same."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from arriero.backend.protocol import Backend, DecodeError
from arriero.backend.synthetic import SyntheticBackend, SyntheticOptions
from arriero.core.plan import Interrupted, Row
from arriero.core.request import CancelReason, FinishReason
from arriero.engine.actor import Clock, monotonic_us
from arriero.engine.engine import Engine
from arriero.engine.handle import RequestHandle
from arriero.engine.observer import Observer
from arriero.engine.options import EngineOptions
from arriero.engine.placement import Placement
from arriero.testing.clock import ManualClock
from arriero.testing.fakes import FaultyBackend, ScriptedBackend
from arriero.testing.faults import BlockedCall, Fault
from tests.unit.engine.driving import ENDLESS, LIMIT_S, PLACEMENTS, StepLog, running

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("placement", PLACEMENTS, ids=["dedicated", "shared"])]

SCRIPT = {number: [10 * number + k for k in range(20)] for number in range(1, 20)}
AT_ONCE = EngineOptions(check=True, interrupt_after_ms=0)


def scripted(*faults: Fault) -> FaultyBackend:
    return FaultyBackend(ScriptedBackend(SCRIPT), *faults)


@asynccontextmanager
async def together(
    backend: Backend,
    placement: Placement,
    prompts: Sequence[Sequence[int]],
    budget: int,
    *,
    options: EngineOptions = AT_ONCE,
    observers: Sequence[Observer] = (),
    clock: Clock = monotonic_us,
) -> AsyncIterator[tuple[Engine, list[RequestHandle]]]:
    """An engine whose requests are there before it starts, so that one call computes all of their prompts."""
    engine = Engine(backend, options, observers=observers, clock=clock)
    handles = [engine.submit(prompt, budget, end_tokens=ENDLESS) for prompt in prompts]
    engine.start(placement)
    async with asyncio.timeout(LIMIT_S):
        yield engine, handles
        engine.shutdown()
        summary = await engine.wait_closed()
    assert summary.crashed is None
    assert not summary.residual_sequences


async def test_the_call_ends_and_only_the_cancelled_request_with_it(placement: Placement) -> None:
    blocked, log = BlockedCall(2), StepLog()
    async with together(scripted(blocked), placement, [[1, 2]] * 3, 8, observers=[log]) as (engine, handles):
        await asyncio.to_thread(blocked.entered.wait)
        handles[1].cancel()
        results = [await handle.result() for handle in handles]
        assert [each.reason for each in results] == [FinishReason.LENGTH, FinishReason.CANCELLED, FinishReason.LENGTH]
        assert results[1].num_decoded == 2  # of calls 0 and 1
        for number in (0, 2):
            assert results[number].tokens == tuple(SCRIPT[1 + number][:8])
        totals = (await engine.ask_snapshot()).totals
        assert (totals.interrupted_calls, totals.decode_failures) == (1, 0)
    assert [record.plan.step for record in log.records if isinstance(record.outcome, Interrupted)] == [3]


async def test_it_is_off_unless_asked_for(placement: Placement) -> None:
    blocked = BlockedCall(1)
    async with running(scripted(blocked), placement) as engine:
        handle = engine.submit([1, 2], 8, end_tokens=ENDLESS)
        await asyncio.to_thread(blocked.entered.wait)
        handle.cancel()
        assert not blocked.release.is_set()
        blocked.release.set()
        assert (await handle.result()).num_decoded == 2  # the call was made to its end
        assert (await engine.ask_snapshot()).totals.interrupted_calls == 0


async def test_a_cancel_of_somebody_who_waits_leaves_the_call_alone(placement: Placement) -> None:
    blocked = BlockedCall(0)
    async with running(scripted(blocked), placement, AT_ONCE) as engine:
        holders = [engine.submit([1], 3, end_tokens=ENDLESS) for _ in range(engine.limits.num_sequences)]
        waiter = engine.submit([1], 3, end_tokens=ENDLESS)
        await asyncio.to_thread(blocked.entered.wait)
        waiter.cancel()
        assert not blocked.release.is_set()
        blocked.release.set()
        assert (await waiter.result()).reason is FinishReason.CANCELLED
        assert [(await handle.result()).reason for handle in holders] == [FinishReason.LENGTH] * len(holders)


async def test_the_time_to_drain_is_over_inside_a_call(placement: Placement) -> None:
    blocked = BlockedCall(0)
    async with together(scripted(blocked), placement, [[1]] * 6, 15) as (engine, handles):
        await asyncio.to_thread(blocked.entered.wait)
        engine.shutdown()
        assert not blocked.release.is_set(), "a drain lets running requests finish"
        engine.cancel_all()
        results = [await handle.result() for handle in handles]
    assert {each.cancel_reason for each in results} == {CancelReason.SHUTDOWN}
    assert {each.num_decoded for each in results} == {0}


async def test_a_call_that_is_almost_over_is_let_go(placement: Placement) -> None:
    """Without a prediction it is taken to go on for as long as it took so far."""
    blocked, clock = BlockedCall(0), ManualClock()
    options = EngineOptions(check=True, interrupt_after_ms=50)
    async with together(scripted(blocked), placement, [[1]] * 2, 4, options=options, clock=clock) as (_, handles):
        first, second = handles
        await asyncio.to_thread(blocked.entered.wait)
        clock.advance(49_000)
        first.cancel()
        assert not blocked.release.is_set()
        clock.advance(1000)
        second.cancel()
        assert blocked.release.is_set()
        assert {(await each.result()).num_decoded for each in (first, second)} == {0}


class Whenever(Fault):
    """Calls of certain numbers wait until somebody interrupts them, or lets all of them go."""

    def __init__(self, *calls: int) -> None:
        self._calls = calls
        self._inner = {call: BlockedCall(call) for call in calls}

    def before_decode(self, call: int, rows: Sequence[Row]) -> None:
        if call in self._inner:
            self._inner[call].before_decode(call, rows)

    def interrupt(self) -> None:
        for blocked in self._inner.values():
            blocked.interrupt()

    def of(self, call: int) -> BlockedCall:
        return self._inner[call]


async def test_of_two_calls_in_a_row_one_is_made_to_its_end(placement: Placement) -> None:
    """Else those who cancel could keep everybody else from ever getting on."""
    calls = Whenever(1, 2)
    async with together(scripted(calls), placement, [[1, 2]] * 3, 6) as (engine, handles):
        await asyncio.to_thread(calls.of(1).entered.wait)
        handles[0].cancel()
        await asyncio.to_thread(calls.of(2).entered.wait)
        handles[1].cancel()
        assert not calls.of(2).release.is_set()
        calls.of(2).release.set()
        results = [await handle.result() for handle in handles]
        assert (await engine.ask_snapshot()).totals.interrupted_calls == 1
    assert [each.num_decoded for each in results] == [1, 2, 6]
    assert results[2].tokens == tuple(SCRIPT[3][:6])


class Failing(Fault):
    """The first call fails; its repeats in halves wait, and can be interrupted."""

    def __init__(self) -> None:
        self.repeats = BlockedCall(1)

    def before_decode(self, call: int, rows: Sequence[Row]) -> None:
        self.repeats.before_decode(call, rows)

    def after_decode(self, call: int, rows: Sequence[Row]) -> None:
        if call == 0:
            raise DecodeError(f"{len(rows)} rows were told to fail", code="decode_failed")

    def interrupt(self) -> None:
        self.repeats.interrupt()


async def test_a_call_that_takes_a_failure_apart_is_not_interrupted(placement: Placement) -> None:
    """Some of its sequences are computed already, and what fails alone must not be a matter of who cancels."""
    failing = Failing()
    async with together(scripted(failing), placement, [[1, 2]] * 2, 4) as (_, handles):
        await asyncio.to_thread(failing.repeats.entered.wait)
        handles[0].cancel()
        assert not failing.repeats.release.is_set()
        failing.repeats.release.set()
        assert (await handles[0].result()).reason is FinishReason.CANCELLED
        assert (await handles[1].result()).tokens == tuple(SCRIPT[2][:4])


async def test_b12_a_long_decode_call_is_stopped_and_nobody_else_notices(placement: Placement) -> None:
    """A call of two seconds whose request is cancelled after a tenth of one."""
    entered, clock, log = threading.Event(), ManualClock(), StepLog()
    long_call = 3

    class Pause:
        num_calls = 0

        def __call__(self, interrupted: threading.Event, seconds: float) -> bool:
            assert seconds == 2.0
            self.num_calls += 1
            if self.num_calls != long_call:
                return False  # in no time
            entered.set()
            return interrupted.wait(20)

    async def serve(*, cancels: bool) -> list[tuple[int, ...]]:
        entered.clear()
        backend = SyntheticBackend(SyntheticOptions(base_s=2.0), pause=Pause())
        options = EngineOptions(check=True, interrupt_after_ms=100)
        prompts = [[number, 2, 3] for number in range(3)]
        asked = together(backend, placement, prompts, 10, options=options, observers=[log], clock=clock)
        async with asked as (_, handles):
            await asyncio.to_thread(entered.wait)
            clock.advance(100_000)
            if cancels:
                handles[0].cancel()
            else:
                backend.interrupt()  # so that the call ends, too
            return [(await handle.result()).tokens for handle in handles]

    alone = await serve(cancels=False)
    log.records.clear()
    cancelled = await serve(cancels=True)
    assert cancelled[1:] == alone[1:]
    assert cancelled[0] == alone[0][:2]
    (stopped,) = [record for record in log.records if isinstance(record.outcome, Interrupted)]
    assert stopped.ended_at - stopped.began_at == 100_000, "not two seconds"
