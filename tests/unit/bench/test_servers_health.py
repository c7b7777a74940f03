"""A server is asked for its status and its facts, and whatever is no HTTP is nobody."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from arriero.bench.servers_health import json_of, status_of


@asynccontextmanager
async def saying(*answer: bytes) -> AsyncIterator[str]:
    """The address of a server that says this, in pieces, to whoever connects, and hangs up."""

    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        for piece in answer:
            writer.write(piece)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(say, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", 200),
        (b"HTTP/1.0 503 Loading\r\n\r\n{}", 503),
        (b"SSH-2.0-x\r\n", None),
        (b"", None),
        (b"x" * (1 << 17), None),
    ],
)
async def test_the_status_of_whatever_answers(answer: bytes, status: int | None) -> None:
    async with saying(answer) as url:
        assert await status_of(url, "/health") == status


@pytest.mark.parametrize(
    ("pieces", "told"),
    [
        ((b"HTTP/1.1 200 OK\r\nx: y\r\n", b'\r\n{"build_info"', b': "b1"}'), {"build_info": "b1"}),
        ((b"HTTP/1.1 404 Not Found\r\n\r\n{}",), None),
        ((b"HTTP/1.1 200 OK\r\n\r\n<html>",), None),
        ((b"HTTP/1.1 200 OK\r\n\r\n", b"1" * (3 << 20)), None),
        ((b"hello",), None),
    ],
)
async def test_the_object_at_a_path(pieces: tuple[bytes, ...], told: dict[str, str] | None) -> None:
    async with saying(*pieces) as url:
        assert await json_of(url, "/props") == told


async def test_silence_is_nobody() -> None:
    async with asyncio.timeout(30):
        silent = asyncio.Event()

        async def wait(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await silent.wait()
            writer.close()

        server = await asyncio.start_server(wait, "127.0.0.1", 0)
        async with server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            assert await status_of(url, "/health", patience_s=0.05) is None
            silent.set()
