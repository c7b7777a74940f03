"""What a server needs from the system, asked for before a model is loaded: its port, its certificate, its files."""

import errno
import os
import socket
import ssl
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

from arriero.core.config import ServeConfig
from arriero.core.errors import ConfigError, PortInUse
from arriero.record.lines import STANDARD_ERROR

PENDING_CONNECTIONS: Final = 2048  # kept by the system until the server takes them


def reserve(host: str, port: int) -> socket.socket:
    """A socket bound to the address; nobody can connect before `listen`.

    Raises:
        PortInUse: somebody listens there. ConfigError: the address cannot be had.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise ConfigError(f"--host {host}: no such address ({error.strerror}); use 127.0.0.1 or 0.0.0.0") from None
    taken = socket.socket(family, kind, protocol)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(address)
    except OSError as error:
        taken.close()
        raise _address_error(error, host, port) from None
    return taken


def listen(reserved: socket.socket, host: str) -> None:
    """Let clients connect.

    Raises:
        PortInUse: somebody else began to listen since the socket was bound.
    """
    try:
        reserved.listen(PENDING_CONNECTIONS)
    except OSError as error:
        raise _address_error(error, host, reserved.getsockname()[1]) from None


def check_files(config: ServeConfig) -> None:
    """Whether the certificate loads and the files of records can be appended to.

    Raises:
        ConfigError: not so.
    """
    if config.ssl_certfile is not None and config.ssl_keyfile is not None:
        _check_certificate(config.ssl_certfile, config.ssl_keyfile)
    _check_record_file("--diagnostics", config.diagnostics)
    _check_record_file("--journal", config.journal)
    if config.cache_dir is not None:
        _check_directory("--cache-dir", Path(config.cache_dir))


def _check_record_file(flag: str, file: str | None) -> None:
    if file is None or file == STANDARD_ERROR:
        return
    try:
        Path(file).open("a", encoding="utf-8").close()
    except OSError as error:
        reason = str(error.strerror).lower()
        raise ConfigError(f"{flag} {file}: {reason}; name a file that can be written") from None


def _check_directory(flag: str, folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        reason = str(error.strerror).lower()
        raise ConfigError(f"{flag} {folder}: {reason}; name a folder that can be written") from None


def _check_certificate(certificate: str, key: str) -> None:
    for flag, file in (("--ssl-certfile", certificate), ("--ssl-keyfile", key)):
        if not os.access(file, os.R_OK):
            raise ConfigError(f"{flag} {file}: cannot be read; name a PEM file")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except (ssl.SSLError, OSError):
        raise ConfigError(
            f"--ssl-certfile {certificate}: no certificate that goes with --ssl-keyfile {key}; "
            "use PEM files that belong together and need no password"
        ) from None


def _address_error(error: OSError, host: str, port: int) -> ConfigError:
    if error.errno == errno.EADDRINUSE:
        return PortInUse(f"--port {port}: in use on {host}; stop the other server, or use --port 0 for a free one")
    if error.errno == errno.EACCES:
        return ConfigError(f"--port {port}: not allowed for this user; use 1024 or more")
    return ConfigError(f"--host {host}: {str(error.strerror).lower()}; use an address of this machine")
