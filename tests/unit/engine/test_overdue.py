"""Who looks at the clock while a call computes: with the engine's clock, which the test moves."""

import threading

import pytest

from arriero.core.ids import Epoch, RequestId
from arriero.engine.engine import Engine
from arriero.engine.interrupter import Interrupter, InterruptibleCall, Interruption
from arriero.engine.options import EngineOptions
from arriero.engine.overdue import LOOK_EVERY, OverdueWatch
from arriero.engine.placement import Dedicated
from arriero.testing.clock import ManualClock
from arriero.testing.fakes import FaultyBackend, ScriptedBackend
from arriero.testing.faults import BlockedCall
from tests.unit.engine.driving import ENDLESS, LIMIT_S
from tests.unit.engine.machines import scaling_cost

CALL = InterruptibleCall({RequestId(1): Epoch(1)}, ends_at=1000, for_one=True, overdue_at=5000)
COST = scaling_cost(1, 2)


class Watched:
    """An interrupter, whoever watches it, and what became of its calls."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.clock = ManualClock()
        self.interrupter = Interrupter(self.ended.set, None)
        self.watch = OverdueWatch(self.interrupter, self.clock)


def test_a_look_ends_what_is_overdue_and_says_when_to_look_again() -> None:
    watched = Watched()
    look = watched.watch._look
    assert look() is None, "there is no call"
    watched.interrupter.enter(CALL)
    assert look() == 5000
    watched.clock.advance(4999)
    assert look() == 1
    assert not watched.ended.is_set()
    watched.clock.advance(1)
    assert look() == LOOK_EVERY
    assert watched.ended.is_set()
    assert look() is None, "a call ends once"


def test_a_call_of_minutes_is_looked_at_as_often_as_others() -> None:
    """Else a short one that follows would be looked at when the long one would have been overdue."""
    watched = Watched()
    watched.interrupter.enter(CALL._replace(overdue_at=60_000_000))
    assert watched.watch._look() == LOOK_EVERY


def test_the_thread_ends_an_overdue_call_after_others_that_were_not() -> None:
    watched = Watched()
    watched.watch.start("watch")
    try:
        for _ in range(3):
            watched.interrupter.enter(CALL)
            watched.interrupter.leave()
        watched.interrupter.enter(CALL)
        assert not watched.ended.is_set()
        watched.clock.advance(6000)
        assert watched.ended.wait(LIMIT_S)
        assert watched.interrupter.last is Interruption.OVERDUE
    finally:
        watched.watch.stop()


@pytest.mark.parametrize("adapts", [True, False])
def test_an_engine_that_adapts_its_threads_has_a_watch_until_its_end(adapts: bool) -> None:  # noqa: FBT001 - a table
    name = f"watched-{adapts}"
    blocked, clock = BlockedCall(2), ManualClock()
    options = EngineOptions(check=True, cost=COST, adapts_threads=adapts)
    engine = Engine(FaultyBackend(ScriptedBackend({1: [7] * 9}), blocked), options, clock=clock, name=name)
    handle = engine.submit([1, 2], 8, end_tokens=ENDLESS)
    engine.start(Dedicated())
    threads = [each for each in threading.enumerate() if each.name == f"{name}-overdue"]
    assert len(threads) == adapts
    assert blocked.entered.wait(LIMIT_S)
    clock.advance(1_000_000)
    if not adapts:
        blocked.release.set()
    assert handle.wait(LIMIT_S).tokens == (7,) * 8
    engine.shutdown()
    summary = engine.join(LIMIT_S)
    assert summary.snapshot.totals.overdue_calls == adapts
    for each in threads:
        each.join(LIMIT_S)
        assert not each.is_alive()
