"""Server: one started process, from its command to its certain end.

`started` is the way in. A server runs in a process group of its own below a guard (`servers_guard.py`), so it ends
whatever happens to us; what it says goes into a log file that stays.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from arriero.bench.servers_commands import HOST, ServerCommand, ServerValues
from arriero.bench.servers_guard import HowEnded
from arriero.bench.servers_health import status_of
from arriero.bench.servers_usage import Usage, usage_of
from arriero.core.errors import ArrieroError, ConfigError
from arriero.record.provenance import portable_command

START_TIMEOUT_S: Final = 120.0
GRACE_S: Final = 10.0
_EVERY_S: Final = 0.05  # between two looks at a server that is starting
_GUARD_PATIENCE_S: Final = 10.0  # beyond the grace: it only has to read the end of a pipe


class ServerFailed(ArrieroError):
    """A server could not be started, or ended while it was needed; the text names its log."""


class Ended(NamedTuple):
    """How a server ended."""

    how: HowEnded
    status: int | None  # negative for a signal; None if the guard was lost, too


class Server:
    """A running server; whoever starts it stops it, and `started` does both."""

    def __init__(
        self,
        name: str,
        words: tuple[str, ...],
        url: str,
        log: Path,
        guard: "subprocess.Popen[bytes]",
        patience_s: float,
    ) -> None:
        """Take over a guard that has been started; `start` does that.

        Raises:
            ConfigError: the command could not be executed.
        """
        self.name = name
        self.words = words
        self.url = url
        self.log = log
        self._guard = guard
        self._patience_s = patience_s
        self._ended: Ended | None = None
        assert guard.stdout is not None, "it is a pipe"
        first = _decode(guard.stdout.readline())
        if first.pid is None:
            self._close_pipes()
            guard.wait()
            raise ConfigError(f"{words[0]}: cannot be started ({first.error.lower()}); give the path of a program")
        self.pid = first.pid

    @classmethod
    def start(cls, command: ServerCommand, values: ServerValues, *, log: Path, grace_s: float = GRACE_S) -> "Server":
        """Start a server on a free port; it does not answer yet.

        Args:
            command: what is started.
            values: what its braces stand for; the port is chosen here if it is None.
            log: gets what the server says; its folder is made if needed.
            grace_s: between SIGTERM and SIGKILL.

        Raises:
            ConfigError: the command has a name without a value, or cannot be executed.
        """
        port = free_port() if values.port is None else values.port
        words = command.filled(replace(values, port=port))
        log.parent.mkdir(parents=True, exist_ok=True)
        guard = subprocess.Popen(  # noqa: S603 - the words are the user's own command
            [sys.executable, "-m", "arriero.bench.servers_guard", str(log), str(grace_s), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        url = f"http://{values.host}:{port}"
        return cls(command.name, words, url, log, guard, grace_s + _GUARD_PATIENCE_S)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.url.rpartition(":")[2])

    @property
    def ended(self) -> Ended | None:
        """How it ended, whether asked to or not; None while it runs."""
        if self._ended is None and self._guard.poll() is not None:
            self._ended = self._last_words()
        return self._ended

    def usage(self) -> Usage | None:
        """Memory and CPU time of its process group; None where the system does not say."""
        return usage_of(self.pid)

    async def wait_ready(self, health: str, *, timeout_s: float = START_TIMEOUT_S) -> float:
        """Wait until its health route answers 200; the seconds it took.

        Raises:
            ServerFailed: it ended first, or did not answer in time.
        """
        began_at = time.monotonic()
        while (waited_s := time.monotonic() - began_at) < timeout_s:
            self.require_alive("before it answered")
            if await status_of(self.url, health) == HTTPStatus.OK:
                return waited_s
            await asyncio.sleep(_EVERY_S)
        raise ServerFailed(f"{self.name}: {health} did not answer 200 within {timeout_s:g} s; see {self._place}")

    def require_alive(self, when: str) -> None:
        """Complain if it has ended by itself.

        Raises:
            ServerFailed: with its status, and the last line of its log.
        """
        if (ended := self.ended) is None:
            return
        code = "an unknown status" if ended.status is None else _worded(ended.status)
        raise ServerFailed(f"{self.name}: ended with {code} {when}; {self._place} says: {last_line(self.log)}")

    def stop(self) -> Ended:
        """End it: SIGTERM to its group, SIGKILL after the time of grace; again: only says how it ended."""
        if self._ended is None:
            assert self._guard.stdin is not None, "it is a pipe"
            with suppress(BrokenPipeError):
                self._guard.stdin.close()
            try:
                with suppress(subprocess.TimeoutExpired):
                    self._guard.wait(self._patience_s)
            finally:
                # An impatient second Ctrl-C lands here, and a guard that hangs: nothing may be left running.
                if self._guard.poll() is None:
                    self._kill()
                    self._guard.kill()
            self._ended = self._last_words()
        self._close_pipes()
        return self._ended

    @property
    def _place(self) -> str:
        """The log as results may name it."""
        return portable_command([str(self.log)])[0]

    def _last_words(self) -> Ended:
        assert self._guard.stdout is not None, "it is a pipe"
        last = _decode(self._guard.stdout.readline())
        self._guard.wait()
        if last.how is None:  # the guard was killed, so nobody has stopped the server
            self._kill()
            return Ended(HowEnded.KILLED, None)
        return Ended(last.how, last.status)

    def _kill(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def _close_pipes(self) -> None:
        for pipe in (self._guard.stdin, self._guard.stdout):
            assert pipe is not None, "both are pipes"
            with suppress(BrokenPipeError):
                pipe.close()


@asynccontextmanager
async def started(
    command: ServerCommand,
    values: ServerValues,
    *,
    log: Path,
    timeout_s: float = START_TIMEOUT_S,
    grace_s: float = GRACE_S,
) -> AsyncGenerator[Server]:
    """A server that answers, for the length of a block; it is gone afterwards, however the block ends.

    Raises:
        ConfigError: its command cannot be filled in or executed. ServerFailed: it ended or did not answer in time.
    """
    server = Server.start(command, values, log=log, grace_s=grace_s)
    try:
        await server.wait_ready(command.health, timeout_s=timeout_s)
        yield server
    finally:
        server.stop()


def free_port(host: str = HOST) -> int:
    """A port that nobody listens on now.

    Raises:
        ConfigError: the host is no address of this machine.
    """
    with socket.socket() as probe:
        try:
            probe.bind((host, 0))
        except OSError as error:
            raise ConfigError(f"{host}: no port can be had there ({error.strerror}); use {HOST}") from None
        port: int = probe.getsockname()[1]
        return port


def last_line(log: Path) -> str:
    """The last line of a log that says something, shortened."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "nothing"
    said = [line.strip() for line in lines if line.strip()]
    return said[-1][:200] if said else "nothing"


class _Word(msgspec.Struct):
    """One line of the guard."""

    pid: int | None = None
    error: str = "its guard said nothing"
    how: HowEnded | None = None
    status: int | None = None


def _decode(line: bytes) -> _Word:
    return msgspec.json.decode(line, type=_Word) if line else _Word()


def _worded(status: int) -> str:
    return f"status {status}" if status >= 0 else f"signal {-status}"
