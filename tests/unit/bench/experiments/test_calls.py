"""Plain calls against a server that says exactly what the test wants."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from arriero.bench.experiments.calls import CallFailed, call, events


@asynccontextmanager
async def saying(answer: bytes) -> AsyncGenerator[tuple[str, list[bytes]]]:
    """A server's address, and what it is asked; it answers once to each connection and closes."""
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        asked.append(head + await reader.readexactly(length))
        writer.write(answer)
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}", asked


async def test_json_goes_both_ways() -> None:
    async with saying(b'HTTP/1.1 200 OK\r\nRetry-After: 1\r\nContent-Length: 7\r\n\r\n{"a":1}') as (url, asked):
        reply = await call(url, "POST", "/tokenize", {"content": "x"})
    assert (reply.status, reply.headers["retry-after"], reply.body) == (200, "1", {"a": 1})
    assert asked[0].startswith(b"POST /tokenize HTTP/1.1\r\n")
    assert asked[0].endswith(b'{"content":"x"}')


async def test_chunked_body_is_put_together() -> None:
    body = b'4\r\n{"a"\r\n3;ext=1\r\n:1}\r\n0\r\n\r\n'
    async with saying(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body) as (url, _):
        assert (await call(url, "GET", "/debug/state")).body == {"a": 1}


async def test_body_that_is_no_json_is_its_text() -> None:
    async with saying(b"HTTP/1.1 200 OK\r\n\r\nname 1\n") as (url, _):
        assert (await call(url, "GET", "/metrics")).body == "name 1\n"


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\n", b"hello\r\n\r\n", b"HTTP/1.1 x\r\n\r\n"])
async def test_answer_that_is_no_http_is_one_error(answer: bytes) -> None:
    async with saying(answer) as (url, _):
        with pytest.raises(CallFailed, match="no answer"):
            await call(url, "GET", "/health")


async def test_nobody_there_is_one_error() -> None:
    async with saying(b"") as (url, _):
        pass
    with pytest.raises(CallFailed, match="no answer"):
        await call(url, "GET", "/health")


async def test_events_of_a_stream_come_decoded_until_done() -> None:
    body = b'HTTP/1.1 200 OK\r\n\r\ndata: {"a":1}\n\nevent: x\ndata: {"a":2}\n\ndata: [DONE]\n\n'
    async with saying(body) as (url, _):
        assert [event async for event in events(url, "/v1/completions", {})] == [{"a": 1}, {"a": 2}]


async def test_stream_that_was_refused_is_one_error() -> None:
    async with saying(b"HTTP/1.1 503 Busy\r\n\r\n{}") as (url, _):
        with pytest.raises(CallFailed, match="503 instead of a stream"):
            await anext(events(url, "/v1/completions", {}))
