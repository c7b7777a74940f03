"""Connection and ConnectionPool: HTTP/1.1 connections that are kept, and never waited for.

A request takes an idle connection or gets a new one; it never queues for one that another request holds. Nothing is
ever sent twice: if the server closes a kept connection just as we send on it, that is an error with a word of its own
(`stale_connection`), because nobody can tell whether the request was read. So that this stays rare, a connection is
used again neither at once, when some servers are still closing it, nor after a long time, when most do.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

import httptools

from arriero.bench.client_errors import ErrorKind
from arriero.bench.client_exchange import Close, Exchange
from arriero.bench.client_network import Network
from arriero.bench.target import Clock

_FINAL_STATUS: Final = 200  # below it an answer only announces another one


class Connection(asyncio.Protocol):
    """One connection, with one exchange at a time.

    The moment of bytes is taken first thing in `data_received`; only then are they looked at.
    """

    __slots__ = (
        "_clock", "_closing", "_exchange", "_headers", "_num_sent", "_on_free", "_on_lost", "_parser", "_stamp",
        "_transport", "free_at",
    )  # fmt: skip

    def __init__(
        self, clock: Clock, on_free: "Callable[[Connection], None]", on_lost: "Callable[[Connection], None]"
    ) -> None:
        """Not connected yet.

        Args:
            clock: for the moments.
            on_free: told when an answer is complete and the connection may be used again.
            on_lost: told when it is closed, for whatever reason.
        """
        self._clock = clock
        self._on_free = on_free
        self._on_lost = on_lost
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._exchange: Exchange | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._num_sent = 0
        self._stamp = 0
        self._closing = False
        self.free_at = 0

    # ── used by the client ──────────────────────────────────────────────────────────────────────────────────────────

    def send(self, data: bytes, exchange: Exchange) -> None:
        """Write a whole request; its answer goes to the exchange.

        Nothing is sent if the server has closed a new connection already.
        """
        assert self._exchange is None, "one exchange at a time"
        if self._transport is None:
            exchange.end(self._clock(), Close.BROKEN, ErrorKind.CLOSED_BEFORE_HEADERS)
            return
        self._exchange = exchange
        self._num_sent += 1
        exchange.sent_at = exchange.last_at = self._clock()
        self._transport.write(data)

    def leave(self, exchange: Exchange) -> None:
        """The client is done with an exchange; if its answer is not, the connection is of no use any more.

        An answer whose end mark has come may still complete, and gives the connection back then.
        """
        if self._exchange is not exchange or exchange.close is Close.WHOLE:
            return
        self._exchange = None
        if exchange.close is Close.CANCELLED:
            self._close()  # what was written still goes out
        else:
            self.abort()

    def abort(self) -> None:
        """Close at once."""
        self._closing = True
        if self._transport is not None:
            self._transport.abort()

    def _close(self) -> None:
        self._closing = True
        if self._transport is not None:
            self._transport.close()

    @property
    def is_usable(self) -> bool:
        """Whether a request can be sent on it."""
        return not self._closing and self._exchange is None

    # ── called by the event loop ────────────────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one without saying so

    def data_received(self, data: bytes) -> None:
        """Stamp, then look."""
        self._stamp = self._clock()
        if self._exchange is not None:
            self._exchange.last_at = self._stamp
        assert self._parser is not None, "open"
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._break(self._stamp, ErrorKind.MALFORMED_HTTP)
            self.abort()

    def eof_received(self) -> None:
        """The server is done; an answer without a length ends here."""
        self._closing = True
        exchange = self._exchange
        if exchange is not None and exchange.headers_at is not None and not _is_framed(exchange):
            exchange.end(self._clock(), Close.WHOLE)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is closed."""
        self._closing = True
        self._break(self._clock(), self._loss(exc))
        self._exchange = None
        # parser and connection hold each other; freed at once instead of by the collector, which a run switches off
        self._parser = self._transport = None
        self._on_lost(self)

    def _loss(self, exc: Exception | None) -> ErrorKind:
        exchange = self._exchange
        if exchange is None or exchange.headers_at is None:
            nothing_came = exchange is not None and exchange.last_at == exchange.sent_at
            if self._num_sent > 1 and nothing_came:
                return ErrorKind.STALE_CONNECTION
            return ErrorKind.CONNECTION_RESET if exc is not None else ErrorKind.CLOSED_BEFORE_HEADERS
        if isinstance(exc, ssl.SSLError):
            return ErrorKind.TLS_FAILED
        return ErrorKind.CONNECTION_RESET if exc is not None else ErrorKind.CLOSED_IN_BODY

    def _break(self, at: int, kind: ErrorKind) -> None:
        if self._exchange is not None:
            self._exchange.end(at, Close.BROKEN, kind)

    # ── called by the parser ────────────────────────────────────────────────────────────────────────────────────────

    def on_message_begin(self) -> None:
        """A new answer."""
        self._headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """The head is complete."""
        assert self._parser is not None, "open"
        status = self._parser.get_status_code()
        if self._exchange is None:
            self.abort()  # an answer that nobody asked for: some servers say why they close an idle connection
        elif status >= _FINAL_STATUS:
            self._exchange.begin(self._stamp, status, self._headers)

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        if self._exchange is not None:
            self._exchange.add(self._stamp, body)

    def on_message_complete(self) -> None:
        """The answer is complete."""
        exchange = self._exchange
        if exchange is None or exchange.headers_at is None:
            return
        self._exchange = None
        exchange.end(self._stamp, Close.WHOLE)
        if self._closing or self._parser is None or not self._parser.should_keep_alive():
            self._close()
        else:
            self.free_at = self._stamp
            self._on_free(self)


def _is_framed(exchange: Exchange) -> bool:
    """Whether the answer says where its body ends, so that the end of the connection is not that end."""
    return exchange.header(b"content-length") is not None or exchange.header(b"transfer-encoding") is not None


@dataclass(frozen=True, slots=True)
class ConnectionCounts:
    """How connections were used.

    Attributes:
        opened: new ones that came about; `failed` those that did not.
        reused: requests that were sent on one used before.
        closed_idle: kept ones that the server closed; the next request opened another.
        expired: kept ones that had been idle for too long and were closed here.
    """

    opened: int
    failed: int
    reused: int
    closed_idle: int
    expired: int


class ConnectionPool:
    """The connections to one server."""

    def __init__(self, network: Network, clock: Clock, *, reuse: bool, settle_ns: int = 0, idle_limit_ns: int) -> None:
        """Nothing is open.

        Args:
            network: makes connections.
            clock: for how long they have been free.
            reuse: whether any is used again.
            settle_ns: not before it has been free for so long.
            idle_limit_ns: and not after it has been free for longer than this.
        """
        self._network = network
        self._clock = clock
        self._reuse = reuse
        self._settle_ns = settle_ns
        self._idle_limit_ns = idle_limit_ns
        self._idle: deque[Connection] = deque()  # in the order in which they became free
        self._all: dict[Connection, None] = {}
        self._opened = self._failed = self._reused = self._closed_idle = self._expired = 0

    @property
    def counts(self) -> ConnectionCounts:
        """So far."""
        return ConnectionCounts(self._opened, self._failed, self._reused, self._closed_idle, self._expired)

    def take(self) -> Connection | None:
        """The connection that has been idle for longest; None: open another one.

        Cost: O(1), and once for each that has expired.
        """
        now = self._clock()
        while self._idle:
            idle_ns = now - self._idle[0].free_at
            if idle_ns < self._settle_ns:
                break
            connection = self._idle.popleft()
            if idle_ns > self._idle_limit_ns:
                self._expired += 1
                connection.abort()
            elif connection.is_usable:
                self._reused += 1
                return connection
        return None

    async def open(self) -> Connection:
        """A new connection.

        Raises:
            ConnectFailed: with the word for it.
        """
        try:
            connection = await self._network.connect(self._new)
        except Exception:
            self._failed += 1
            raise
        self._opened += 1
        self._all[connection] = None
        return connection

    def put_back(self, connection: Connection) -> None:
        """A connection can be used again."""
        if self._reuse and connection.is_usable:
            self._idle.append(connection)
        else:
            connection.abort()

    def close(self) -> None:
        """Close all of them."""
        self._idle.clear()
        for connection in tuple(self._all):
            connection.abort()

    def _new(self) -> Connection:
        return Connection(self._clock, self.put_back, self._on_lost)

    def _on_lost(self, connection: Connection) -> None:
        self._all.pop(connection, None)
        if connection in self._idle:
            self._idle.remove(connection)
            self._closed_idle += 1
