"""WaitingQueue, Deadlines and KeyedHeap against sorted lists."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from arriero.core.errors import InvariantViolation
from arriero.core.ids import RequestId
from arriero.core.request import Request
from arriero.scheduler.deadlines import Deadlines
from arriero.scheduler.keyed_heap import KeyedHeap
from arriero.scheduler.progress import Progress
from arriero.scheduler.waiting import WaitingQueue
from tests.property.machines import machine_settings


def progress(number: int, expires_at: int | None = None, request_id: int | None = None) -> Progress:
    request = Request(
        request_id=RequestId(number if request_id is None else request_id),
        prompt=(1,),
        max_tokens=1,
        arrival_at=0,
        expires_at=expires_at,
    )
    return Progress(request, (number,))


class WaitingMachine(RuleBasedStateMachine):
    """Requests come, leave from anywhere and come back to their old place."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = WaitingQueue()
        self.expected: list[Progress] = []
        self.away: list[Progress] = []
        self.next_number = 0

    @rule(skip=st.integers(0, 3))
    def arrive(self, skip: int) -> None:
        self.next_number += 1 + skip
        self._add(progress(self.next_number))

    @precondition(lambda self: self.away)
    @rule(data=st.data())
    def come_back(self, data: st.DataObject) -> None:
        self._add(self.away.pop(data.draw(st.integers(0, len(self.away) - 1))))

    def _add(self, who: Progress) -> None:
        self.queue.add(who)
        self.expected.append(who)
        self.expected.sort(key=lambda each: each.rank)

    @precondition(lambda self: self.expected)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        who = self.expected.pop(data.draw(st.integers(0, len(self.expected) - 1)))
        self.queue.remove(who)
        self.away.append(who)

    @precondition(lambda self: self.away)
    @rule()
    def leave_twice(self) -> None:
        with pytest.raises(InvariantViolation):
            self.queue.remove(self.away[-1])

    @precondition(lambda self: self.expected)
    @rule()
    def arrive_twice(self) -> None:
        with pytest.raises(InvariantViolation):
            self.queue.add(self.expected[0])

    @invariant()
    def same_order(self) -> None:
        assert len(self.queue) == len(self.expected)
        assert list(self.queue) == self.expected
        assert self.queue.head() is (self.expected[0] if self.expected else None)


TestWaiting = WaitingMachine.TestCase
TestWaiting.settings = machine_settings(one_in=5)


class DeadlineMachine(RuleBasedStateMachine):
    """Requests are watched and let go, ids live again, time passes."""

    def __init__(self) -> None:
        super().__init__()
        self.deadlines = Deadlines()
        self.watched: list[Progress] = []
        self.number = 0
        self.now = 0

    @rule(request_id=st.integers(1, 5), patience=st.none() | st.integers(0, 20))
    def add(self, request_id: int, patience: int | None) -> None:
        self.number += 1
        who = progress(self.number, None if patience is None else self.now + patience, request_id)
        self.deadlines.add(who)
        if patience is None:
            self.deadlines.remove(who)
        else:
            self.watched.append(who)

    @precondition(lambda self: self.watched)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        who = self.watched.pop(data.draw(st.integers(0, len(self.watched) - 1)))
        self.deadlines.remove(who)
        self.deadlines.remove(who)

    @rule(passed=st.integers(0, 12))
    def due(self, passed: int) -> None:
        self.now += passed
        order = sorted(self.watched, key=lambda each: (each.request.expires_at, each.rank))
        due = [each for each in order if each.request.expires_at is not None and each.request.expires_at <= self.now]
        assert self.deadlines.due(self.now) == due
        self.watched = [each for each in self.watched if each not in due]

    @invariant()
    def same_next(self) -> None:
        times = [each.request.expires_at for each in self.watched if each.request.expires_at is not None]
        assert self.deadlines.next_at() == min(times, default=None)


TestDeadlines = DeadlineMachine.TestCase
TestDeadlines.settings = machine_settings(one_in=5)


@given(st.randoms(use_true_random=False))
def test_memory_stays_below_twice_what_is_inside_while_the_first_one_stays(rng: random.Random) -> None:
    heap: KeyedHeap[int] = KeyedHeap()
    for number in range(200):
        heap.add((number,), number)
    others = list(range(1, 200))
    rng.shuffle(others)
    for number in others:
        assert heap.remove((number,)) == number
        assert heap.remove((number,)) is None
        assert len(heap._heap) <= max(32, 2 * len(heap))
        assert heap.first() == 0
    assert heap.pop() == 0
    with pytest.raises(InvariantViolation):
        heap.pop()
