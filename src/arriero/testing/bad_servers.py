"""BadServer: a server that does to its clients exactly what a script says, byte by byte.

    server = BadServer([Send(head), Send(event), Close()])
    target = HttpTarget("http://bad", network=MemoryNetwork(server.connection))       # or: await server.listen()

What it does after a request is a script of actions; `bad_servers_catalogue` names the usual ones. Each action takes a
turn of the event loop of its own, so that the client sees them apart.
"""

import asyncio
import socket
import ssl
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

import httptools

from arriero.testing.memory_network import MemoryTransport

_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class Send:
    """Write these bytes."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Pause:
    """Do nothing for so long."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Hold:
    """Do nothing more until the client goes away."""


@dataclass(frozen=True, slots=True)
class Close:
    """Close the connection in good order."""


@dataclass(frozen=True, slots=True)
class Reset:
    """Break the connection, so that the client is told of an error."""


Action: TypeAlias = Send | Pause | Hold | Close | Reset
Script: TypeAlias = Sequence[Action]


class BadServer:
    """Plays a script for each request.

    Attributes:
        requests: every request that came, its whole bytes.
        num_left: connections that the client closed first.
    """

    def __init__(self, *scripts: Script, greeting: Script = ()) -> None:
        """The first script is for the first request, and so on; the last one for all that follow.

        Args:
            scripts: one at least.
            greeting: done as soon as somebody connects.
        """
        assert scripts, "one script at least"
        self._scripts = scripts
        self.greeting = greeting
        self.requests: list[bytes] = []
        self.num_left = 0

    def connection(self) -> "BadConnection":
        """A protocol for one connection."""
        return BadConnection(self)

    async def listen(self, tls: ssl.SSLContext | None = None) -> asyncio.Server:
        """Listen on a port of its own; it is `server.sockets[0].getsockname()[1]`."""
        return await asyncio.get_running_loop().create_server(self.connection, "127.0.0.1", 0, ssl=tls)

    def script_for(self, request: bytes) -> Script:
        """What to do after a request."""
        self.requests.append(request)
        return self._scripts[min(len(self.requests), len(self._scripts)) - 1]


class BadConnection(asyncio.Protocol):
    """One connection of a bad server."""

    def __init__(self, server: BadServer) -> None:
        """Not connected yet."""
        self._server = server
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._next: asyncio.Handle | None = None
        self._raw = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody connected."""
        self._transport = cast("asyncio.Transport", transport)
        self._play(self._server.greeting, 0)

    def data_received(self, data: bytes) -> None:
        """Read until a request is complete."""
        self._raw += data
        if self._parser is not None:
            self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        """A request is complete: play its script."""
        raw, self._raw = self._raw, b""
        self._play(self._server.script_for(raw), 0)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is closed."""
        del exc
        if self._transport is not None and not self._transport.is_closing():
            self._server.num_left += 1
        if self._next is not None:
            self._next.cancel()
        self._parser = self._transport = self._next = None

    def eof_received(self) -> None:
        """The client has gone."""
        self._server.num_left += 1
        if self._transport is not None:
            self._transport.close()

    def _play(self, script: Script, index: int) -> None:
        self._next = None
        transport = self._transport
        if index == len(script) or transport is None:
            return
        delay_s = 0.0
        match script[index]:
            case Send(data):
                transport.write(data)
            case Pause(delay_s):
                pass
            case Hold():
                return
            case Close():
                transport.close()
            case Reset():
                _reset(transport)
        if delay_s:
            self._next = self._loop.call_later(delay_s, self._play, script, index + 1)
        else:
            self._next = self._loop.call_soon(self._play, script, index + 1)


def _reset(transport: asyncio.Transport) -> None:
    if isinstance(transport, MemoryTransport):
        transport.reset()
        return
    sock = transport.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    transport.abort()
