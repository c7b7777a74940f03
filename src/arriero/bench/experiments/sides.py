"""Sides: whatever is asked in an experiment with a peer; both are started, asked and ended in the same way."""

import shutil
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Protocol

import msgspec

from arriero.backend.context import available_cpus
from arriero.backend.models import resolve_model
from arriero.bench.client import HttpTarget
from arriero.bench.experiments.calls import CallFailed, call
from arriero.bench.experiments.contexts import ModelSettings
from arriero.bench.experiments.served import HearText, client_options
from arriero.bench.peers import Peer, llama_server
from arriero.bench.servers import started
from arriero.bench.servers_commands import ServerCommand, ServerValues, with_flags
from arriero.core.errors import ConfigError

OURS: Final = Peer.ARRIERO.value
THEIRS: Final = Peer.LLAMA_SERVER.value
NO_PEER: Final = "no --peer was given, so llama-server was not run"

GREEDY: Final[Mapping[str, Any]] = {"temperature": 0, "ignore_eos": True}
"""What every request says whose answer has to have a certain length and to be the same again."""


class Asked(Protocol):
    """A running server, ours or the peer's."""

    @property
    def url(self) -> str:
        """Where it listens."""
        ...

    @property
    def target(self) -> HttpTarget:
        """Asks it."""
        ...


@dataclass(frozen=True, slots=True)
class AskedServer:
    """One of which nothing but its address is known."""

    url: str
    target: HttpTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSize:
    """What both sides get alike.

    Attributes:
        slots: requests that run at once.
        slot_tokens: KV positions of each.
        threads: compute threads; 0: every CPU.
    """

    slots: int
    slot_tokens: int
    threads: int

    def values(self, model: str) -> ServerValues:
        """The same for a command."""
        threads = self.threads or available_cpus()
        return ServerValues(model=model, threads=threads, slots=self.slots, slot_context=self.slot_tokens)


def check_peer(peer: str | None, model: ModelSettings) -> None:
    """Refuse a peer where there is no model that both could serve.

    Raises:
        ConfigError: the model is the formula, or there is no such program.
    """
    if peer is None:
        return
    if model.backend == "synthetic":
        raise ConfigError("--peer: the synthetic backend has no model file to give to it; leave out --quick or --peer")
    if shutil.which(peer) is None:
        raise ConfigError(f"--peer {peer}: there is no such program; give the path of llama-server")


async def build_of(server: Asked) -> str | None:
    """What llama-server says that it was built from; None from any other server."""
    try:
        body = (await call(server.url, "GET", "/props")).body
    except CallFailed:
        return None
    try:
        return msgspec.convert(body, _Props).build_info
    except msgspec.ValidationError:
        return None


class _Props(msgspec.Struct):
    build_info: str | None = None


def peer_command(peer: str, model: ModelSettings, flags: tuple[str, ...] = ()) -> ServerCommand:
    """llama-server at this path, with the same attention as ours; its figures are exported."""
    attention = model.flash_attention
    return with_flags(llama_server(peer), ("--flash-attn", attention, "--metrics", *flags))


@asynccontextmanager
async def peer_served(
    command: ServerCommand, model: ModelSettings, size: ServerSize, *, on_text: HearText | None = None
) -> AsyncGenerator[AskedServer]:
    """A fresh peer for the length of a block.

    Raises:
        ConfigError: it cannot be executed, or there is no model file. ServerFailed: it ended or did not answer.
    """
    values = size.values(str(resolve_model(model.reference)))
    async with asked_server(command, values, on_text=on_text) as server:
        yield server


@asynccontextmanager
async def asked_server(
    command: ServerCommand, values: ServerValues, *, on_text: HearText | None = None
) -> AsyncGenerator[AskedServer]:
    """Any fresh server for the length of a block; each request carries what its command says.

    Raises:
        ConfigError: it cannot be executed. ServerFailed: it ended or did not answer.
    """
    with TemporaryDirectory(prefix="arriero-experiment-") as folder:
        async with started(command, values, log=Path(folder) / "server.log") as server:
            target = HttpTarget(server.url, client_options(command.body), on_text=on_text)
            await target.open()
            try:
                yield AskedServer(server.url, target)
            finally:
                await target.close()
