"""Reading: from the kept bytes of an answer to what they say, in turns that are too short to delay anybody's stamp."""

import asyncio
from typing import Final

from arriero.bench.client_exchange import Close, Exchange
from arriero.bench.client_outcome import is_stream
from arriero.bench.sse import EventDecoder
from arriero.bench.sse_answer import Answer

PIECES_A_TURN: Final = 64
"""A piece takes a few microseconds; the event loop gets its turn after so many."""


class Reading:
    """Reads the stream of one answer; used once."""

    def __init__(self, answer: Answer) -> None:
        """Nothing is read yet."""
        self._answer = answer
        self._decoder = EventDecoder()

    def feed(self, at: int, piece: bytes) -> None:
        """Read one piece."""
        for event in self._decoder.feed(at, piece):
            self._answer.read(event)

    def finish(self, at: int) -> None:
        """The body has ended."""
        for event in self._decoder.finish(at):
            self._answer.read(event)


class CancelAfter:
    """Reads an answer while it comes, and ends its exchange once enough tokens have come."""

    def __init__(self, exchange: Exchange, answer: Answer, num_tokens: int) -> None:
        """To be the exchange's `on_piece`."""
        self._exchange = exchange
        self._answer = answer
        self._num_tokens = num_tokens
        self.reading = Reading(answer)

    def __call__(self, at: int, piece: bytes) -> None:
        """Look at a piece; a body that is no stream is kept like any other."""
        if not is_stream(self._exchange):
            self._exchange.pieces.append((at, piece))
            return
        self.reading.feed(at, piece)
        if self._answer.num_received >= self._num_tokens:
            self._exchange.end(at, Close.CANCELLED)


async def read_answer(exchange: Exchange, answer: Answer, begun: Reading | None) -> None:
    """Read what an exchange has kept.

    Args:
        exchange: one that is over.
        answer: takes what is read.
        begun: the reading that has seen every piece already, if one has.
    """
    if exchange.status is None:
        return
    if begun is None and not is_stream(exchange) and not _looks_like_events(exchange):
        if exchange.pieces:
            answer.read_body(exchange.pieces[-1][0], b"".join(piece for _, piece in exchange.pieces))
        return
    reading = Reading(answer) if begun is None else begun
    for index, (at, piece) in enumerate(exchange.pieces):
        reading.feed(at, piece)
        if index % PIECES_A_TURN == PIECES_A_TURN - 1:
            await asyncio.sleep(0)
    if exchange.close is Close.WHOLE:
        assert exchange.closed_at is not None, "it is over"
        # a piece that was cut off by the end is read, one that was cut off by a broken connection is not
        reading.finish(exchange.pieces[-1][0] if exchange.pieces else exchange.closed_at)


def _looks_like_events(exchange: Exchange) -> bool:
    """Whether a body that does not say what it is is a stream all the same."""
    has_type = exchange.header(b"content-type") is not None
    return not has_type and bool(exchange.pieces) and exchange.pieces[0][1].lstrip().startswith((b"data:", b":"))
