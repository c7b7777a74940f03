"""SlowReader: a client that takes a stream from its connection a few bytes at a time.

Its socket has a small buffer and is not read ahead, so what the server has said stays with the server's system, and
beyond that with the server. Nobody else may notice, and the answer must come whole.
"""

import asyncio
import socket
import time
from contextlib import suppress
from http import HTTPStatus
from typing import Final

from arriero.bench.ask import Ask
from arriero.bench.client_errors import ErrorKind, status_word
from arriero.bench.client_options import HttpOptions, parse_url
from arriero.bench.client_wire import RequestWriter
from arriero.bench.target import Clock
from arriero.metrics.client_life import ClientLife, Outcome

_BUFFER_BYTES: Final = 4096  # the least that systems give
_REFUSED: Final = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
_DONE: Final = b"data: [DONE]"
_ERROR: Final = b'data: {"error"'


class SlowReader:
    """Asks a server, each time on a connection of its own."""

    def __init__(
        self, url: str, *, num_bytes: int, pause_s: float, limit_s: float, clock: Clock = time.perf_counter_ns
    ) -> None:
        """Nothing is opened yet.

        Args:
            url: of the server.
            num_bytes: taken at a time, at most.
            pause_s: between two times.
            limit_s: for a whole answer; then it is given up.
            clock: of the moments in the lives.
        """
        self._address = parse_url(url)
        self._writer = RequestWriter(self._address, HttpOptions(reuse_connections=False))
        self._num_bytes = num_bytes
        self._pause_s = pause_s
        self._limit_s = limit_s
        self._clock = clock

    async def ask(self, ask: Ask) -> ClientLife:
        """Send one request and read its answer slowly; whatever happens becomes the outcome."""
        sent_at = self._clock()
        answer = bytearray()
        error: str | None = None
        try:
            async with asyncio.timeout(self._limit_s):
                await self._exchange(ask, answer)
        except TimeoutError:
            error = ErrorKind.TIMEOUT_TOTAL
        except OSError:
            error = ErrorKind.CLOSED_IN_BODY if answer else ErrorKind.CONNECTION_FAILED
        status = status_of(answer)
        outcome, error = outcome_of(answer, status, error)
        return ClientLife(
            request_id=ask.request_id,
            intended_at=None,
            sent_at=sent_at,
            closed_at=self._clock(),
            outcome=outcome,
            asked_tokens=ask.max_tokens,
            status=status,
            error=error,
            asked_prompt_tokens=ask.num_prompt_tokens,
        )

    async def _exchange(self, ask: Ask, answer: bytearray) -> None:
        reader, writer = await self._connect()
        try:
            writer.write(self._writer.post(ask))
            while piece := await reader.read(self._num_bytes):
                answer += piece
                await asyncio.sleep(self._pause_s)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection whose buffers are small on our side."""
        family = socket.AF_INET6 if ":" in self._address.host else socket.AF_INET
        end = socket.socket(family, socket.SOCK_STREAM)
        try:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
            end.settimeout(0)  # as an event loop wants it
            await asyncio.get_running_loop().sock_connect(end, (self._address.host, self._address.port))
            return await asyncio.open_connection(sock=end, limit=self._num_bytes)
        except BaseException:
            end.close()
            raise


def status_of(answer: bytes | bytearray) -> int | None:
    """The HTTP status that an answer begins with; None if it does not."""
    words = bytes(answer[:64]).split(b" ", 2)
    is_http = len(words) > 1 and words[0].startswith(b"HTTP/") and words[1][:3].isdigit()
    return int(words[1][:3]) if is_http else None


def outcome_of(answer: bytes | bytearray, status: int | None, error: str | None) -> tuple[Outcome, str | None]:
    """How it ended, and the word for what went wrong, from what came and from what happened to the connection."""
    if error == ErrorKind.TIMEOUT_TOTAL:
        return Outcome.TIMEOUT, error
    if status is not None and status != HTTPStatus.OK:
        return Outcome.REJECTED if status in _REFUSED else Outcome.ERROR, status_word(status)
    if _ERROR in answer:
        return Outcome.ERROR, ErrorKind.ERROR_EVENT
    if status is None:
        return Outcome.ERROR, error or ErrorKind.CLOSED_BEFORE_HEADERS
    if _DONE not in answer:
        return Outcome.ERROR, error or ErrorKind.CLOSED_IN_BODY
    return Outcome.LENGTH, None
