"""The engine on the scripted backend, in both placements."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from arriero.core.errors import (
    ConfigError,
    ContextTooLong,
    Draining,
    EngineDied,
    InvalidRequest,
    QueueFull,
    StepFailed,
)
from arriero.core.events import AdmissionSource, DropSequence, KvOp
from arriero.core.plan import Row
from arriero.core.request import CancelReason, FinishReason, SamplingParams
from arriero.engine.engine import Engine
from arriero.engine.handle import CloseReason
from arriero.engine.observer import StepRecord
from arriero.engine.options import EngineOptions
from arriero.engine.placement import Dedicated, Placement, Shared
from arriero.testing.clock import ManualClock
from arriero.testing.fakes import FaultyBackend, ScriptedBackend
from arriero.testing.faults import (
    BlockedCall,
    FailedCall,
    FailedRequest,
    FailedSampler,
    Fault,
    NoPlace,
    RefusedOp,
)
from tests.unit.engine.driving import CHECKED, ENDLESS, PLACEMENTS, StepLog, collect, running

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("placement", PLACEMENTS, ids=["dedicated", "shared"])]

SCRIPT = {number: [10 * number + k for k in range(20)] for number in range(1, 20)}


def scripted(*faults: Fault) -> FaultyBackend:
    return FaultyBackend(ScriptedBackend(SCRIPT), *faults)


class Crash(Fault):
    """Something that no backend should ever raise."""

    def before_decode(self, call: int, rows: Sequence[Row]) -> None:
        message = f"call {call} hit a bug in {len(rows)} rows"
        raise ZeroDivisionError(message)


async def test_each_request_gets_its_own_tokens(placement: Placement) -> None:
    async with running(scripted(), placement) as engine:
        handles = [engine.submit([1, 2, 3], 5 + n, want_stream=True, end_tokens=ENDLESS) for n in range(10)]
        streams = await asyncio.gather(*map(collect, handles))
        results = [await handle.result() for handle in handles]
    for number, (stream, result) in enumerate(zip(streams, results, strict=True), start=1):
        assert stream == SCRIPT[number][: 4 + number]
        assert result.tokens == tuple(stream)
        assert result.reason is FinishReason.LENGTH
        assert result.pos_max_at_clear == 3 + len(stream) - 2
        assert result.kv_cleared


async def test_an_end_token_ends_the_answer_and_is_not_emitted(placement: Placement) -> None:
    async with running(scripted(), placement) as engine:
        handle = engine.submit([1], 10, end_tokens=frozenset({13}), want_stream=True)
        assert await collect(handle) == [10, 11, 12]
        result = await handle.result()
    assert (result.reason, handle.stream and handle.stream.close_reason) == (FinishReason.STOP, CloseReason.COMPLETED)


async def test_a_running_request_is_cancelled_at_the_next_boundary(placement: Placement) -> None:
    blocked = BlockedCall(2)
    async with running(scripted(blocked), placement) as engine:
        handle = engine.submit([1, 2], 20, want_stream=True, end_tokens=ENDLESS)
        await asyncio.to_thread(blocked.entered.wait)
        handle.cancel()
        blocked.release.set()
        result = await handle.result()
        assert result.reason is FinishReason.CANCELLED
        assert result.cancel_reason is CancelReason.USER
        assert result.num_decoded == result.num_decoded_at_cancel == 3  # calls 0, 1 and 2
        assert await collect(handle) == [10, 11, 12]
        assert (await engine.ask_snapshot()).scheduler.cancels.active_observed == 1


async def test_a_waiting_request_is_cancelled_without_computing_a_row(placement: Placement) -> None:
    blocked = BlockedCall(0)
    async with running(scripted(blocked), placement) as engine:
        holders = [engine.submit([1], 3, end_tokens=ENDLESS) for _ in range(engine.limits.num_sequences)]
        waiter = engine.submit([1], 3, want_stream=True, end_tokens=ENDLESS)
        await asyncio.to_thread(blocked.entered.wait)
        waiter.cancel()
        blocked.release.set()
        result = await waiter.result()
        assert (result.sequence_id, result.num_decoded, result.token_hash, result.kv_cleared) == (None, 0, 0, False)
        assert waiter.stream is not None
        assert waiter.stream.close_reason is CloseReason.CANCELLED
        assert [(await handle.result()).reason for handle in holders] == [FinishReason.LENGTH] * len(holders)
        assert (await engine.ask_snapshot()).totals.queued_cancelled == 1


async def test_a_stale_token_does_not_touch_the_next_life_of_its_id(placement: Placement) -> None:
    async with running(scripted(), placement) as engine:
        first = engine.submit([1], 2, request_id=42, end_tokens=ENDLESS)
        await first.result()
        second = engine.submit([1], 5, request_id=42, end_tokens=ENDLESS)
        engine.cancel_submission(42, first.epoch)
        assert (await second.result()).reason is FinishReason.LENGTH
        assert second.epoch > first.epoch


async def test_cancelling_twice_or_an_unknown_id_changes_nothing(placement: Placement) -> None:
    blocked = BlockedCall(1)
    async with running(scripted(blocked), placement) as engine:
        ten = engine.submit([1], 4, request_id=10, end_tokens=ENDLESS)
        one = engine.submit([1], 4, request_id=1, end_tokens=ENDLESS)
        await asyncio.to_thread(blocked.entered.wait)
        for _ in range(100):
            engine.cancel(1)
        engine.cancel(999)
        blocked.release.set()
        assert (await one.result()).reason is FinishReason.CANCELLED
        assert (await ten.result()).reason is FinishReason.LENGTH
        cancels = (await engine.ask_snapshot()).scheduler.cancels
        assert (cancels.calls, cancels.duplicates, cancels.active_observed) == (101, 99, 1)


async def test_one_failing_request_fails_alone(placement: Placement) -> None:
    async with running(scripted(FailedRequest(2)), placement) as engine:
        handles = [engine.submit([1, 2, 3], 6, end_tokens=ENDLESS, want_stream=True) for _ in range(3)]
        results = [await handle.result() for handle in handles]
        assert [result.reason for result in results] == [FinishReason.LENGTH, FinishReason.FAILED, FinishReason.LENGTH]
        assert isinstance(results[1].error, StepFailed)
        assert results[0].tokens == tuple(SCRIPT[1][:6])
        assert results[2].tokens == tuple(SCRIPT[3][:6])
        assert handles[1].stream is not None
        assert handles[1].stream.close_reason is CloseReason.ERROR
        later = await engine.submit([1], 3, end_tokens=ENDLESS).result()
        assert later.reason is FinishReason.LENGTH
        assert engine.health.accepting


async def test_one_failing_sampler_fails_alone(placement: Placement) -> None:
    sampling = SamplingParams(temperature=0.5, seed=1)
    async with running(scripted(FailedSampler(2, after=1)), placement) as engine:
        handles = [engine.submit([1], 4, sampling=sampling, end_tokens=ENDLESS) for _ in range(3)]
        results = [await handle.result() for handle in handles]
    assert [result.reason for result in results] == [FinishReason.LENGTH, FinishReason.FAILED, FinishReason.LENGTH]
    assert results[1].num_decoded == 1
    assert results[1].error is not None
    assert results[1].error.code == "sampler_failed"


async def test_two_dead_steps_in_a_row_make_the_engine_unhealthy(placement: Placement) -> None:
    async with running(scripted(FailedCall(*range(100))), placement) as engine:
        for _ in range(2):
            assert (await engine.submit([1], 4).result()).reason is FinishReason.FAILED
        await engine.ask_snapshot()
        assert not engine.health.accepting
        with pytest.raises(Draining):
            engine.submit([1], 4)


async def test_who_is_told_of_the_second_dead_step_finds_the_door_closed(placement: Placement) -> None:
    accepting: list[bool] = []
    async with running(scripted(FailedCall(0, 1)), placement) as engine:
        for _ in range(2):
            handle = engine.submit([1, 2], 5)
            # runs where the result is set, so nothing of the step can come in between
            handle.when_done(lambda: accepting.append(engine.health.accepting))
            assert (await handle.result()).reason is FinishReason.FAILED
    assert accepting == [True, False]


async def test_no_place_preempts_one_victim_and_everybody_finishes(placement: Placement) -> None:
    async with running(scripted(NoPlace(3)), placement) as engine:
        handles = [engine.submit([1, 2], 8, end_tokens=ENDLESS) for _ in range(3)]
        results = [await handle.result() for handle in handles]
    assert [result.tokens for result in results] == [tuple(SCRIPT[n][:8]) for n in (1, 2, 3)]
    assert [result.num_preemptions for result in results] == [0, 0, 1]


async def test_a_sequence_that_will_not_clear_is_taken_out_of_service(placement: Placement) -> None:
    async with running(scripted(RefusedOp(DropSequence, 0, times=2)), placement) as engine:
        first = await engine.submit([1], 2, end_tokens=ENDLESS).result()
        assert not first.kv_cleared
        second = await engine.submit([1], 4, end_tokens=ENDLESS).result()
        assert second.tokens == tuple(SCRIPT[2][:4])
        assert second.sequence_id == 1
        assert (await engine.ask_snapshot()).scheduler.kv.sequences_quarantined == 1


async def test_a_crash_fails_every_open_handle(placement: Placement) -> None:
    engine = Engine(scripted(Crash()), CHECKED)
    handles = [engine.submit([1], 4, want_stream=True) for _ in range(3)]
    engine.start(placement)
    for handle in handles:
        with pytest.raises(EngineDied, match="ZeroDivisionError: call 0 hit a bug in 3 rows"):
            await handle.result()
        assert handle.stream is not None
        assert handle.stream.close_reason is CloseReason.ERROR
    summary = await engine.wait_closed()
    assert summary.crashed is not None
    assert not engine.health.alive
    with pytest.raises(EngineDied):
        engine.submit([1], 4)


async def test_shutdown_finishes_what_runs_and_refuses_what_comes(placement: Placement) -> None:
    blocked = BlockedCall(1)
    async with running(scripted(blocked), placement) as engine:
        handle = engine.submit([1], 6, end_tokens=ENDLESS)
        await asyncio.to_thread(blocked.entered.wait)
        engine.shutdown()
        engine.shutdown()
        with pytest.raises(Draining):
            engine.submit([1], 6)
        with pytest.raises(Draining):
            engine.enter()
        blocked.release.set()
        assert (await handle.result()).reason is FinishReason.LENGTH


async def test_shutdown_ends_waiters_that_can_never_be_admitted(placement: Placement) -> None:
    options = EngineOptions(check=True, published_pools=False)
    engine = Engine(scripted(), options)
    active = [engine.submit([1], 2, preloaded=True, end_tokens=ENDLESS) for _ in range(engine.limits.num_sequences)]
    waiter = engine.submit([1], 2, want_stream=True)
    engine.start(placement)
    for handle in active:
        await handle.result()
    engine.shutdown()
    result = await waiter.result()
    assert result.reason is FinishReason.ABORTED
    assert waiter.stream is not None
    assert waiter.stream.close_reason is CloseReason.ERROR
    assert (await engine.wait_closed()).snapshot.totals.queued_cancelled == 0


async def test_cancel_all_ends_everything_at_the_next_boundary(placement: Placement) -> None:
    blocked = BlockedCall(0)
    async with running(scripted(blocked), placement) as engine:
        handles = [engine.submit([1], 15, end_tokens=ENDLESS) for _ in range(7)]
        await asyncio.to_thread(blocked.entered.wait)
        engine.cancel_all()
        blocked.release.set()
        reasons = {(await handle.result()).cancel_reason for handle in handles}
    assert reasons == {CancelReason.SHUTDOWN}


async def test_the_backlog_refuses_at_the_door(placement: Placement) -> None:
    blocked = BlockedCall(0)
    async with running(scripted(blocked), placement, EngineOptions(check=True, backlog=2)) as engine:
        limit = engine.limits.num_sequences + 2
        handles = [engine.submit([1], 2, end_tokens=ENDLESS) for _ in range(limit)]
        with pytest.raises(QueueFull):
            engine.submit([1], 2)
        with pytest.raises(QueueFull):
            engine.enter()
        await asyncio.to_thread(blocked.entered.wait)
        blocked.release.set()
        for handle in handles:
            await handle.result()
        with engine.enter() as place:
            place.leave()
        assert (engine.door.in_flight, engine.door.peak, engine.door.refused) == (0, limit, 2)


@pytest.mark.parametrize(
    ("bad", "error", "field"),
    [
        ({"prompt": []}, InvalidRequest, "prompt"),
        ({"max_tokens": 0}, InvalidRequest, "max_tokens"),
        ({"prompt": [10**9]}, InvalidRequest, "prompt"),
        ({"prompt": [-1]}, InvalidRequest, "prompt"),
        ({"max_tokens": 10**6}, ContextTooLong, "prompt"),
        ({"min_tokens": 5}, InvalidRequest, "min_tokens"),
        ({"preloaded": True}, InvalidRequest, "preloaded"),
    ],
)
async def test_what_can_never_run_is_refused_at_once(
    placement: Placement, bad: dict[str, Any], error: type[InvalidRequest], field: str
) -> None:
    arguments: dict[str, Any] = {"prompt": [1], "max_tokens": 4, **bad}
    async with running(scripted(), placement, EngineOptions(backlog=3)) as engine:
        with pytest.raises(error) as refusal:
            engine.submit(**arguments)
        assert refusal.value.field == field
        assert engine.door.in_flight == 0
        assert engine.snapshot.totals.submitted == 0


async def test_an_id_that_is_alive_is_refused(placement: Placement) -> None:
    blocked = BlockedCall(0)
    async with running(scripted(blocked), placement) as engine:
        first = engine.submit([1], 3, request_id=7, end_tokens=ENDLESS)
        await asyncio.to_thread(blocked.entered.wait)
        second = engine.submit([1], 3, request_id=7, end_tokens=ENDLESS)
        blocked.release.set()
        with pytest.raises(InvalidRequest, match="request id 7 is alive"):
            await second.result()
        assert (await first.result()).tokens == tuple(SCRIPT[7][:3])


async def test_a_deadline_cancels_while_running_and_while_waiting(placement: Placement) -> None:
    blocked, clock = BlockedCall(0), ManualClock()
    async with running(scripted(blocked), placement, clock=clock) as engine:
        slots = engine.limits.num_sequences
        handles = [engine.submit([1], 15, timeout_ms=1, end_tokens=ENDLESS) for _ in range(slots + 1)]
        await asyncio.to_thread(blocked.entered.wait)
        clock.advance(1000)
        blocked.release.set()
        results = [await handle.result() for handle in handles]
    assert {result.cancel_reason for result in results} == {CancelReason.TIMEOUT}
    assert [result.num_decoded for result in results] == [1] * slots + [0]


async def test_a_lagging_consumer_is_shed_and_nobody_else_notices(placement: Placement) -> None:
    options = EngineOptions(check=True, stream_high_water=4)
    async with running(scripted(), placement, options) as engine:
        lagging = engine.submit([1], 18, want_stream=True, end_tokens=ENDLESS)
        other = engine.submit([1], 18, end_tokens=ENDLESS)
        assert (await lagging.result()).cancel_reason is CancelReason.SLOW_CONSUMER
        assert (await other.result()).tokens == tuple(SCRIPT[2][:18])
        assert lagging.stream is not None
        assert lagging.stream.num_pending == 5  # the fifth passes the mark; no row is computed after it


async def test_step_numbers_of_preloaded_and_later_requests(placement: Placement) -> None:
    log = StepLog()
    engine = Engine(scripted(), EngineOptions(check=True, keep_alive=False), observers=[log])
    slots = engine.limits.num_sequences
    handles = [engine.submit([1, 2], 4, preloaded=True, end_tokens=ENDLESS) for _ in range(slots + 1)]
    engine.start(placement)
    results = [await handle.result() for handle in handles]
    await engine.wait_closed()
    assert [result.done_step for result in results] == [3] * slots + [7]
    assert results[-1].admitted_step == 4
    assert results[-1].admission_source is AdmissionSource.COMPLETION_FREED
    assert [record.plan.step for record in log.records] == list(range(len(log.records)))
    assert log.records[0].plan.shape.prefill_rows == 2 * slots
    assert len(log.results) == slots + 1


async def test_two_engines_live_side_by_side(placement: Placement) -> None:
    async with running(scripted(), placement) as one, running(scripted(), placement) as two:
        first = [one.submit([1], 6, end_tokens=ENDLESS) for _ in range(5)]
        second = [two.submit([1], 6, end_tokens=ENDLESS) for _ in range(5)]
        for number, (a, b) in enumerate(zip(first, second, strict=True), start=1):
            assert (await a.result()).tokens == (await b.result()).tokens == tuple(SCRIPT[number][:6])


async def test_the_backend_is_used_by_one_thread_at_a_time(placement: Placement) -> None:
    class Seen(Fault):
        def __init__(self) -> None:
            self.threads: set[int] = set()

        def before_decode(self, call: int, rows: Sequence[Row]) -> None:
            del call, rows
            self.threads.add(threading.get_ident())

        def refuses(self, op: KvOp) -> bool:
            del op
            self.threads.add(threading.get_ident())
            return False

    seen = Seen()
    async with running(scripted(seen), placement) as engine:
        for handle in [engine.submit([1], 6, end_tokens=ENDLESS) for _ in range(30)]:
            await handle.result()
    assert len(seen.threads) == 1
    assert threading.get_ident() not in seen.threads


async def test_an_observer_that_raises_is_left_out(placement: Placement) -> None:
    class Broken(StepLog):
        def on_step(self, record: StepRecord) -> None:
            message = f"step {record.plan.step} is no good"
            raise RuntimeError(message)

    log = StepLog()
    async with running(scripted(), placement, CHECKED, [Broken(), log]) as engine:
        assert (await engine.submit([1], 6, end_tokens=ENDLESS).result()).reason is FinishReason.LENGTH
    assert sum(record.plan.shape.num_rows for record in log.records) == 6


async def test_cancelling_a_waiting_task_leaves_the_request_alone(placement: Placement) -> None:
    blocked = BlockedCall(0)
    async with running(scripted(blocked), placement) as engine:
        handle = engine.submit([1], 3, end_tokens=ENDLESS)
        await asyncio.to_thread(blocked.entered.wait)
        task = asyncio.create_task(handle.result())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        blocked.release.set()
        assert (await handle.result()).reason is FinishReason.LENGTH


async def test_an_engine_starts_once(placement: Placement) -> None:
    async with running(scripted(), placement) as engine:
        with pytest.raises(ConfigError, match="starts once"):
            engine.start(placement)


async def test_preloaded_prompts_must_fit_one_batch(placement: Placement) -> None:
    engine = Engine(scripted())
    for _ in range(4):
        engine.submit([1] * 40, 2, preloaded=True)
    with pytest.raises(ConfigError, match="160 tokens together and one batch has 64"):
        engine.start(placement)


async def test_a_plain_thread_can_wait_and_read(placement: Placement) -> None:
    async with running(scripted(), placement) as engine:

        def client() -> list[int]:
            handle = engine.submit([1], 6, want_stream=True, end_tokens=ENDLESS)
            assert handle.stream is not None
            tokens = [token for piece in handle.stream for token in piece]
            assert handle.wait(10).tokens == tuple(tokens)
            return tokens

        assert await asyncio.to_thread(client) == SCRIPT[1][:6]


async def test_cpus_that_cannot_be_had_are_an_error(placement: Placement) -> None:
    del placement
    engine = Engine(scripted())
    with pytest.raises(ConfigError, match="--engine-cpus 4095"):
        engine.start(Dedicated(cpus=(4095,)))
    engine.start(Shared())
    engine.shutdown()
    await engine.wait_closed()
