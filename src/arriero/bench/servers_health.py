"""Whether a server answers, and what it says of itself: one plain GET over a connection of its own."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import msgspec

T = TypeVar("T")

_STATUS: Final = re.compile(rb"HTTP/1\.[01] (\d{3})")
_TLS_PORT: Final = 443
_PLAIN_PORT: Final = 80
_MOST_BYTES: Final = 1 << 20
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


async def status_of(url: str, path: str, *, patience_s: float = 1.0) -> int | None:
    """The HTTP status of a path; None if nobody answers in time, or something that is no HTTP."""
    return await _get(url, path, patience_s, _read_status)


async def json_of(url: str, path: str, *, patience_s: float = 1.0) -> dict[str, Any] | None:
    """The JSON object at a path; None if there is none."""
    return await _get(url, path, patience_s, _read_object)


async def _get(
    url: str, path: str, patience_s: float, read: Callable[[asyncio.StreamReader], Awaitable[T | None]]
) -> T | None:
    parts = urlsplit(url)
    is_tls = parts.scheme == "https"
    port = parts.port or (_TLS_PORT if is_tls else _PLAIN_PORT)
    try:
        async with asyncio.timeout(patience_s):
            reader, writer = await asyncio.open_connection(parts.hostname or "", port, ssl=is_tls or None)
            try:
                # HTTP/1.0, so that the body comes in one piece that ends with the connection
                writer.write(f"GET {path} HTTP/1.0\r\nHost: {parts.netloc}\r\nConnection: close\r\n\r\n".encode())
                return await read(reader)
            finally:
                writer.close()
    except (OSError, TimeoutError, ValueError):  # ValueError: a line or a page beyond all measure
        return None


async def _read_status(reader: asyncio.StreamReader) -> int | None:
    match = _STATUS.match(await reader.readline())
    return None if match is None else int(match[1])


async def _read_object(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    page = b""
    while more := await reader.read(_MOST_BYTES):
        page += more
        if len(page) > _MOST_BYTES:
            return None
    head, _, body = page.partition(b"\r\n\r\n")
    match = _STATUS.match(head)
    if match is None or int(match[1]) != HTTPStatus.OK:
        return None
    try:
        return _decode(body)
    except msgspec.DecodeError:
        return None
