"""The life of one request in a context pool, written once for every runner.

    ask → acquire → [wait] → decode calls → clear → settle → release

It is a generator: it yields what it needs from its runner, to `Wait` until it is woken or to `Compute` something on a
context, and is resumed with the answer. `fifo_pool_runners.py` holds the two runners: plain threads, and an event loop.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from arriero.backend.protocol import Backend
from arriero.bench.fifo_pool import FifoPool, Ticket
from arriero.bench.fifo_pool_request import PooledRequest, PoolLife, PoolOutcome
from arriero.bench.fifo_pool_turn import Turn


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until the request is woken."""


@dataclass(frozen=True, slots=True)
class Compute:
    """Call this where the context is computed, and come back with its answer."""

    context: int
    call: Callable[[], bool]


Service: TypeAlias = Generator[Wait | Compute, bool, PoolLife]
Steps: TypeAlias = Generator[Wait | Compute, bool, None]


def serve(asked: PooledRequest, pool: FifoPool, contexts: Sequence[Backend], cancels_at: int | None) -> Service:
    """Serve one request; returns how it ended.

    Args:
        asked: its wake wakes the runner of this service.
        pool: of as many contexts as there are.
        contexts: by number.
        cancels_at: after so many tokens it is cancelled; None for never.
    """
    if asked.budget == 0:  # nothing to compute, so nothing to wait for
        asked.settle(PoolOutcome.OK)
        return _end_of(asked)
    ticket = pool.acquire(asked.wake)
    if cancels_at == 0:
        asked.cancel()
    while ticket.context is None and asked.end is None:
        yield Wait()
    try:
        if asked.end is None:
            yield from _run(asked, ticket, contexts, cancels_at)
    finally:  # also if somebody made a mistake: those who wait behind must not hang
        if not pool.leave(ticket):
            pool.release(ticket)
    return _end_of(asked)


def _run(asked: PooledRequest, ticket: Ticket, contexts: Sequence[Backend], cancels_at: int | None) -> Steps:
    context = ticket.context
    assert context is not None, "a request runs on the context that it holds"
    asked.start(context)
    turn = Turn(contexts[context], asked)
    while asked.end is None:
        goes_on = yield Compute(context, turn.step)
        if cancels_at is not None and len(asked.tokens) >= cancels_at:
            asked.cancel()
        if not goes_on:
            break
    yield Compute(context, turn.close)
    # The context is empty before the end is told, and free after it.
    asked.settle(PoolOutcome.OK if turn.error is None else PoolOutcome.ERROR, turn.error)


def _end_of(asked: PooledRequest) -> PoolLife:
    assert asked.end is not None, "a request that was served has ended"
    # a cancel may have come during the last decode call, which counts all the same
    return replace(asked.end, decode_calls=asked.decode_calls)
