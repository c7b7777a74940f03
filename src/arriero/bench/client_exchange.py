"""Exchange: one request on its connection and the bytes that come back, each with its moment.

It keeps and does not read: bytes become events, chunks and figures when it is over. The exception is a request that
its client means to cancel after some tokens, whose pieces are shown to `on_piece` as they come.
"""

import asyncio
from collections.abc import Callable
from enum import Enum
from typing import Final

from arriero.bench.client_errors import ErrorKind
from arriero.bench.target import Clock

DONE_MARKS: Final = (b"data: [DONE]\n\n", b"data: [DONE]\r\n\r\n", b"data:[DONE]\n\n")
"""Ends of a stream. A line feed cannot stand inside JSON, so no text looks like one."""


class Close(Enum):
    """How an exchange came to its end."""

    WHOLE = "whole"  # the end of the body, or the end mark of the stream
    BROKEN = "broken"  # by the server or on the way; `fault` says how
    GAVE_UP = "gave_up"  # the client's limit; `fault` says which
    CANCELLED = "cancelled"  # by the client, as planned


class Exchange:
    """One request and its answer; used once, on one event loop.

    Attributes:
        over: done when it has come to its end.
        on_piece: shown every piece instead of its being kept.
        sent_at: just before the first byte was written; None if it never was.
        status: of the answer; `headers` as they came and `headers_at` when the last of them did.
        pieces: of the body, in order: moment and bytes.
        last_at: when the last bytes of any kind came, or were sent; None before the send.
        closed_at: when it came to its end; `close` how, `fault` a word for what went wrong.
    """

    __slots__ = (
        "_bytes_left", "close", "closed_at", "fault", "headers", "headers_at", "last_at", "on_piece", "over", "pieces",
        "sent_at", "status",
    )  # fmt: skip

    def __init__(self, over: asyncio.Future[None], max_bytes: int) -> None:
        """Nothing is sent yet."""
        self.over = over
        self.on_piece: Callable[[int, bytes], None] | None = None
        self.sent_at: int | None = None
        self.status: int | None = None
        self.headers: list[tuple[bytes, bytes]] = []
        self.headers_at: int | None = None
        self.pieces: list[tuple[int, bytes]] = []
        self.last_at: int | None = None
        self.closed_at: int | None = None
        self.close: Close | None = None
        self.fault: str | None = None
        self._bytes_left = max_bytes

    def begin(self, at: int, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Status line and headers are complete."""
        self.headers_at, self.status, self.headers = at, status, headers

    def add(self, at: int, piece: bytes) -> None:
        """Bytes of the body came."""
        self._bytes_left -= len(piece)
        if self._bytes_left < 0:
            self.end(at, Close.BROKEN, ErrorKind.TOO_LARGE)
        if self.on_piece is None:
            self.pieces.append((at, piece))
        elif self.closed_at is None:
            self.on_piece(at, piece)
        if piece.endswith(DONE_MARKS):
            self.end(at, Close.WHOLE)

    def end(self, at: int, close: Close, fault: str | None = None) -> None:
        """It is over; only the first end counts."""
        if self.closed_at is None:
            self.closed_at, self.close, self.fault = at, close, fault
            if not self.over.done():
                self.over.set_result(None)

    def header(self, name: bytes) -> bytes | None:
        """The first header of that name, given in lower case."""
        return next((value for found, value in self.headers if found.lower() == name), None)


class GiveUp:
    """The time limits of one exchange: ends it when one has passed."""

    __slots__ = ("_clock", "_exchange", "_loop", "_silence_ns", "_silence_timer", "_total_timer")

    def __init__(
        self, exchange: Exchange, clock: Clock, loop: asyncio.AbstractEventLoop, total_s: float | None
    ) -> None:
        """The total time runs from now."""
        self._exchange = exchange
        self._clock = clock
        self._loop = loop
        self._silence_ns = 0
        self._silence_timer: asyncio.TimerHandle | None = None
        self._total_timer: asyncio.TimerHandle | None = None
        if total_s is not None:
            self._total_timer = loop.call_later(total_s, self.now, ErrorKind.TIMEOUT_TOTAL)

    def watch_silence(self, silence_s: float | None) -> None:
        """From now on, the send, silence is limited as well."""
        if silence_s is not None:
            self._silence_ns = round(silence_s * 1e9)
            self._silence_timer = self._loop.call_later(silence_s, self._look)

    def now(self, reason: str) -> None:
        """End the exchange."""
        self._exchange.end(self._clock(), Close.GAVE_UP, reason)

    def stop(self) -> None:
        """The exchange is over."""
        for timer in (self._total_timer, self._silence_timer):
            if timer is not None:
                timer.cancel()
        self._total_timer = self._silence_timer = None

    def _look(self) -> None:
        """Look how long it has been silent, instead of setting a timer anew for every piece."""
        assert self._exchange.last_at is not None, "silence is watched from the send on"
        left_ns = self._exchange.last_at + self._silence_ns - self._clock()
        if left_ns <= 0:
            self.now(ErrorKind.TIMEOUT_SILENCE)
        else:
            self._silence_timer = self._loop.call_later(max(left_ns / 1e9, 0.001), self._look)
