"""A slow reader gets its answer whole, and says what went wrong if it does not."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from arriero.bench.ask import Ask
from arriero.bench.null_server import NullServer
from arriero.bench.null_server_options import NullOptions
from arriero.bench.soak.slow_reader import SlowReader, outcome_of, status_of
from arriero.metrics.client_life import ClientLife, Outcome

ASK = Ask(request_id="slow", prompt=(1, 2, 3), max_tokens=20)
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def ask_server(server: asyncio.Server, *, limit_s: float = 20, num_bytes: int = 256) -> ClientLife:
    port = server.sockets[0].getsockname()[1]
    reader = SlowReader(f"http://127.0.0.1:{port}", num_bytes=num_bytes, pause_s=0, limit_s=limit_s)
    async with server:
        return await reader.ask(ASK)


async def ask_peer(serve: Serve, *, limit_s: float = 20) -> ClientLife:
    return await ask_server(await asyncio.start_server(serve, "127.0.0.1", 0), limit_s=limit_s)


async def test_an_answer_comes_whole_a_few_bytes_at_a_time() -> None:
    server = await NullServer(NullOptions(num_chunks=None)).listen()
    life = await ask_server(server, num_bytes=64)
    assert (life.outcome, life.status, life.error) == (Outcome.LENGTH, 200, None)
    assert (life.request_id, life.asked_tokens, life.asked_prompt_tokens) == ("slow", 20, 3)
    assert life.sent_at is not None
    assert life.closed_at is not None
    assert life.closed_at >= life.sent_at


async def test_what_was_not_read_yet_stays_on_the_other_side() -> None:
    """A peer that fills its buffers is held up until somebody reads."""
    held_up = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + b"data: {}\n\n" * 2_000_000)
        draining = asyncio.ensure_future(writer.drain())
        await asyncio.wait({draining}, timeout=0.05)
        if not draining.done():
            held_up.set()
        draining.cancel()
        writer.transport.abort()

    life = await ask_peer(serve)
    assert held_up.is_set()
    assert life.outcome is Outcome.ERROR


async def test_an_answer_that_is_cut_is_no_answer() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\ndata: {}\n\n")
        writer.close()

    life = await ask_peer(serve)
    assert (life.outcome, life.status, life.error) == (Outcome.ERROR, 200, "closed_in_body")


async def test_an_answer_that_never_ends_is_given_up() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\ndata: {}\n\n")
        await reader.read()
        writer.close()

    life = await ask_peer(serve, limit_s=0.1)
    assert (life.outcome, life.error) == (Outcome.TIMEOUT, "timeout_total")


async def test_nobody_there_is_an_end_too() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del reader
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    life = await SlowReader(f"http://127.0.0.1:{port}", num_bytes=64, pause_s=0, limit_s=20).ask(ASK)
    assert (life.outcome, life.status, life.error) == (Outcome.ERROR, None, "connection_failed")


@pytest.mark.parametrize(
    ("answer", "error", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\ndata: [DONE]\n\n", None, (Outcome.LENGTH, None)),
        (b"HTTP/1.1 200 OK\r\n\r\ndata: {}\n\n", None, (Outcome.ERROR, "closed_in_body")),
        (b'HTTP/1.1 200 OK\r\n\r\ndata: {"error": {}}\n\ndata: [DONE]', None, (Outcome.ERROR, "error_event")),
        (b"HTTP/1.1 503 Busy\r\n\r\n{}", None, (Outcome.REJECTED, "http_503")),
        (b"HTTP/1.1 429 Slow\r\n\r\n{}", None, (Outcome.REJECTED, "http_429")),
        (b"HTTP/1.1 500 Oh\r\n\r\n{}", None, (Outcome.ERROR, "http_500")),
        (b"", None, (Outcome.ERROR, "closed_before_headers")),
        (b"HTTP/1.1 200 OK\r\n\r\ndata: [DONE]", "timeout_total", (Outcome.TIMEOUT, "timeout_total")),
        (b"nonsense", None, (Outcome.ERROR, "closed_before_headers")),
    ],
)
def test_an_answer_is_judged_by_what_came(
    answer: bytes, error: str | None, expected: tuple[Outcome, str | None]
) -> None:
    assert outcome_of(answer, status_of(answer), error) == expected
