"""Trials of responsiveness: a cancel of a request that waits, and streams that start together.

Callers are plain threads, one for each stream, whatever the engine runs on: what is measured ends where a caller goes
on. Every wait has an end: a trial that does not come back is a hang, not a program that stands still.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import pairwise
from queue import SimpleQueue
from typing import Final, TypeAlias, TypeVar

from arriero.core.ids import TokenId
from arriero.core.request import FinishReason
from arriero.engine.engine import Engine
from arriero.engine.handle import RequestHandle, Result

T = TypeVar("T")

NO_END_TOKENS: Final = frozenset[TokenId]()
US: Final = 1_000
_LOOK_AGAIN_S: Final = 0.000_1


class Hang(Exception):
    """A trial did not come back in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelTrial:
    """One cancel of a waiting request; whole nanoseconds from the call that cancels.

    Attributes:
        observed_ns: until the boundary at which the engine ended it, on the engine's clock of whole microseconds.
        future_ns: until its result was set, stamped where that is done.
        resumed_ns: until its caller went on with the result; None if the caller waited for the stream first.
        closed_ns: until its reader saw the end of the stream; None if the caller waited for the result first.
        was_queued: it never had a slot nor a token, and ended as cancelled.
    """

    observed_ns: int
    future_ns: int
    resumed_ns: int | None
    closed_ns: int | None
    was_queued: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FanOutStream:
    """One of several streams that were submitted together; whole nanoseconds from the first submission.

    Attributes:
        admitted_ns: until it got its slot, on the engine's clock.
        gaps_ns: between its tokens as its consumer saw them; 0 inside a piece of several tokens.
        num_pieces: pieces in which its tokens came.
        result: what the engine says.
    """

    admitted_ns: int
    first_ns: int
    closed_ns: int
    complete_ns: int
    gaps_ns: tuple[int, ...]
    num_pieces: int
    result: Result


async def in_thread(work: Callable[[], T], limit_s: float) -> T:
    """Run something in a thread that does not keep the process alive.

    Raises:
        Hang: it did not come back in time; its thread is left behind.
    """
    done: Future[T] = Future()
    done.set_running_or_notify_cancel()  # so that giving up does not take it away from the thread

    def main() -> None:
        try:
            done.set_result(work())
        except Exception as error:  # noqa: BLE001 - raised again where the result is awaited
            done.set_exception(error)

    threading.Thread(target=main, name="experiment-caller", daemon=True).start()
    try:
        async with asyncio.timeout(limit_s):
            return await asyncio.wrap_future(done)
    except TimeoutError:
        raise Hang(f"a trial did not come back within {limit_s:g} s") from None


def cancel_trials(
    engine: Engine, prompt: Sequence[TokenId], budget: int, number: int, limit_s: float, done: list[CancelTrial]
) -> None:
    """Cancel waiting requests one after the other, on an engine that has no slot for them; appends to `done`.

    Every second caller waits for the end of the stream first, the others for the result.

    Raises:
        Hang: one did not come to wait, or did not end.
    """
    for index in range(number):
        handle = engine.submit(prompt, budget, end_tokens=NO_END_TOKENS, want_stream=True)
        _until_waiting(engine, limit_s)
        done.append(_cancel_once(handle, limit_s, by_stream=index % 2 == 1))


def _cancel_once(handle: RequestHandle, limit_s: float, *, by_stream: bool) -> CancelTrial:
    stream = handle.stream
    assert stream is not None, "asked for"
    set_at: SimpleQueue[int] = SimpleQueue()
    handle.when_done(lambda: set_at.put(time.monotonic_ns()))
    began = time.monotonic_ns()
    handle.cancel()
    if by_stream:
        tokens = [token for piece in stream for token in piece]
        ended = time.monotonic_ns()
        result = _result(handle, limit_s)
    else:
        result = _result(handle, limit_s)
        ended = time.monotonic_ns()
        tokens = [token for piece in stream for token in piece]
    was_queued = result.reason is FinishReason.CANCELLED and result.sequence_id is None and not result.num_decoded
    return CancelTrial(
        observed_ns=int(result.finished_at * US) - began,
        future_ns=set_at.get(timeout=limit_s) - began,
        resumed_ns=None if by_stream else ended - began,
        closed_ns=ended - began if by_stream else None,
        was_queued=was_queued and not tokens,
    )


def _until_waiting(engine: Engine, limit_s: float) -> None:
    """Until the engine has taken the request and has gone to sleep over it."""
    give_up_at = time.monotonic() + limit_s
    while engine.snapshot.scheduler.num_waiting != 1:
        if time.monotonic() > give_up_at:
            raise Hang(f"a request was not taken within {limit_s:g} s")
        time.sleep(_LOOK_AGAIN_S)


def _result(handle: RequestHandle, limit_s: float) -> Result:
    try:
        return handle.wait(limit_s)
    except TimeoutError:
        raise Hang(f"a request did not end within {limit_s:g} s") from None


_Asked: TypeAlias = tuple[int, RequestHandle] | None
"""When the first of a trial was submitted, and the request; None: no more."""


class FanOut:
    """Submits requests together and follows each stream on a thread of its own."""

    def __init__(self, engine: Engine, prompt: Sequence[TokenId], budget: int, num_streams: int) -> None:
        """Start the consumers; `close` ends them."""
        self._engine = engine
        self._prompt = prompt
        self._budget = budget
        self._asked: list[SimpleQueue[_Asked]] = [SimpleQueue() for _ in range(num_streams)]
        self._answered: SimpleQueue[FanOutStream] = SimpleQueue()
        for asked in self._asked:
            threading.Thread(target=self._consume, args=(asked,), name="experiment-consumer", daemon=True).start()

    def trial(self) -> list[FanOutStream]:
        """One trial, in the order in which the streams ended."""
        began = time.monotonic_ns()
        for asked in self._asked:
            handle = self._engine.submit(self._prompt, self._budget, end_tokens=NO_END_TOKENS, want_stream=True)
            asked.put((began, handle))
        return [self._answered.get() for _ in self._asked]

    def close(self) -> None:
        """End the consumers that do not follow a stream."""
        for asked in self._asked:
            asked.put(None)

    def _consume(self, asked: "SimpleQueue[_Asked]") -> None:
        while (ask := asked.get()) is not None:
            began, handle = ask
            self._answered.put(_follow(handle, began))


def _follow(handle: RequestHandle, began: int) -> FanOutStream:
    assert handle.stream is not None, "asked for"
    stamps: list[int] = []
    num_pieces = 0
    for piece in handle.stream:
        stamps.extend([time.monotonic_ns()] * len(piece))
        num_pieces += 1
    closed = time.monotonic_ns()
    result = handle.wait()
    complete = time.monotonic_ns()
    admitted_at = result.finished_at if result.admitted_at is None else result.admitted_at
    return FanOutStream(
        admitted_ns=int(admitted_at * US) - began,
        first_ns=(stamps[0] if stamps else closed) - began,
        closed_ns=closed - began,
        complete_ns=complete - began,
        gaps_ns=tuple(later - earlier for earlier, later in pairwise(stamps)),
        num_pieces=num_pieces,
        result=result,
    )
