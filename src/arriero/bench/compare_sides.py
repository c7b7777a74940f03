"""The two sides of a comparison: what each is, and how it is brought to where it can be measured."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self, TypeAlias, cast
from urllib.parse import urlsplit

from arriero.bench.prompts import PromptForm
from arriero.bench.rounds import Side
from arriero.bench.runner import Driver
from arriero.bench.runner_server import listening_pids
from arriero.bench.servers import GRACE_S, START_TIMEOUT_S, Ended, Server
from arriero.bench.servers_commands import ServerCommand, ServerValues
from arriero.bench.servers_guard import HowEnded
from arriero.bench.servers_health import json_of, status_of
from arriero.bench.servers_usage import Usage
from arriero.core.errors import ConfigError
from arriero.record.bench_compare_parts import ServerRun
from arriero.record.provenance import portable_command

_URL_PATIENCE_S: Final = 5.0
_LLAMA_FACTS: Final = "/props"  # where llama-server says of which llama.cpp it was built; others answer 404


@dataclass(frozen=True, slots=True, kw_only=True)
class SideSpec:
    """One side as the user gave it: a command that we start, or the address of a server that runs already.

    Attributes:
        name: for people.
        command: what is started; None for an address.
        url: where a running server is; None for a command.
        health_path: of a running server.
        body: fields of each request to it, over those of its command.
        prompt_form: what it takes as a prompt.
        peer: the word by which its command is known; None for a command or an address of the user's own.
        flags: words that the user added to the command.
    """

    name: str
    command: ServerCommand | None = None
    url: str | None = None
    health_path: str = "/health"
    body: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    prompt_form: PromptForm = PromptForm.TOKENS
    peer: str | None = None
    flags: tuple[str, ...] = ()

    @property
    def fields(self) -> Mapping[str, Any]:
        """Fields of each request to it."""
        return {**({} if self.command is None else self.command.body), **self.body}

    @property
    def takes_request_ids(self) -> bool:
        """See `ServerCommand`."""
        return self.command is None or self.command.takes_request_ids

    @property
    def health(self) -> str:
        """The path that tells whether it answers."""
        return self.health_path if self.command is None else self.command.health


MakeDriver: TypeAlias = Callable[[str, SideSpec, tuple[int, ...]], Driver]
"""A client for the server of a side: its address, what is known of it, and its processes on this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandOptions:
    """How servers are held.

    Attributes:
        values: what stands for the names in braces.
        logs: a folder for what the servers say.
        one_at_a_time: a fresh server for each measurement, and never two of them; else both stay loaded, one idle.
        timeout_s: until a server has to answer.
        grace_s: between SIGTERM and SIGKILL.
    """

    values: ServerValues
    logs: Path
    one_at_a_time: bool = False
    timeout_s: float = START_TIMEOUT_S
    grace_s: float = GRACE_S


class Stand:
    """Holds the servers of both sides and the clients to them; a context, at whose end nothing runs any more."""

    def __init__(self, sides: Mapping[Side, SideSpec], options: StandOptions, make_driver: MakeDriver) -> None:
        """Start nothing yet.

        Raises:
            ConfigError: a side is an address where servers have to be started and stopped, or its command has an
                unknown name.
        """
        self._sides = sides
        self._options = options
        self._make_driver = make_driver
        self._held: dict[Side, _Held] = {}
        self._num_started = 0
        self.runs: list[ServerRun] = []
        self.facts: dict[Side, dict[str, Any]] = {}
        for spec in sides.values():
            if spec.command is not None:
                spec.command.check(options.values)
            elif options.one_at_a_time:
                raise ConfigError(f"{spec.url}: a server that runs already cannot be started anew; give a command")

    async def __aenter__(self) -> Self:
        """Start nothing yet."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop whatever runs, also when closing a client fails."""
        try:
            for side in tuple(self._held):
                await self.drop(side)
        finally:
            for held in self._held.values():
                held.stop()

    async def at(self, side: Side) -> tuple[Driver, bool]:
        """The client of a side whose server answers, and whether it is fresh, that is: still cold.

        Raises:
            ServerFailed: it cannot be started, or does not answer. ConfigError: nobody answers at its address.
        """
        if self._options.one_at_a_time:
            for each in tuple(self._held):
                await self.drop(each)
        held = self._held.get(side)
        if held is not None and held.driver is not None:
            return held.driver, False
        return await self._bring_up(side), True

    async def drop(self, side: Side) -> None:
        """Close the client of a side and stop its server, if there are any."""
        held = self._held.pop(side, None)
        if held is None:
            return
        try:
            if held.driver is not None:
                await self._note_facts(side, held.driver, held.server)
                await held.driver.close()
        finally:
            if held.server is not None:
                self.runs.append(_end(side, held.server, held.ready_s))

    def name(self, side: Side) -> str:
        """A side's name, for people."""
        return self._sides[side].name

    def usage(self, side: Side) -> Usage | None:
        """What a side's server uses now; None if it is not ours or not running."""
        held = self._held.get(side)
        return None if held is None or held.server is None else held.server.usage()

    def require_alive(self, side: Side, when: str) -> None:
        """Complain if a side's server has ended by itself.

        Raises:
            ServerFailed: with its status and the last line of its log.
        """
        held = self._held.get(side)
        if held is not None and held.server is not None:
            held.server.require_alive(when)

    async def _bring_up(self, side: Side) -> Driver:
        spec, options = self._sides[side], self._options
        held = self._held[side] = _Held()
        pids: tuple[int, ...] = ()
        if spec.command is None:
            assert spec.url is not None, "a side is a command or an address"
            url = spec.url
            await require_there(spec)
            address = urlsplit(url)
            pids = listening_pids(address.hostname or "", address.port or 0)
        else:
            self._num_started += 1
            log = options.logs / f"{self._num_started:03d}-{side}-{Path(spec.name).name}.log"
            held.server = Server.start(spec.command, options.values, log=log, grace_s=options.grace_s)
            held.ready_s = await held.server.wait_ready(spec.health, timeout_s=options.timeout_s)
            url, pids = held.server.url, (held.server.pid,)
        held.driver = self._make_driver(url, spec, pids)
        return held.driver

    async def _note_facts(self, side: Side, driver: Driver, server: Server | None) -> None:
        """Let a server that still runs tell of itself, once."""
        if side in self.facts or (server is not None and server.ended is not None):
            return
        facts = _without_paths(await driver.facts())
        url = server.url if server is not None else self._sides[side].url
        build = None if url is None else await json_of(url, _LLAMA_FACTS)
        told = {"build": build["build_info"]} if build is not None and "build_info" in build else {}
        self.facts[side] = {**facts, **told, "fields": dict(self._sides[side].fields)}


async def require_there(spec: SideSpec) -> None:
    """Complain if nobody answers at the address of a running server.

    Raises:
        ConfigError: names the address.
    """
    if spec.url is not None and await status_of(spec.url, spec.health, patience_s=_URL_PATIENCE_S) is None:
        raise ConfigError(f"{spec.url}: nobody answers there; start the server, or give its command")


@dataclass(slots=True)
class _Held:
    """What is open for one side."""

    driver: Driver | None = None
    server: Server | None = None
    ready_s: float = 0.0

    def stop(self) -> Ended | None:
        """Stop the server if there is one."""
        return None if self.server is None else self.server.stop()


def _end(side: Side, server: Server, ready_s: float) -> ServerRun:
    """Stop a server; what is stored of it."""
    usage = server.usage()
    ended = server.stop()
    return ServerRun(
        side=side.value,
        command=tuple(portable_command(server.words)),
        log=server.log.name,
        ready_s=ready_s,
        resident_bytes=None if usage is None else usage.resident_bytes,
        peak_bytes=None if usage is None else usage.peak_bytes,
        how=ended.how.value,
        status=None if ended.how is HowEnded.KILLED else ended.status,
    )


def _without_paths(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Some servers name their model by its absolute path; results do not hold any."""
    models: object = facts.get("models")
    if not isinstance(models, list):
        return dict(facts)
    return {**facts, "models": portable_command([str(model) for model in cast("list[object]", models)])}
