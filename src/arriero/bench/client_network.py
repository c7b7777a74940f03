"""Network: how a connection to one server is made; sockets here, something in memory in tests."""

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from arriero.bench.client_errors import ErrorKind
from arriero.bench.client_options import Address
from arriero.core.errors import ConfigError

P = TypeVar("P", bound=asyncio.Protocol)
SocketAddress: TypeAlias = tuple[Any, ...]

_REFUSED: Final = frozenset({errno.ECONNREFUSED, getattr(errno, "WSAECONNREFUSED", errno.ECONNREFUSED)})


class ConnectFailed(Exception):
    """No connection could be made.

    Attributes:
        kind: the word for it; the text says more.
    """

    def __init__(self, kind: ErrorKind, detail: str) -> None:
        """Keep the word beside the text."""
        super().__init__(detail)
        self.kind = kind


class Network(Protocol):
    """Makes connections to one server."""

    async def resolve(self) -> None:
        """Find the server's address, so that no request has to wait for a name.

        Raises:
            ConfigError: there is none.
        """
        ...

    async def connect(self, factory: Callable[[], P]) -> P:
        """A new connection, on which the protocol that `factory` makes has been told `connection_made`.

        Raises:
            ConnectFailed: with the word for it.
        """
        ...


class TcpNetwork:
    """Sockets, with TLS if the address says so."""

    def __init__(self, address: Address, tls: ssl.SSLContext | None = None) -> None:
        """Nothing is looked up yet."""
        self._address = address
        self._tls = (tls or ssl.create_default_context()) if address.is_tls else None
        self._found: list[SocketAddress] = []

    async def resolve(self) -> None:
        """Look the name up, once for all connections."""
        loop = asyncio.get_running_loop()
        host, port = self._address.host, self._address.port
        try:
            infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise ConfigError(f"{self._address.url}: no address is known for {host} ({error.strerror})") from None
        self._found = list(dict.fromkeys(tuple(info[4]) for info in infos))

    async def connect(self, factory: Callable[[], P]) -> P:
        """Try the addresses in order; the one that answers is the first to be tried from then on."""
        if not self._found:
            await self.resolve()
        failure = ConnectFailed(ErrorKind.CONNECTION_FAILED, "no address")
        for index, found in enumerate(tuple(self._found)):
            try:
                protocol = await self._connect(factory, found)
            except ConnectFailed as error:
                failure = error
            else:
                if index:
                    self._found.remove(found)
                    self._found.insert(0, found)
                return protocol
        raise failure

    async def _connect(self, factory: Callable[[], P], found: SocketAddress) -> P:
        loop = asyncio.get_running_loop()
        name = self._address.host if self._tls is not None else None
        try:
            _, protocol = await loop.create_connection(factory, found[0], found[1], ssl=self._tls, server_hostname=name)
        except ssl.SSLError as error:
            raise ConnectFailed(ErrorKind.TLS_FAILED, str(error)) from None
        except OSError as error:
            refused = error.errno in _REFUSED
            kind = ErrorKind.CONNECTION_REFUSED if refused else ErrorKind.CONNECTION_FAILED
            raise ConnectFailed(kind, str(error)) from None
        return protocol
