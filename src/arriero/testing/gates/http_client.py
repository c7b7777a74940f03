"""A plain HTTP client on asyncio: one connection for each request, so that nothing is retried behind a gate's back."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

Json: TypeAlias = Any  # what a body decodes to; each gate looks at the fields that it names

READ_SIZE: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Reply:
    """A response, read to its end.

    Attributes:
        headers: by lower-case name.
    """

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Json:
        """The body as JSON."""
        return msgspec.json.decode(self.body)

    @property
    def code(self) -> str | None:
        """The `code` of an error body."""
        code: str | None = self.json["error"]["code"]
        return code

    @property
    def events(self) -> list[tuple[str, Json]]:
        """The server-sent events of the body, as name and data."""
        return [event for part in self.body.decode().split("\n\n") if (event := _event(part)) is not None]


def _event(part: str) -> tuple[str, Json] | None:
    fields = dict(line.split(": ", 1) for line in part.splitlines() if ": " in line)
    return (fields.get("event", "message"), msgspec.json.decode(fields["data"])) if "data" in fields else None


class OpenReply:
    """A response that is still coming; leaving its block closes the connection."""

    def __init__(self, status: int, headers: dict[str, str], body: AsyncIterator[bytes]) -> None:
        """Made by `Client.open`."""
        self.status = status
        self.headers = headers
        self._body = body

    async def read_some(self) -> bytes:
        """The next piece of the body; empty at its end."""
        return await anext(self._body, b"")

    async def read(self) -> Reply:
        """The rest."""
        parts = [part async for part in self._body]
        return Reply(self.status, self.headers, b"".join(parts))


class Client:
    """Talks to one server."""

    def __init__(self, host: str, port: int) -> None:
        """Nothing is connected yet."""
        self._host = host
        self._port = port

    async def post(self, path: str, body: object) -> Reply:
        """POST an object as JSON, or bytes as they are, and read the response."""
        async with self.open("POST", path, body) as reply:
            return await reply.read()

    @asynccontextmanager
    async def open(self, method: str, path: str, body: object = b"") -> AsyncGenerator[OpenReply]:
        """Send a request and read the head of its response; the connection is closed at the end of the block."""
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        head = (
            f"{method} {path} HTTP/1.1\r\nhost: {self._host}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(content)}\r\nconnection: close\r\n\r\n"
        )
        reader, writer = await asyncio.open_connection(self._host, self._port)
        try:
            writer.write(head.encode() + content)
            await writer.drain()
            status, headers = await _read_head(reader)
            chunked = headers.get("transfer-encoding") == "chunked"
            yield OpenReply(status, headers, _chunks(reader) if chunked else _until_end(reader))
        finally:
            writer.close()
            with suppress(OSError):  # the server may have closed it first
                await writer.wait_closed()


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    pairs = (line.split(": ", 1) for line in lines[1:] if line)
    return int(lines[0].split()[1]), {name.lower(): value for name, value in pairs}


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while size := int(await reader.readline(), 16):
        yield (await reader.readexactly(size + 2))[:-2]


async def _until_end(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while data := await reader.read(READ_SIZE):
        yield data
