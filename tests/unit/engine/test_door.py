"""The door of an engine: who starts is not late, who is late does not start, and places come back once."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from arriero.core.errors import KeyLimit
from arriero.core.request import CancelReason
from arriero.engine.door import Door
from arriero.engine.engine import Engine
from arriero.engine.options import EngineOptions
from arriero.engine.placement import Dedicated
from arriero.scheduler.backlog import BacklogLimits
from arriero.testing.clock import ManualClock
from arriero.testing.fakes import FaultyBackend, ScriptedBackend
from arriero.testing.faults import BlockedCall

pytestmark = pytest.mark.anyio


@pytest.fixture
def door() -> Door:
    return Door(BacklogLimits(sequences=1))


async def test_a_late_place_is_named_once_and_tells_whoever_waits(door: Door) -> None:
    told: list[int] = []
    places = [door.enter(start_by=at) for at in (20, 10, 30)]
    for number, place in enumerate(places):
        place.on_late = lambda number=number: told.append(number)
    assert door.next_at() == 10
    for late in door.expire(20):
        late.tell_late()
    assert told == [1, 0]
    assert door.expire(20) == []
    assert (door.next_at(), door.counts.waiting, door.counts.in_flight) == (30, 1, 3)
    for place in places:
        place.leave()
        place.leave()
    assert (door.next_at(), door.counts.in_flight) == (None, 0)


async def test_who_has_started_or_left_is_never_late(door: Door) -> None:
    started, left = door.enter(start_by=10), door.enter(start_by=10)
    started.start()
    left.leave()
    left.start()  # the engine hears of it later
    assert door.expire(1000) == []
    started.leave()
    assert door.counts.in_flight == 0


async def test_a_place_that_nobody_waits_at_is_late_in_silence(door: Door) -> None:
    door.enter(start_by=10)
    for late in door.expire(10):
        late.tell_late()
    assert door.counts.waiting == 0


@pytest.fixture
async def blocked() -> AsyncGenerator[tuple[Engine, BlockedCall, ManualClock]]:
    """An engine whose first decode call stands still."""
    call, clock = BlockedCall(0), ManualClock()
    engine = Engine(FaultyBackend(ScriptedBackend(), call), EngineOptions(key_requests=2), clock=clock)
    engine.start(Dedicated())
    yield engine, call, clock
    call.release.set()
    engine.shutdown()
    await engine.wait_closed()


async def test_the_engine_says_who_waits_no_more(blocked: tuple[Engine, BlockedCall, ManualClock]) -> None:
    engine, call, clock = blocked
    first = engine.submit([1, 2, 3], 2, tenant="a", end_tokens=frozenset())
    await asyncio.to_thread(call.entered.wait)
    second = engine.submit([1, 2, 3, 4], 2, tenant="a", queue_timeout_ms=1, end_tokens=frozenset())
    counts = engine.door
    assert (counts.in_flight, counts.waiting, counts.waiting_tokens) == (2, 1, 4)
    with pytest.raises(KeyLimit):
        engine.submit([1], 2, tenant="a")
    engine.submit([1], 2, end_tokens=frozenset()).cancel()
    clock.advance(1000)
    assert len(engine.places.expire(engine.now())) == 1
    call.release.set()
    assert (await second.result()).cancel_reason is CancelReason.QUEUE_TIMEOUT
    assert len((await first.result()).tokens) == 2
