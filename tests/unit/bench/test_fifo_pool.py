"""The queue of a context pool: first come, first served; a release wakes exactly one."""

import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from arriero.bench.fifo_pool import FifoPool, Ticket
from arriero.core.errors import ConfigError, InvariantViolation


class PoolMachine(RuleBasedStateMachine):
    """A pool beside a naive one: a set of free contexts and a queue of tickets."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = FifoPool(3)
        self.free = {0, 1, 2}
        self.queue: deque[Ticket] = deque()
        self.holders: dict[int, Ticket] = {}
        self.woken: list[int] = []

    @rule()
    def acquire(self) -> None:
        number = self.pool.counts.acquires + self.pool.counts.left + len(self.queue)
        ticket = self.pool.acquire(lambda: self.woken.append(number))
        if self.free:
            assert ticket.context == min(self.free)
            assert not ticket.has_waited
            self.free.remove(min(self.free))
            self.holders[ticket.context] = ticket
        else:
            assert ticket.context is None
            assert ticket.has_waited
            self.queue.append(ticket)

    @precondition(lambda self: bool(self.holders))
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        context = data.draw(st.sampled_from(sorted(self.holders)))
        before = len(self.woken)
        self.pool.release(self.holders.pop(context))
        if self.queue:
            following = self.queue.popleft()
            assert following.context == context
            assert self.woken[before:] == [following.number]
            self.holders[context] = following
        else:
            assert self.woken[before:] == []
            self.free.add(context)

    @precondition(lambda self: bool(self.queue))
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        ticket = data.draw(st.sampled_from(list(self.queue)))
        assert self.pool.leave(ticket)
        self.queue.remove(ticket)

    @precondition(lambda self: bool(self.holders))
    @rule()
    def whoever_holds_a_context_cannot_leave(self) -> None:
        assert not self.pool.leave(next(iter(self.holders.values())))

    @invariant()
    def counts_agree(self) -> None:
        counts = self.pool.counts
        assert counts.in_use == len(self.holders)
        assert counts.acquires - counts.releases == len(self.holders)
        assert counts.wakes == len(self.woken)
        assert counts.waits == counts.wakes + counts.left + len(self.queue)
        assert counts.peak <= 3
        assert list(counts.order) == sorted(counts.order)


TestPoolMachine = PoolMachine.TestCase


def test_two_contexts_are_never_held_by_three_threads_and_all_come_back() -> None:
    pool = FifoPool(2)
    holding = threading.Semaphore(2)
    problems: list[str] = []

    def use() -> None:
        woken = threading.Event()
        for _ in range(50):
            woken.clear()
            ticket = pool.acquire(woken.set)
            if ticket.has_waited:
                woken.wait()
            if ticket.context is None or not holding.acquire(blocking=False):
                problems.append(f"ticket {ticket.number} holds {ticket.context}")
                return
            holding.release()
            pool.release(ticket)

    with ThreadPoolExecutor(8) as threads:
        for each in [threads.submit(use) for _ in range(8)]:
            each.result()
    assert problems == []
    counts = pool.counts
    assert (counts.acquires, counts.releases, counts.in_use) == (400, 400, 0)
    assert counts.waits == counts.wakes
    assert list(counts.order) == list(range(400))


def test_a_waiter_may_use_the_pool_as_soon_as_it_is_woken() -> None:
    pool = FifoPool(1)
    first = pool.acquire(lambda: None)
    waiting: list[Ticket] = []
    waiting.append(pool.acquire(lambda: pool.release(waiting[0])))
    pool.release(first)  # a wake under the lock would hang here
    assert pool.counts.in_use == 0


def test_a_context_cannot_be_released_twice() -> None:
    pool = FifoPool(1)
    ticket = pool.acquire(lambda: None)
    pool.release(ticket)
    with pytest.raises(InvariantViolation, match="ticket 0"):
        pool.release(ticket)


def test_a_ticket_that_has_left_leaves_nothing_behind() -> None:
    pool = FifoPool(1)
    holder, waiting = pool.acquire(lambda: None), pool.acquire(lambda: pytest.fail("it has left"))
    assert pool.leave(waiting)
    assert pool.leave(waiting), "leaving again changes nothing"
    assert pool.counts.left == 1
    pool.release(holder)
    with pytest.raises(InvariantViolation):
        pool.release(waiting)


def test_a_pool_needs_a_context() -> None:
    with pytest.raises(ConfigError, match="at least one"):
        FifoPool(0)
