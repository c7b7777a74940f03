"""Clients that send too slowly or not at all, against uvicorn's own protocol, in virtual time and without sockets."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from uvicorn.server import ServerState

from arriero.http.server import KEEP_ALIVE_S, server_config
from arriero.testing.memory_network import MemoryNetwork
from tests.http.rig import Json, text
from tests.http.virtual import Timed, timed, virtual

S = 1_000_000
BODY = json.dumps(text("x", max_tokens=3)).encode()
HEAD = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(BODY)


class Client(asyncio.Protocol):
    """Keeps what it gets, and notices the end."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.is_closed = asyncio.Event()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.is_closed.set()

    def send(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)

    def answer(self) -> tuple[int, Json]:
        """Status and body of the last response."""
        head, _, body = bytes(self.received).rpartition(b"HTTP/1.1 ")[2].partition(b"\r\n\r\n")
        return int(head[:3]), json.loads(body)


@asynccontextmanager
async def connected(server: Timed) -> AsyncGenerator[Client]:
    config = server_config(server.rig.app, server.rig.service.options)
    config.load()
    state = ServerState()

    def protocol() -> asyncio.Protocol:
        made = config.http_protocol_class(config=config, server_state=state, app_state={})  # type: ignore[call-arg]  # uvicorn's own
        assert isinstance(made, asyncio.Protocol)
        return made

    client = await MemoryNetwork(protocol).connect(Client)
    try:
        yield client
    finally:
        assert client.transport is not None
        client.transport.close()
        await client.is_closed.wait()


@pytest.mark.parametrize("part", [1, 10, len(HEAD) - 1])
@virtual
async def test_a_head_that_does_not_end_is_refused_in_time(part: int) -> None:
    async with timed() as server, connected(server) as client:
        began_at = server.now_us
        client.send(HEAD[:part])
        await client.is_closed.wait()
        status, body = client.answer()
        assert (status, body["error"]["code"]) == (408, "request_too_slow")
        assert "head was not complete within 20 s" in body["error"]["message"]
        assert server.now_us - began_at == 20 * S


@virtual
async def test_a_head_that_comes_byte_by_byte_gets_no_more_time() -> None:
    async with timed() as server, connected(server) as client:
        began_at = server.now_us
        for byte in HEAD[:10]:
            client.send(bytes([byte]))
            await asyncio.sleep(3)
            if client.is_closed.is_set():
                break
        assert client.is_closed.is_set()
        assert server.now_us - began_at <= 21 * S


@pytest.mark.parametrize("part", [0, 1, len(BODY) - 1])
@virtual
async def test_a_body_that_does_not_end_is_refused_and_holds_nothing(part: int) -> None:
    async with timed(head_timeout_s=5, body_timeout_s=10) as server, connected(server) as client:
        began_at = server.now_us
        client.send(HEAD + BODY[:part])
        await client.is_closed.wait()
        status, body = client.answer()
        assert (status, body["error"]["code"]) == (408, "request_too_slow")
        assert "body was not complete within 10 s" in body["error"]["message"]
        assert server.now_us - began_at == 10 * S
        assert server.rig.engine.door.accepted == 0


@virtual
async def test_a_connection_on_which_nothing_comes_is_closed_without_a_word() -> None:
    async with timed() as server, connected(server) as client:
        began_at = server.now_us
        await client.is_closed.wait()
        assert bytes(client.received) == b""
        assert server.now_us - began_at == KEEP_ALIVE_S * S


@virtual
async def test_an_answer_may_take_as_long_as_it_takes() -> None:
    async with timed(step_us=100 * S) as server, connected(server) as client:
        client.send(HEAD + BODY)
        await asyncio.sleep(150)
        assert not client.is_closed.is_set()
        await asyncio.sleep(200)
        status, body = client.answer()
        assert (status, body["usage"]["completion_tokens"]) == (200, 3)


@virtual
async def test_the_next_request_of_a_connection_may_begin_while_an_answer_is_under_way() -> None:
    async with timed(step_us=20 * S) as server, connected(server) as client:
        client.send(HEAD + BODY)
        await asyncio.sleep(1)
        client.send(HEAD[:10])
        await asyncio.sleep(100)
        status, _ = client.answer()
        assert status == 200
        assert not client.is_closed.is_set()


@virtual
async def test_requests_that_come_in_time_are_served_one_after_another() -> None:
    async with timed() as server, connected(server) as client:
        for _ in range(3):
            client.send(HEAD[:20])
            await asyncio.sleep(15)
            client.send(HEAD[20:])
            await asyncio.sleep(100)
            client.send(BODY)
            await asyncio.sleep(1)
            status, body = client.answer()
            assert (status, body["usage"]["completion_tokens"]) == (200, 3)
            client.received.clear()
