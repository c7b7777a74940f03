"""How uvicorn is set up to serve the application: limits, time-outs, and errors in our shape before any endpoint.

The bound of the socket side is uvicorn's: it stops writing while 64 KiB of a response wait for the client.
"""

from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from arriero.core.errors import CallerError
from arriero.http.errors import Dialect, Failure, HeadersTooLarge, failure
from arriero.http.service import HttpOptions

KEEP_ALIVE_S: Final = 75
REASONS: Final = {400: b"Bad Request", 431: b"Request Header Fields Too Large"}


class HttpProtocol(HttpToolsProtocol):
    """uvicorn's parser, bounded: a head that does not end is refused instead of being collected."""

    max_header_bytes = 64 << 10
    _head_bytes: int | None = 0  # None while a body is being read

    def data_received(self, data: bytes) -> None:
        """Parse, unless the head has grown too large."""
        if self._head_bytes is not None:
            self._head_bytes += len(data)
        super().data_received(data)
        # a head of this size that came in one piece is refused by the gate, which can answer it properly
        if self._head_is_too_large:
            self.send_400_response("the request head is too large")

    def on_headers_complete(self) -> None:
        """The head is over."""
        self._head_bytes = None
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The next head begins."""
        super().on_message_complete()
        self._head_bytes = 0

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, or too much of it, with an error object."""
        error = CallerError(msg.rstrip("."))
        if self._head_is_too_large:
            error = HeadersTooLarge(f"the request head exceeds {self.max_header_bytes} bytes")
        if not self.transport.is_closing():
            self.transport.write(_response(failure(error, Dialect.OPENAI)))
            self.transport.close()

    @property
    def _head_is_too_large(self) -> bool:
        return self._head_bytes is not None and self._head_bytes > self.max_header_bytes


def _response(found: Failure) -> bytes:
    head = [b"HTTP/1.1 %d %b" % (found.status, REASONS[found.status]), b"content-type: application/json"]
    head += [b"%b: %b" % pair for pair in found.headers]
    head += [b"content-length: %d" % len(found.body), b"connection: close", b"", found.body]
    return b"\r\n".join(head)


def protocol_for(options: HttpOptions) -> type[HttpProtocol]:
    """The protocol class with the bounds of a server's options."""
    return type("BoundedHttpProtocol", (HttpProtocol,), {"max_header_bytes": options.max_header_bytes})


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
