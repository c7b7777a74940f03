"""RequestHandle, TokenStream and Result: what a caller holds while the actor works.

Both can be used from an event loop (`await handle.result()`, `async for tokens in handle.stream`) and from a plain
thread (`handle.wait()`, `for tokens in handle.stream`). The engine never waits for a consumer: tokens that nobody has
read yet are merged, so a slow reader gets several in one piece and delays nobody.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from enum import StrEnum

from arriero.core.errors import ArrieroError, EngineFault
from arriero.core.events import AdmissionSource, PrefixSource, ReuseVerdict
from arriero.core.ids import Epoch, RequestId, SequenceId, StepNumber, Time, TokenId
from arriero.core.request import CancelReason, FinishReason


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop of this thread, or None in a plain thread."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class CloseReason(StrEnum):
    """Why a stream ended."""

    COMPLETED = "completed"
    CANCELLED = "cancelled"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Everything about a request that has ended; plain values only.

    Times are whole microseconds on the engine's monotonic clock; None where the moment never came.

    Attributes:
        sequence_id: the last slot it held.
        reason: why it ended.
        cancel_reason: who asked, for a cancel.
        error: for a failed or aborted request.
        token_hash: FNV-1a over whole token ids; 0 without tokens.
        done_step: the step in which it ended.
        pos_max_at_clear: highest position in KV when its sequence was cleared, read from memory; None if it was not.
        kv_cleared: whether its sequence was cleared and then read empty; not so for one whose run is retained.
        num_preemptions: how often it lost its slot before.
        cached_tokens: prompt tokens that it did not compute itself when it started first.
        prefix: where they came from; None if there were none.
        verdict: why they were reused, or not; `DISABLED` for one that never started.
        matched_tokens: leading prompt tokens that some run of its cache scope held then, reused or not.
    """

    request_id: RequestId
    sequence_id: SequenceId | None
    reason: FinishReason
    cancel_reason: CancelReason | None
    error: EngineFault | None
    decode_budget: int
    tokens: tuple[TokenId, ...]
    token_hash: int
    prompt_tokens: int
    preloaded: bool
    admitted_step: StepNumber | None
    admission_source: AdmissionSource | None
    previous_request_id: RequestId | None
    done_step: StepNumber
    cancel_observed_step: StepNumber | None
    num_decoded_at_cancel: int | None
    pos_max_at_clear: int | None
    kv_cleared: bool
    num_preemptions: int
    arrival_at: Time
    admitted_at: Time | None
    first_token_at: Time | None
    cancel_observed_at: Time | None
    finished_at: Time
    cached_tokens: int = 0
    prefix: PrefixSource | None = None
    verdict: ReuseVerdict = ReuseVerdict.DISABLED
    matched_tokens: int = 0

    @property
    def num_decoded(self) -> int:
        """Tokens emitted."""
        return len(self.tokens)


class TokenStream:
    """Token ids of one request, in pieces; one consumer.

    Iterating yields non-empty tuples of ids and ends when the stream is closed; then `close_reason` says why.

    One thread adds and one takes, so tokens need no lock: the engine only appends, the consumer copies and then
    deletes as many as it has copied, and each of these is one operation of the list. Nothing follows the end, so
    whoever reads `close_reason` before taking has the last token. The lock is for waiting in a plain thread.
    """

    def __init__(self) -> None:
        """Start open and empty."""
        self._pending: list[TokenId] = []
        self._close_reason: CloseReason | None = None
        self._changed = threading.Condition()
        self._tell: Callable[[], None] | None = None

    @property
    def close_reason(self) -> CloseReason | None:
        """Why it ended, or None while it is open."""
        return self._close_reason

    @property
    def is_over(self) -> bool:
        """Whether it has ended and every token is taken."""
        return self._close_reason is not None and not self._pending

    @property
    def num_pending(self) -> int:
        """Tokens that the consumer has not taken yet."""
        return len(self._pending)

    # ── the engine's side ───────────────────────────────────────────────────────────────────────────────────────────

    def publish(self, token: TokenId) -> None:
        """Add a token; never waits. The consumer is woken by `notify` or `wake`."""
        assert self._close_reason is None, "a token after the end of its stream"
        self._pending.append(token)

    def close(self, reason: CloseReason) -> None:
        """End the stream; the first reason stays."""
        if self._close_reason is None:
            self._close_reason = reason

    def notify(self) -> None:
        """Wake whoever waits in a thread; a loop is woken by the engine, once for all its streams."""
        with self._changed:
            self._changed.notify_all()

    def wake(self) -> None:
        """Tell the consumer that something has changed; on the consumer's loop only."""
        if self._tell is not None:
            self._tell()

    # ── the consumer's side ─────────────────────────────────────────────────────────────────────────────────────────

    def take(self) -> tuple[TokenId, ...]:
        """What has come since the last call; empty if nothing has."""
        pending = self._pending
        taken = tuple(pending)
        del pending[: len(taken)]
        return taken

    def on_change(self, callback: Callable[[], None] | None) -> None:
        """Call this on the loop that submitted the request whenever tokens or the end have come; None: no more.

        It takes the place of iterating, and must not raise. What has come before is not told.
        """
        self._tell = callback

    def __iter__(self) -> Iterator[tuple[TokenId, ...]]:
        """Wait in a plain thread."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._pending) or self._close_reason is not None)
            if not (taken := self.take()):
                return
            yield taken

    async def __aiter__(self) -> AsyncGenerator[tuple[TokenId, ...]]:
        """Wait on the loop that submitted the request."""
        event = asyncio.Event()
        self.on_change(event.set)
        try:
            while True:
                event.clear()
                closed = self._close_reason is not None  # read first: a last token may come between the two
                if taken := self.take():
                    yield taken
                elif closed:
                    return
                else:
                    await event.wait()
        finally:
            self.on_change(None)


class RequestHandle:
    """One submitted request, as its caller sees it.

    Attributes:
        loop: the event loop on which it was submitted, whose tasks the engine wakes; None for a plain thread.
        cached_tokens: prompt tokens that need not be computed; known once it has started, before its first token comes.
    """

    def __init__(
        self,
        request_id: RequestId,
        epoch: Epoch,
        stream: TokenStream | None,
        cancel: Callable[[CancelReason], None],
        on_start: Callable[[], None] | None = None,
    ) -> None:
        """Made by `Engine.submit`."""
        self.request_id = request_id
        self.epoch = epoch
        self.stream = stream
        self._cancel = cancel
        self._on_start = on_start
        self._future: Future[Result] = Future()
        self.loop = running_loop()
        self.cached_tokens = 0

    def cancel(self, reason: CancelReason = CancelReason.USER) -> None:
        """Ask for an end at the next step boundary; never waits, and does nothing after the end."""
        if not self._future.done():
            self._cancel(reason)

    async def result(self) -> Result:
        """Wait on an event loop.

        Raises:
            EngineDied: the engine crashed before the request ended.
        """
        return await asyncio.shield(asyncio.wrap_future(self._future))

    def wait(self, timeout_s: float | None = None) -> Result:
        """Wait in a plain thread.

        Raises:
            EngineDied: the engine crashed before the request ended.
            TimeoutError: it did not end in time; the request goes on.
        """
        return self._future.result(timeout_s)

    @property
    def is_done(self) -> bool:
        """Whether the result is there."""
        return self._future.done()

    # ── the engine's side ───────────────────────────────────────────────────────────────────────────────────────────

    def start(self, cached_tokens: int) -> None:
        """It takes a slot for the first time."""
        self.cached_tokens = cached_tokens
        if self._on_start is not None:
            self._on_start()

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call this once the result or error is there; where the engine runs."""
        self._future.add_done_callback(lambda _: callback())

    def resolve(self, result: Result) -> None:
        """Hand the result over; exactly once."""
        self._future.set_result(result)

    def fail(self, error: ArrieroError) -> None:
        """Hand an error over instead of a result."""
        self._future.set_exception(error)
