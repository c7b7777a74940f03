"""Gate: what every request passes before its endpoint: size of its head, browsers' preflights, API keys.

Pure ASGI, so that nothing stands between an endpoint and its socket.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from arriero.core.errors import ArrieroError
from arriero.http.errors import Dialect, HeadersTooLarge, failure
from arriero.http.exchange import Exchange
from arriero.http.service import HttpOptions
from arriero.http.tenants import Tenants

PUBLIC: Final = frozenset({"/health"})
"""Paths that need no key: a load balancer has none."""

NATIVE: Final = frozenset({"/completion", "/shutdown", "/tokenize", "/detokenize"})

Pairs = list[tuple[bytes, bytes]]


def dialect_of(path: str) -> Dialect:
    """Whose words a path speaks; unknown paths speak OpenAI's."""
    return Dialect.NATIVE if path in NATIVE else Dialect.OPENAI


class Gate:
    """The whole application: what it lets through goes to an endpoint that generates, or to all the others."""

    def __init__(self, app: ASGIApp, answers: Mapping[str, ASGIApp], options: HttpOptions) -> None:
        """Digest the keys once.

        Args:
            app: takes everything but a POST to one of the `answers`.
            answers: endpoints by path.
        """
        self._app = app
        self._answers = answers
        self._tenants = Tenants(options.api_keys)
        self._max_header_bytes = options.max_header_bytes
        self._origins = frozenset(origin.encode() for origin in options.cors_origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        cors = self._cors(scope)
        out = _with_headers(send, cors) if cors else send
        exchange = Exchange(scope, receive, out)
        try:
            _check_head(scope, self._max_header_bytes)
            if cors and scope["method"] == "OPTIONS":
                await _preflight(scope, send, cors)
                return
            tenant = None
            if scope["path"] not in PUBLIC:
                tenant = self._tenants.identify(exchange.header(b"authorization"))
        except ArrieroError as error:
            await exchange.refuse(failure(error, dialect_of(scope["path"])))
            return
        scope["state"] = {**scope.get("state", {}), "tenant": tenant}
        app = self._answers.get(scope["path"], self._app) if scope["method"] == "POST" else self._app
        await app(scope, receive, out)

    def _cors(self, scope: Scope) -> Pairs:
        """Headers for a browser page of an allowed origin; none for everybody else."""
        headers: Pairs = scope["headers"]
        origin = next((value for name, value in headers if name == b"origin"), None)
        if origin is None or not (b"*" in self._origins or origin in self._origins):
            return []
        allowed = b"*" if b"*" in self._origins else origin
        pairs = [(b"access-control-allow-origin", allowed), (b"access-control-expose-headers", b"x-request-id")]
        return pairs if allowed == b"*" else [*pairs, (b"vary", b"origin")]


def _check_head(scope: Scope, max_bytes: int) -> None:
    headers: Pairs = scope["headers"]
    num_bytes = len(scope.get("raw_path") or b"") + len(scope.get("query_string") or b"")
    num_bytes += sum(len(name) + len(value) + 4 for name, value in headers)
    if num_bytes > max_bytes:
        raise HeadersTooLarge(f"the request head has {num_bytes} bytes; at most {max_bytes} are read")


async def _preflight(scope: Scope, send: Send, cors: Pairs) -> None:
    headers: Pairs = scope["headers"]
    wanted = next((value for name, value in headers if name == b"access-control-request-headers"), b"*")
    allowed = [
        (b"access-control-allow-methods", b"GET, POST, OPTIONS"),
        (b"access-control-allow-headers", wanted),
        (b"access-control-max-age", b"600"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": [*cors, *allowed]})
    await send({"type": "http.response.body", "body": b""})


def _with_headers(send: Send, more: Iterable[tuple[bytes, bytes]]) -> Send:
    async def out(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", []), *more]
        await send(message)

    return out
