"""MemoryNetwork: a client and a server joined without sockets, so that both can live in virtual time.

    server = NullServer(options, clock)
    target = HttpTarget("http://null", clock=clock, network=MemoryNetwork(server.connection))

Bytes arrive in the loop's next turn, or after the latency given, in order. The server's protocol is any
`asyncio.Protocol`; the client is told what a socket would tell it.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from arriero.bench.client_errors import ErrorKind
from arriero.bench.client_network import ConnectFailed

P = TypeVar("P", bound=asyncio.Protocol)


class MemoryNetwork:
    """A `bench.client_network.Network` to one server in this process.

    Attributes:
        refuses: while it is set, connections are refused.
    """

    def __init__(self, server: Callable[[], asyncio.Protocol], *, latency_s: float = 0.0) -> None:
        """`server` makes the server's end of each connection."""
        self._server = server
        self._latency_s = latency_s
        self.refuses = False

    async def resolve(self) -> None:
        """There is only one place to go."""

    async def connect(self, factory: Callable[[], P]) -> P:
        """Join a new protocol of the client to a new one of the server.

        Raises:
            ConnectFailed: it refuses now.
        """
        await asyncio.sleep(self._latency_s)
        if self.refuses:
            raise ConnectFailed(ErrorKind.CONNECTION_REFUSED, "refused, as told")
        ours, theirs = factory(), self._server()
        near, far = MemoryTransport(ours, self._latency_s), MemoryTransport(theirs, self._latency_s)
        near.join(far)
        far.join(near)
        theirs.connection_made(far)
        ours.connection_made(near)
        return ours


class MemoryTransport(asyncio.Transport):
    """One end of a connection; what is written here is received at the other end."""

    def __init__(self, protocol: asyncio.Protocol, latency_s: float) -> None:
        """Not joined to anything yet."""
        super().__init__()
        self._protocol = protocol
        self._latency_s = latency_s
        self._loop = asyncio.get_running_loop()
        self._other: MemoryTransport | None = None
        self._waiting: deque[bytes | None] = deque()  # on their way here; None: the end
        self._is_closing = False
        self._is_lost = False

    def join(self, other: "MemoryTransport") -> None:
        """What is written here arrives there."""
        self._other = other

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send; silently lost on a closed connection, as with sockets."""
        if not self._is_closing and self._other is not None:
            self._other.arrive(bytes(data))

    def is_closing(self) -> bool:
        """Whether it is closed here."""
        return self._is_closing

    def close(self) -> None:
        """Close after what was written."""
        self._shut(None)

    def abort(self) -> None:
        """The same here: nothing is held back."""
        self._shut(None)

    def reset(self) -> None:
        """Break the connection: the other end is told of an error instead of an end."""
        other = self._other
        self._shut(None, tell_other=False)
        if other is not None:
            other.break_off(ConnectionResetError(104, "connection reset, as told"))

    # ── what comes from the other end ───────────────────────────────────────────────────────────────────────────────

    def arrive(self, data: bytes | None) -> None:
        """Something was sent here; None is the end."""
        self._waiting.append(data)
        if self._latency_s:
            self._loop.call_later(self._latency_s, self._deliver)
        else:
            self._loop.call_soon(self._deliver)

    def break_off(self, error: Exception) -> None:
        """The connection is broken; what was on its way still arrives first."""
        self._loop.call_soon(self._lose, error)

    def _deliver(self) -> None:
        data = self._waiting.popleft()
        if self._is_closing:
            return
        if data is not None:
            self._protocol.data_received(data)
        elif not self._protocol.eof_received():
            self._shut(None)

    def _shut(self, error: Exception | None, *, tell_other: bool = True) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        if tell_other and self._other is not None:
            self._other.arrive(None)
        self._loop.call_soon(self._lose, error)

    def _lose(self, error: Exception | None) -> None:
        self._is_closing = True
        if not self._is_lost:
            self._is_lost = True
            self._other = None
            self._protocol.connection_lost(error)
