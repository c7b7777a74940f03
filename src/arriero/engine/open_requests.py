"""OpenRequests: from a scheduler's events to streams and results.

Owned by the actor. Every handle gets exactly one result or error; a stream is closed before the result is set; and
the consumers of one event loop are woken together, once for all events of a step.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from arriero.core.errors import ArrieroError
from arriero.core.events import (
    Admitted,
    CancelObserved,
    Event,
    Finished,
    Moved,
    Preempted,
    Rejected,
    ReuseVerdict,
    TokenEmitted,
)
from arriero.core.ids import RequestId, SequenceId, TokenId
from arriero.core.request import CancelReason, FinishReason
from arriero.engine.executor import ClearReport
from arriero.engine.handle import CloseReason, RequestHandle, Result, TokenStream
from arriero.engine.inbox import Submit
from arriero.engine.observer import StreamCounts

_FNV_OFFSET: Final = 0xCBF29CE484222325
_FNV_PRIME: Final = 0x100000001B3
_MASK_64: Final = 2**64 - 1


def fold_hash(token_hash: int, token: TokenId) -> int:
    """Fold one generated token into a token hash; 0 stands for no tokens yet.

    FNV-1a with whole 32-bit token ids in place of bytes (the published control plane's token hash).
    """
    start = token_hash or _FNV_OFFSET
    return ((start ^ (token & 0xFFFFFFFF)) * _FNV_PRIME) & _MASK_64


@dataclass(slots=True)
class _Open:
    """What is known of one request until it ends: its first and its latest start among it."""

    handle: RequestHandle
    tokens: list[TokenId] = field(default_factory=list[TokenId])
    token_hash: int = 0
    started: Admitted | None = None
    admitted: Admitted | None = None
    sequence_id: SequenceId | None = None
    cancel: CancelObserved | None = None
    first_token_at: float | None = None
    num_preemptions: int = 0
    is_shed: bool = False


class OpenRequests:
    """Handles by request id, from submission to result."""

    def __init__(self, stream_high_water: int | None) -> None:
        """`stream_high_water`: cancel a request whose consumer lags so many tokens; None: never."""
        self._open: dict[RequestId, _Open] = {}
        self._high_water = stream_high_water
        self._touched: list[RequestHandle] = []
        self._ended: list[Result] = []
        self._streams = StreamCounts()

    @property
    def stream_counts(self) -> StreamCounts:
        """Totals of token streams."""
        return self._streams

    def __len__(self) -> int:
        """Handles without a result."""
        return len(self._open)

    def open(self, submit: Submit, events: Iterable[Event]) -> None:
        """Remember the handle of a request that the scheduler took; one that it rejected gets the error at once.

        A rejected request may bear the id of one that is alive, so it never enters the books.
        """
        if submit.handle.stream is not None:
            self._streams = replace(self._streams, opened=self._streams.opened + 1)
        each = _Open(submit.handle)
        error = next((event.error for event in events if isinstance(event, Rejected)), None)
        if error is None:
            self._open[submit.request.request_id] = each
        else:
            self._fail(each, error)

    def tell(self, events: Iterable[Event], reports: Mapping[SequenceId, ClearReport]) -> None:
        """Pass events on to streams and results; consumers are woken by `wake`."""
        for event in events:
            match event:
                case TokenEmitted():
                    self._tell_token(event)
                case Admitted(request=request):
                    self._admit(self._open[request.request_id], event)
                case Moved(request_id=request_id, to=to):
                    self._open[request_id].sequence_id = to
                case CancelObserved(request_id=request_id):
                    self._open[request_id].cancel = event
                case Preempted(request_id=request_id):
                    self._open[request_id].num_preemptions += 1
                case Finished():
                    self._finish(event, reports)
                case _:
                    pass

    def fail_all(self, error: ArrieroError) -> None:
        """Give every open handle an error."""
        while self._open:
            _, each = self._open.popitem()
            self._fail(each, error)
        self.wake()

    def lagging(self) -> list[RequestHandle]:
        """Handles whose consumers lag beyond the high-water mark; each is named once."""
        if self._high_water is None:
            return []
        lagging: list[RequestHandle] = []
        for each in self._open.values():
            stream = each.handle.stream
            if stream is not None and not each.is_shed and stream.num_pending > self._high_water:
                each.is_shed = True
                lagging.append(each.handle)
        return lagging

    def take_ended(self) -> list[Result]:
        """Results since the last call."""
        ended, self._ended = self._ended, []
        return ended

    def wake(self) -> None:
        """Wake the consumers of all streams that changed: each event loop once, threads one by one."""
        by_loop: dict[asyncio.AbstractEventLoop, list[TokenStream]] = {}
        for handle in self._touched:
            if handle.stream is None:
                continue
            if handle.loop is None:
                handle.stream.notify()
            else:
                by_loop.setdefault(handle.loop, []).append(handle.stream)
        self._touched.clear()
        for loop, streams in by_loop.items():
            if not loop.is_closed():
                loop.call_soon_threadsafe(_wake_all, streams)

    def _admit(self, each: _Open, event: Admitted) -> None:
        each.admitted, each.sequence_id = event, event.sequence_id
        if each.started is None:
            each.started = event
            each.handle.start(event.num_cached)

    def _tell_token(self, event: TokenEmitted) -> None:
        each = self._open[event.request_id]
        if each.handle.stream is not None:
            each.handle.stream.publish(event.token)
            self._touched.append(each.handle)
        each.tokens.append(event.token)
        each.token_hash = fold_hash(each.token_hash, event.token)
        if each.first_token_at is None:
            each.first_token_at = event.at

    def _finish(self, event: Finished, reports: Mapping[SequenceId, ClearReport]) -> None:
        each = self._open.pop(event.request.request_id)
        self._close_stream(each, _close_reason(event))
        result = _result(each, event, reports)
        self._ended.append(result)
        each.handle.resolve(result)

    def _fail(self, each: _Open, error: ArrieroError) -> None:
        self._close_stream(each, CloseReason.ERROR)
        each.handle.fail(error)

    def _close_stream(self, each: _Open, reason: CloseReason) -> None:
        stream = each.handle.stream
        if stream is None:
            return
        stream.close(reason)
        self._touched.append(each.handle)
        counts = self._streams
        closed = {reason.value: getattr(counts, reason.value) + 1}
        self._streams = replace(counts, tokens=counts.tokens + len(each.tokens), **closed)


def _wake_all(streams: list[TokenStream]) -> None:
    for stream in streams:
        stream.wake()


def _close_reason(event: Finished) -> CloseReason:
    match event.reason:
        case FinishReason.STOP | FinishReason.LENGTH:
            return CloseReason.COMPLETED
        case FinishReason.CANCELLED:
            # a stop string was found: to its caller the answer is whole
            return CloseReason.COMPLETED if event.cancel_reason is CancelReason.STOP else CloseReason.CANCELLED
        case FinishReason.ABORTED | FinishReason.FAILED:
            return CloseReason.ERROR


def _result(each: _Open, event: Finished, reports: Mapping[SequenceId, ClearReport]) -> Result:
    started, admitted, cancel = each.started, each.admitted, each.cancel
    report = None if event.sequence_id is None else reports.get(event.sequence_id)
    was_preloaded_active = admitted is not None and admitted.step == 0
    return Result(
        request_id=event.request.request_id,
        sequence_id=each.sequence_id,
        reason=event.reason,
        cancel_reason=event.cancel_reason,
        error=event.error,
        decode_budget=event.request.max_tokens,
        tokens=tuple(each.tokens),
        token_hash=each.token_hash,
        prompt_tokens=len(event.request.prompt),
        preloaded=event.request.preloaded,
        admitted_step=None if admitted is None or was_preloaded_active else admitted.step,
        admission_source=None if admitted is None else admitted.source,
        previous_request_id=None if admitted is None else admitted.previous_request_id,
        done_step=event.step,
        cancel_observed_step=None if cancel is None else cancel.step,
        num_decoded_at_cancel=_decoded_at_cancel(event, cancel),
        pos_max_at_clear=None if report is None else report.pos_max,
        kv_cleared=report is not None and report.cleared,
        num_preemptions=each.num_preemptions,
        arrival_at=event.request.arrival_at,
        admitted_at=None if admitted is None else admitted.at,
        first_token_at=each.first_token_at,
        cancel_observed_at=None if cancel is None else cancel.at,
        finished_at=event.at,
        cached_tokens=0 if started is None else started.num_cached,
        prefix=None if started is None else started.prefix,
        verdict=ReuseVerdict.DISABLED if started is None else started.verdict,
        matched_tokens=0 if started is None else started.num_matched,
    )


def _decoded_at_cancel(event: Finished, cancel: CancelObserved | None) -> int | None:
    if event.reason is not FinishReason.CANCELLED:
        return None
    return 0 if cancel is None else cancel.num_decoded
