"""Exchange: one HTTP request over ASGI, from its first byte in to its last byte out.

It reads the body within its bound, notices when the client goes, and writes. The socket side holds a bounded amount:
the server's `send` waits while its buffer is full, and whoever writes waits with it. What cannot be framed for the
client is kept: an HTTP/1.0 client knows no chunks, so it gets a stream in one piece, at its end.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from starlette.types import Message, Receive, Scope, Send

from arriero.core.errors import PayloadTooLarge
from arriero.http.errors import Failure

Headers = Sequence[tuple[bytes, bytes]]

JSON: Final = b"application/json"
EVENT_STREAM: Final = b"text/event-stream; charset=utf-8"


class ClientGone(Exception):
    """The client closed its connection before its request was complete."""


class Exchange:
    """One request and its response; one task writes.

    Attributes:
        is_gone: the client has left.
        status: of the response, None before it began.
        was_blocked: the last write had to wait for the client to read.
        num_writes, num_bytes: of the response's body.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Nothing is read or written yet."""
        self._scope = scope
        self._receive = receive
        self._send = send
        self._kept: list[bytes] | None = None  # HTTP/1.0: the stream so far
        self._start: Message | None = None
        self._is_complete = False
        self.is_gone = False
        self.status: int | None = None
        self.was_blocked = False
        self.num_writes = 0
        self.num_bytes = 0

    @property
    def path(self) -> str:
        """The path that was asked for."""
        path: str = self._scope["path"]
        return path

    @property
    def has_begun(self) -> bool:
        """Whether the response has, so that its status cannot change any more."""
        return self.status is not None

    def header(self, name: bytes) -> bytes | None:
        """The first request header of this lower-case name."""
        headers: list[tuple[bytes, bytes]] = self._scope["headers"]
        return next((value for each, value in headers if each == name), None)

    async def read_body(self, max_bytes: int) -> bytes:
        """The whole body.

        Raises:
            PayloadTooLarge: as soon as that is known, by the header if it says so.
            ClientGone: it left first.
        """
        declared = self.header(b"content-length") or b""
        if declared.isdigit() and int(declared) > max_bytes:
            raise _too_large(max_bytes)
        parts: list[bytes] = []
        num_bytes = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self.is_gone = True
                raise ClientGone
            part: bytes = message.get("body", b"")
            parts.append(part)
            num_bytes += len(part)
            if num_bytes > max_bytes:
                raise _too_large(max_bytes)
            if not message.get("more_body", False):
                return b"".join(parts)

    @asynccontextmanager
    async def watched(self, on_gone: Callable[[], None]) -> AsyncGenerator[None]:
        """Call `on_gone` once if the client goes away inside this block; the body has been read before."""
        watch = asyncio.create_task(self._watch(on_gone))
        try:
            yield
        finally:
            watch.cancel()

    async def _watch(self, on_gone: Callable[[], None]) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if self._is_complete:  # servers say it at the end of every response, too
            return
        self.is_gone = True
        on_gone()

    # ── out ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def begin_stream(self, headers: Headers) -> None:
        """Start a response of unknown length."""
        self.status = 200
        start = _start(200, [(b"content-type", EVENT_STREAM), (b"cache-control", b"no-cache"), *headers])
        if self._scope.get("http_version") == "1.0":
            self._start, self._kept = start, []
        else:
            await self._write(start)

    async def write(self, data: bytes) -> None:
        """Write a part of a stream; waits while the client does not read, and does nothing when it is gone."""
        self.num_writes += 1
        self.num_bytes += len(data)
        if self._kept is not None:
            self._kept.append(data)
            return
        # `send` gives way to other tasks only if its buffer is full; then this callback runs first.
        self.was_blocked = False
        mark = asyncio.get_running_loop().call_soon(self._mark_blocked)
        await self._write({"type": "http.response.body", "body": data, "more_body": True})
        mark.cancel()

    async def end_stream(self, data: bytes) -> None:
        """Write the last part of a stream."""
        self.num_writes += 1
        self.num_bytes += len(data)
        if self._kept is not None and self._start is not None:
            data = b"".join((*self._kept, data))
            self._start["headers"].append((b"content-length", str(len(data)).encode()))
            await self._write(self._start)
        await self._write_last(data)

    async def respond(self, status: int, body: bytes, headers: Headers = (), content_type: bytes = JSON) -> None:
        """Write a whole response."""
        self.status = status
        self.num_writes += 1
        self.num_bytes += len(body)
        length = (b"content-length", str(len(body)).encode())
        await self._write(_start(status, [(b"content-type", content_type), length, *headers]))
        await self._write_last(body)

    async def refuse(self, failure: Failure, headers: Headers = ()) -> None:
        """Write an error as the whole response."""
        await self.respond(failure.status, failure.body, [*failure.headers, *headers])

    async def _write_last(self, data: bytes) -> None:
        self._is_complete = True
        await self._write({"type": "http.response.body", "body": data, "more_body": False})

    async def _write(self, message: Message) -> None:
        if self.is_gone:
            return
        try:
            await self._send(message)
        except OSError:  # how some servers say it
            self.is_gone = True

    def _mark_blocked(self) -> None:
        self.was_blocked = True


def _start(status: int, headers: list[tuple[bytes, bytes]]) -> Message:
    return {"type": "http.response.start", "status": status, "headers": headers}


def _too_large(max_bytes: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"the body exceeds {max_bytes} bytes; send less or raise --max-body-size")
