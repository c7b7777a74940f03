"""How uvicorn is set up to serve the application: limits, time-outs, and errors in our shape before any endpoint.

The bound of the socket side is uvicorn's: it stops writing while 64 KiB of a response wait for the client.
"""

import asyncio
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from arriero.core.errors import CallerError
from arriero.http.errors import Dialect, Failure, HeadersTooLarge, TooSlow, failure
from arriero.http.service import HttpOptions

KEEP_ALIVE_S: Final = 75
REASONS: Final = {400: b"Bad Request", 408: b"Request Timeout", 431: b"Request Header Fields Too Large"}


class HttpProtocol(HttpToolsProtocol):
    """uvicorn's parser, bounded: a head that does not end, or comes too slowly, is refused instead of being collected.

    A connection on which nothing comes at all is closed without a word, like one between two requests.
    """

    max_header_bytes = 64 << 10
    head_timeout_s = 20.0
    body_timeout_s = 120.0
    _head_bytes: int | None = 0  # None while a body is being read
    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """The first byte has as long as that of a later request."""
        super().connection_made(transport)
        self._wait_at_most(KEEP_ALIVE_S)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is awaited any more."""
        self._wait_no_more()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """The first byte of a head is here."""
        super().on_message_begin()
        self._wait_at_most(self.head_timeout_s)

    def data_received(self, data: bytes) -> None:
        """Parse, unless the head has grown too large."""
        if self._head_bytes is not None:
            self._head_bytes += len(data)
        super().data_received(data)
        # a head of this size that came in one piece is refused by the gate, which can answer it properly
        if self._head_is_too_large:
            self.send_400_response("the request head is too large")

    def on_headers_complete(self) -> None:
        """The head is over, and a body may follow."""
        self._wait_at_most(self.body_timeout_s)
        self._head_bytes = None
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """A request is complete; the next head begins."""
        self._wait_no_more()
        super().on_message_complete()
        self._head_bytes = 0

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, or too much of it, with an error object."""
        error: CallerError = CallerError(msg.rstrip("."))
        if self._head_is_too_large:
            error = HeadersTooLarge(f"the request head exceeds {self.max_header_bytes} bytes")
        self._refuse(error)

    def _refuse(self, error: CallerError) -> None:
        if not self.transport.is_closing():
            self.transport.write(_response(failure(error, Dialect.OPENAI)))
            self.transport.close()

    def _wait_at_most(self, seconds: float) -> None:
        self._wait_no_more()
        self._patience = self.loop.call_later(seconds, self._on_slow)

    def _wait_no_more(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _on_slow(self) -> None:
        """What was awaited did not come in time; while a request is answered nothing is."""
        self._patience = None
        cycle = self.cycle
        is_over = _is_over(cycle)
        if self.pipeline or not (is_over or cycle.more_body):
            return
        if self._head_bytes == 0 or (self._head_bytes is None and is_over):
            self.transport.close()
        elif self._head_bytes is None:
            self._refuse(TooSlow(f"the request body was not complete within {self.body_timeout_s:g} s"))
        else:
            self._refuse(TooSlow(f"the request head was not complete within {self.head_timeout_s:g} s"))

    @property
    def _head_is_too_large(self) -> bool:
        return self._head_bytes is not None and self._head_bytes > self.max_header_bytes


def _is_over(cycle: RequestResponseCycle | None) -> bool:
    """Whether the last request was answered; uvicorn has none before the first."""
    return cycle is None or cycle.response_complete


def _response(found: Failure) -> bytes:
    head = [b"HTTP/1.1 %d %b" % (found.status, REASONS[found.status]), b"content-type: application/json"]
    head += [b"%b: %b" % pair for pair in found.headers]
    head += [b"content-length: %d" % len(found.body), b"connection: close", b"", found.body]
    return b"\r\n".join(head)


def protocol_for(options: HttpOptions) -> type[HttpProtocol]:
    """The protocol class with the bounds of a server's options."""
    bounds = {
        "max_header_bytes": options.max_header_bytes,
        "head_timeout_s": options.head_timeout_s,
        "body_timeout_s": options.body_timeout_s,
    }
    return type("BoundedHttpProtocol", (HttpProtocol,), bounds)


def server_config(app: ASGIApp, options: HttpOptions, **more: Any) -> uvicorn.Config:  # noqa: ANN401 - uvicorn's own
    """A configuration for `uvicorn.Server`.

    Args:
        more: further settings of uvicorn: host, port, fd, ssl_keyfile, timeout_graceful_shutdown ...
    """
    settings: dict[str, Any] = {
        "http": protocol_for(options),
        "ws": "none",
        "lifespan": "on",
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "proxy_headers": False,  # addresses of clients are not used
        "timeout_keep_alive": KEEP_ALIVE_S,
    }
    return uvicorn.Config(app, **(settings | more))
