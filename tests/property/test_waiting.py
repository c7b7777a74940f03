"""WaitingQueue, Deadlines and KeyedHeap against sorted lists."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from arriero.core.errors import InvariantViolation
from arriero.core.ids import RequestId, SequenceId
from arriero.core.request import CancelReason, Request
from arriero.scheduler.deadlines import Deadlines, Due
from arriero.scheduler.keyed_heap import KeyedHeap
from arriero.scheduler.progress import Progress
from arriero.scheduler.waiting import WaitingQueue
from tests.property.machines import machine_settings


def progress(
    number: int, expires_at: int | None = None, request_id: int | None = None, start_by: int | None = None
) -> Progress:
    request = Request(
        request_id=RequestId(number if request_id is None else request_id),
        prompt=(1,),
        max_tokens=1,
        arrival_at=0,
        expires_at=expires_at,
        start_by=start_by,
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
    """Requests are watched and let go, start and lose their slot, ids live again, time passes."""

    def __init__(self) -> None:
        super().__init__()
        self.deadlines = Deadlines()
        self.watched: list[Progress] = []
        self.started: list[Progress] = []
        self.number = 0
        self.now = 0

    @rule(request_id=st.integers(1, 5), patience=st.none() | st.integers(0, 20), wait=st.none() | st.integers(0, 20))
    def add(self, request_id: int, patience: int | None, wait: int | None) -> None:
        self.number += 1
        times = [None if each is None else self.now + each for each in (patience, wait)]
        who = progress(self.number, times[0], request_id, times[1])
        self.deadlines.add(who)
        if times == [None, None]:
            self.deadlines.remove(who)
        else:
            self.watched.append(who)

    @precondition(lambda self: self.watched)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        who = self.watched.pop(data.draw(st.integers(0, len(self.watched) - 1)))
        self.deadlines.remove(who)
        self.deadlines.remove(who)

    @precondition(lambda self: self.watched)
    @rule(data=st.data(), loses=st.booleans())
    def start(self, data: st.DataObject, loses: bool) -> None:  # noqa: FBT001
        who = data.draw(st.sampled_from(self.watched))
        if who.sequence_id is None:
            who.admit(SequenceId(0), 0)
        if loses:
            who.preempt()
        self.started.append(who)

    @rule(passed=st.integers(0, 12))
    def due(self, passed: int) -> None:
        self.now += passed
        found: list[Due] = []
        while (due := self.deadlines.take_due(self.now)) is not None:
            self.deadlines.remove(due.progress)  # whose end comes of it
            found.append(due)
        ended = sorted(self.times("expires_at"), key=lambda each: (each[0], each[1].rank))
        expected = [Due(who, CancelReason.TIMEOUT) for at, who in ended if at <= self.now]
        gone = [each.progress for each in expected]
        late = sorted(self.times("start_by"), key=lambda each: (each[0], each[1].rank))
        expected += [Due(who, CancelReason.QUEUE_TIMEOUT) for at, who in late if at <= self.now and who not in gone]
        assert found == expected
        gone = [each.progress for each in expected]
        self.watched = [each for each in self.watched if each not in gone]

    def times(self, field: str) -> list[tuple[int, Progress]]:
        """When each of those watched is due; who has started need not start any more."""
        watched = [each for each in self.watched if field == "expires_at" or each not in self.started]
        return [(at, each) for each in watched if (at := getattr(each.request, field)) is not None]

    @invariant()
    def same_next(self) -> None:
        times = [at for field in ("expires_at", "start_by") for at, _ in self.times(field)]
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
