"""Writing to a client that reads, that does not, and that has left; without a server."""

import asyncio
from typing import Any

from starlette.types import Message

from arriero.http.exchange import Exchange


class Pipe:
    """The server's side of a connection; `send` waits while it is shut."""

    def __init__(self, *, is_open: bool = True) -> None:
        self.got: list[bytes] = []
        self.open = asyncio.Event()
        self.num_abandoned = 0
        self.error: OSError | None = None
        if is_open:
            self.open.set()
        self.exchange = Exchange({"type": "http", "path": "/", "headers": []}, self._receive, self._send)

    async def _receive(self) -> Message:
        await asyncio.get_running_loop().create_future()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if not self.open.is_set():
            try:
                await self.open.wait()
                await asyncio.sleep(0)  # some servers give way more than once
            except (asyncio.CancelledError, GeneratorExit):
                self.num_abandoned += 1
                raise
        if self.error is not None:
            raise self.error
        self.got.append(message.get("body", b"<start>"))


async def settle(exchange: Exchange) -> None:
    async with asyncio.timeout(20):
        await exchange.unblocked()


async def test_a_part_that_finds_room_is_written_when_the_call_returns() -> None:
    pipe = Pipe()
    pipe.exchange.begin_stream([])
    pipe.exchange.write(b"a")
    assert pipe.got == [b"<start>", b"a"]
    assert not pipe.exchange.is_blocked
    await settle(pipe.exchange)


async def test_parts_that_have_to_wait_keep_their_order() -> None:
    pipe = Pipe(is_open=False)
    exchange = pipe.exchange
    exchange.begin_stream([])
    exchange.write(b"a")
    waiting = asyncio.create_task(exchange.end_stream(b"b"))
    await asyncio.sleep(0)
    assert (pipe.got, exchange.is_blocked) == ([], True)
    pipe.open.set()
    async with asyncio.timeout(20):
        await waiting
    assert pipe.got == [b"<start>", b"a", b"b"]
    assert not exchange.is_blocked


async def test_whoever_waits_and_is_cancelled_loses_no_part() -> None:
    pipe = Pipe(is_open=False)
    pipe.exchange.begin_stream([])
    waiting = asyncio.create_task(pipe.exchange.unblocked())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    pipe.open.set()
    await settle(pipe.exchange)
    assert pipe.got == [b"<start>"]


async def test_an_error_of_the_connection_means_that_the_client_has_left() -> None:
    for is_open in (True, False):
        pipe = Pipe(is_open=is_open)
        exchange = pipe.exchange
        pipe.error = OSError("reset")
        exchange.begin_stream([])
        exchange.write(b"a")
        pipe.open.set()
        await settle(exchange)
        assert exchange.is_gone
        exchange.write(b"b")
        assert pipe.got == []


async def test_a_part_that_still_waits_when_its_request_ends_is_given_up() -> None:
    pipe = Pipe(is_open=False)
    async with pipe.exchange.watched(lambda: None):
        pipe.exchange.begin_stream([])
        pipe.exchange.write(b"a")
        await asyncio.sleep(0)
    blocked: asyncio.Task[Any] | None = pipe.exchange._blocked
    assert blocked is not None
    await asyncio.wait([blocked])
    assert pipe.num_abandoned == 1
    assert pipe.got == []
