"""How a request ended, from what its exchange went through and what its answer says."""

from http import HTTPStatus
from typing import NamedTuple

from arriero.bench.client_errors import ErrorKind, status_word
from arriero.bench.client_exchange import Close, Exchange
from arriero.bench.sse_answer import Answer
from arriero.metrics.client_life import Outcome

_REJECTIONS = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})


class Judgement(NamedTuple):
    """The one outcome of a request, and the word for what went wrong."""

    outcome: Outcome
    error: str | None


def judge(exchange: Exchange, answer: Answer, *, wants_stream: bool, needs_done: bool) -> Judgement:
    """The outcome of an exchange that is over and whose answer has been read.

    An answer that is complete stays so, whatever becomes of its connection afterwards.
    """
    if exchange.close is Close.CANCELLED:
        return Judgement(Outcome.CANCELLED_BY_CLIENT, None)
    status = exchange.status
    if status is not None and status != HTTPStatus.OK:
        return _refused(status, answer)
    if exchange.close is not Close.WHOLE and answer.done_at is None:
        return _broken_off(exchange, answer)
    mismatch = _mismatch(exchange, wants_stream=wants_stream)
    if mismatch is not None:
        return Judgement(Outcome.ERROR, mismatch)
    return Judgement(*answer.ending(needs_done=wants_stream and needs_done))


def is_stream(exchange: Exchange) -> bool:
    """Whether the body says that it is an event stream."""
    return _media_type(exchange) == b"text/event-stream"


def _refused(status: int, answer: Answer) -> Judgement:
    word = status_word(status)
    if status in _REJECTIONS:
        return Judgement(Outcome.REJECTED, word)
    return Judgement(Outcome.CANCELLED_BY_SERVER if answer.is_cut else Outcome.ERROR, word)


def _broken_off(exchange: Exchange, answer: Answer) -> Judgement:
    if exchange.close is Close.GAVE_UP:
        return Judgement(Outcome.TIMEOUT, exchange.fault)
    if answer.error is not None:  # it came first
        return Judgement(*answer.ending(needs_done=False))
    return Judgement(Outcome.ERROR, exchange.fault)


def _mismatch(exchange: Exchange, *, wants_stream: bool) -> ErrorKind | None:
    """What is wrong with the kind of the body; one that does not say what it is may be what was asked for."""
    media_type = _media_type(exchange)
    if not media_type or media_type == (b"text/event-stream" if wants_stream else b"application/json"):
        return None
    streams_not = wants_stream and media_type == b"application/json"
    return ErrorKind.NOT_STREAMED if streams_not else ErrorKind.WRONG_CONTENT_TYPE


def _media_type(exchange: Exchange) -> bytes:
    return (exchange.header(b"content-type") or b"").partition(b";")[0].strip().lower()
