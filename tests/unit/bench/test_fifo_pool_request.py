"""The end of a pooled request is set once, by whoever comes first."""

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import count

from arriero.bench.fifo_pool_request import PooledRequest, PoolOutcome
from arriero.core.ids import RequestId
from arriero.core.request import Request

OUTCOMES = (PoolOutcome.OK, PoolOutcome.CANCELLED, PoolOutcome.ERROR)


def asked(wake: threading.Event | None = None, budget: int = 8) -> PooledRequest:
    moments = count(100)
    request = Request(request_id=RequestId(7), prompt=(1, 2), max_tokens=budget, arrival_at=0)
    return PooledRequest(request, budget, lambda: next(moments), (wake or threading.Event()).set)


def test_of_many_who_set_the_end_exactly_one_succeeds() -> None:
    for _ in range(30):
        request = asked()
        start = threading.Barrier(len(OUTCOMES))

        def settle(outcome: PoolOutcome, request: PooledRequest = request, start: threading.Barrier = start) -> bool:
            start.wait()
            return request.settle(outcome)

        with ThreadPoolExecutor(len(OUTCOMES)) as threads:
            won = list(threads.map(settle, OUTCOMES))
        assert sum(won) == 1
        assert request.end is not None
        assert request.end.outcome is OUTCOMES[won.index(True)]


def test_what_is_said_after_the_end_is_dropped() -> None:
    request = asked()
    request.start(1)
    request.say(5)
    assert request.cancel()
    request.say(6)
    request.start(0)
    assert not request.settle(PoolOutcome.OK)
    end = request.end
    assert end is not None
    assert (end.outcome, end.tokens, end.context) == (PoolOutcome.CANCELLED, (5,), 1)
    assert end.asked_at < (end.started_at or 0) < (end.first_at or 0) < end.ended_at
    assert request.tokens == [5]


def test_a_request_that_never_ran_has_no_moments_in_between() -> None:
    woken = threading.Event()
    request = asked(woken)
    assert request.settle(PoolOutcome.ERROR, "kv_exhausted")
    assert woken.is_set()
    end = request.end
    assert end is not None
    assert (end.started_at, end.first_at, end.context, end.error) == (None, None, None, "kv_exhausted")
    assert end.token_hash == 0


def test_whoever_is_woken_may_look_at_the_end() -> None:
    request = asked()
    seen: list[bool] = []
    request.wake = lambda: seen.append(request.cancel())  # takes the lock, so the wake must not hold it
    request.settle(PoolOutcome.OK)
    assert seen == [False]


def test_the_hash_is_that_of_the_engine() -> None:
    request = asked()
    for token in (5, 6):
        request.say(token)
    request.settle(PoolOutcome.OK)
    assert request.end is not None
    value = 0xCBF29CE484222325
    for token in (5, 6):
        value = (value ^ token) * 0x100000001B3 % 2**64
    assert request.end.token_hash == value
