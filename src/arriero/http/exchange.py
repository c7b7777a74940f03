"""Exchange: one HTTP request over ASGI, from its first byte in to its last byte out.

It reads the body within its bound, notices when the client goes, and writes. The socket side holds a bounded amount:
the server's `send` waits while its buffer is full. As long as it need not, a part of a stream is written by a plain
call, which drives `send` to its end at once; when it must, the rest of it becomes a task, and whoever writes waits for
that before the next part. What cannot be framed for the client is kept: an HTTP/1.0 client knows no chunks, so it gets
a stream in one piece, at its end.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import asynccontextmanager
from types import coroutine
from typing import Any, Final

from starlette.types import Message, Receive, Scope, Send

from arriero.core.errors import PayloadTooLarge
from arriero.http.errors import Failure

Headers = Sequence[tuple[bytes, bytes]]

JSON: Final = b"application/json"
EVENT_STREAM: Final = b"text/event-stream; charset=utf-8"

_SENT: Final = object()


class ClientGone(Exception):
    """The client closed its connection before its request was complete."""


class Exchange:
    """One request and its response.

    Attributes:
        is_gone: the client has left.
        status: of the response, None before it began.
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
        self._blocked: asyncio.Task[None] | None = None  # what is left of the last write, if it had to wait
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
            if self._blocked is not None:
                self._blocked.cancel()

    async def _watch(self, on_gone: Callable[[], None]) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if self._is_complete:  # servers say it at the end of every response, too
            return
        self.is_gone = True
        on_gone()

    # ── out ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def is_blocked(self) -> bool:
        """Whether a write waits for the client to read; then none should follow before `unblocked`."""
        return self._blocked is not None and not self._blocked.done()

    async def unblocked(self) -> None:
        """Wait until everything is written."""
        if self._blocked is not None:
            await asyncio.shield(self._blocked)

    def begin_stream(self, headers: Headers) -> None:
        """Start a response of unknown length."""
        self.status = 200
        start = _start(200, [(b"content-type", EVENT_STREAM), (b"cache-control", b"no-cache"), *headers])
        if self._scope.get("http_version") == "1.0":
            self._start, self._kept = start, []
        else:
            self._write_now(start)

    def write(self, data: bytes) -> None:
        """Write a part of a stream; afterwards `is_blocked` says whether to wait. Nothing is written to who is gone."""
        self.num_writes += 1
        self.num_bytes += len(data)
        if self._kept is not None:
            self._kept.append(data)
        else:
            self._write_now({"type": "http.response.body", "body": data, "more_body": True})

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
        self._write_now(message)
        await self.unblocked()

    def _write_now(self, message: Message) -> None:
        """Drive `send` by hand: it gives way to others only if its buffer is full, and mostly it is not.

        The caller may be a callback of the loop, so until `send` gives way there may be no current task.
        """
        if self.is_gone:
            return
        if self._blocked is not None and not self._blocked.done():
            self._blocked = asyncio.create_task(self._write_after(self._blocked, message))
            return
        sending = self._send(message).__await__()
        try:
            awaited = next(sending, _SENT)
        except OSError:  # how some servers say that the client has left
            self.is_gone = True
            return
        self._blocked = None if awaited is _SENT else asyncio.create_task(self._wait(_rest_of(sending, awaited)))

    async def _write_after(self, before: asyncio.Task[None], message: Message) -> None:
        await before
        if not self.is_gone:
            await self._wait(self._send(message))

    async def _wait(self, sending: Awaitable[None]) -> None:
        try:
            await sending
        except OSError:
            self.is_gone = True


@coroutine
def _rest_of(sending: Generator[Any, Any, None], awaited: object) -> Generator[Any, Any, None]:
    """What is left of a call that was begun by hand and waits for `awaited`."""
    try:
        yield awaited
    except BaseException:  # a cancel, mostly
        sending.close()
        raise
    yield from sending


def _start(status: int, headers: list[tuple[bytes, bytes]]) -> Message:
    return {"type": "http.response.start", "status": status, "headers": headers}


def _too_large(max_bytes: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"the body exceeds {max_bytes} bytes; send less or raise --max-body-size")
