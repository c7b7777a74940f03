"""HttpOptions: how a server is asked; and its base URL, taken apart."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from arriero.core.errors import ConfigError

PORTS: Final = {"http": 80, "https": 443}
MAX_ANSWER_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimits:
    """When the client gives up, in seconds; None: never.

    Attributes:
        connect_s: for a new connection.
        total_s: from the moment the request is handed over to its end.
        silence_s: without a byte, from the send to the first one and between two.
    """

    connect_s: float | None = 30.0
    total_s: float | None = 600.0
    silence_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """How a server is asked; the same for every request of a run.

    Attributes:
        name: what tables call the server; None: its host and port.
        model: sent as `model` where it is given.
        api_key: sent as a bearer token where it is given.
        limits: when to give up.
        reuse_connections: False: a new connection for each request.
        settle_s: a connection is used again only after it has been free for so long. llama-server says that it keeps a
            connection and closes it right after a stream; a request sent meanwhile would be lost.
        idle_limit_s: a kept connection that has been idle for longer is not used again. Below the time after which
            the usual servers close one (5 s), so that a request hardly ever meets a connection that is just closing.
        continuous_usage: ask for the usage so far in every chunk, which tells how many tokens a chunk carries. It is
            work for the server, and not every server does it.
        needs_done: a stream without `[DONE]` is an error, however complete it looks.
        headers: further headers of every request.
        send_request_id: name each request in `x-request-id`; False for servers that refuse a name that is no UUID.
        fields: further fields of every body; those of an ask win.
        tls: for `https`; None: the system's certificates.
        max_answer_bytes: an answer that grows larger is cut.
    """

    name: str | None = None
    model: str | None = None
    api_key: str | None = None
    limits: TimeLimits = field(default_factory=TimeLimits)
    reuse_connections: bool = True
    settle_s: float = 0.1
    idle_limit_s: float = 4.0
    continuous_usage: bool = False
    needs_done: bool = True
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    send_request_id: bool = True
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])
    tls: ssl.SSLContext | None = None
    max_answer_bytes: int = MAX_ANSWER_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a server is.

    Attributes:
        host: a name or an address, without brackets.
        prefix: what stands before `/v1`, without a slash at its end.
    """

    host: str
    port: int
    prefix: str
    is_tls: bool

    @property
    def authority(self) -> str:
        """Host and port as they stand in a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The base URL, without `/v1`."""
        return f"{'https' if self.is_tls else 'http'}://{self.authority}{self.prefix}"


def parse_url(url: str) -> Address:
    """Take a base URL apart; `/v1` at its end may be there or not.

    Raises:
        ConfigError: it is none.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f"{url}: {error}; write http://HOST:PORT") from None
    if parts.scheme not in PORTS or not host:
        raise ConfigError(f"{url}: no base URL of a server; write http://HOST:PORT or https://HOST:PORT")
    if parts.query or parts.fragment or parts.username:
        raise ConfigError(f"{url}: a base URL ends with its path; leave out user, query and fragment")
    prefix = parts.path.rstrip("/").removesuffix("/v1")
    return Address(host=host, port=port or PORTS[parts.scheme], prefix=prefix, is_tls=parts.scheme == "https")
