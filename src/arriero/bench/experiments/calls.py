"""Plain HTTP with JSON both ways, over a connection for each call: for what is asked beside a measurement.

`call` reads a whole response; `events` reads a stream while it comes, for whoever acts on a token.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from arriero.core.errors import ArrieroError

LIMIT_S: Final = 120.0
NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
_DATA: Final = b"data: "
_DONE: Final = b"[DONE]"
_OK: Final = 200


class CallFailed(ArrieroError):
    """A server gave no answer, or one that is no HTTP."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole response.

    Attributes:
        headers: by lower-case name.
        body: decoded JSON, or its text if it is none.
    """

    status: int
    headers: dict[str, str]
    body: Any


async def call(url: str, method: str, path: str, body: object = None) -> Reply:
    """Ask once.

    Raises:
        CallFailed: nobody answers, in time or at all.
    """
    try:
        async with asyncio.timeout(LIMIT_S):
            head, data = await _exchange(url, method, path, b"" if body is None else msgspec.json.encode(body))
        return _reply(head, data)
    except (OSError, TimeoutError, ValueError, IndexError, asyncio.IncompleteReadError) as error:
        raise CallFailed(f"{url}{path}: no answer ({type(error).__name__}: {error})") from None


async def events(url: str, path: str, body: object, *, headers: Mapping[str, str] = NO_HEADERS) -> AsyncGenerator[Any]:
    """The events of a stream as they come, decoded; the end of the connection or `[DONE]` ends it.

    Args:
        url: of the server.
        path: of the endpoint.
        body: as JSON can hold it.
        headers: further ones.

    Raises:
        CallFailed: no answer, another status than 200, or no JSON.
    """
    try:
        async with asyncio.timeout(LIMIT_S), aclosing(_data_of(url, path, body, headers)) as found:
            async for data in found:
                yield msgspec.json.decode(data)
    except (OSError, TimeoutError, ValueError, IndexError) as error:
        raise CallFailed(f"{url}{path}: no stream ({type(error).__name__}: {error})") from None


async def _data_of(url: str, path: str, body: object, headers: Mapping[str, str]) -> AsyncGenerator[bytes]:
    """The data of each event of a stream, as they come."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        writer.write(_request("POST", path, parts.netloc, msgspec.json.encode(body), headers))
        status = int((await reader.readline()).split()[1])
        if status != _OK:
            raise CallFailed(f"{url}{path}: {status} instead of a stream")
        while line := await reader.readline():
            if line.startswith(_DATA) and (said := line[len(_DATA) :].strip()) != _DONE:
                yield said
    finally:
        writer.close()


async def _exchange(url: str, method: str, path: str, data: bytes) -> tuple[bytes, bytes]:
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        writer.write(_request(method, path, parts.netloc, data))
        return await reader.readuntil(b"\r\n\r\n"), await reader.read()
    finally:
        writer.close()


def _request(method: str, path: str, host: str, data: bytes, headers: Mapping[str, str] = NO_HEADERS) -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"{head}content-length: {len(data)}\r\nconnection: close\r\n\r\n".encode() + data


def _reply(head: bytes, data: bytes) -> Reply:
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if headers.get("transfer-encoding", "").lower() == "chunked":
        data = _joined(data)
    try:
        body = msgspec.json.decode(data) if data else None
    except msgspec.DecodeError:
        body = data.decode(errors="replace")
    return Reply(int(first.split()[1]), headers, body)


def _joined(data: bytes) -> bytes:
    """The chunks of a body, put together."""
    found, at = bytearray(), 0
    while size := int(data[at : (end := data.index(b"\r\n", at))].split(b";")[0], 16):
        found += data[end + 2 : end + 2 + size]
        at = end + 2 + size + 2
    return bytes(found)
