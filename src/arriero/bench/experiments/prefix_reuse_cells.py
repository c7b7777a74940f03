"""Cells of prefix reuse: one workload, one way of serving it, one fresh server, one sequential client."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from arriero.bench.ask import Ask
from arriero.bench.experiments.contexts import ModelSettings
from arriero.bench.experiments.prefix_reuse_workloads import Turn, Workload
from arriero.bench.experiments.served import ServeOptions, ServerLog, served
from arriero.bench.experiments.sides import (
    GREEDY,
    Asked,
    ServerSize,
    build_of,
    peer_command,
    peer_served,
)
from arriero.metrics.client_life import ClientLife


class Way(StrEnum):
    """How a workload is served."""

    NO_SESSION = "no session"
    EXACT = "exact reuse only"
    PARTIAL = "partial reuse"
    PEER_OFF = "llama-server, prompt cache off"
    PEER_ON = "llama-server, prompt cache on"

    @property
    def is_peer(self) -> bool:
        """Whether it is llama-server."""
        return self in {Way.PEER_OFF, Way.PEER_ON}


NOT_BUILT: Final[Mapping[Way, str]] = MappingProxyType({
    Way.EXACT: "not available in this version",
    Way.PARTIAL: "not available in this version",
})
"""Ways that this version has not; their cells are not run and never count as passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What every cell has in common.

    Attributes:
        budget: tokens of every answer.
    """

    model: ModelSettings
    peer: str | None
    peer_flags: tuple[str, ...]
    budget: int
    slots: int
    slot_tokens: int
    threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What came of one.

    Attributes:
        lives: of the measured requests, in order.
        log: what our own server wrote; None of the peer.
        build: what the peer was built from.
    """

    workload: Workload
    way: Way
    lives: tuple[ClientLife, ...]
    log: ServerLog | None
    build: str | None

    @property
    def problems(self) -> tuple[str, ...]:
        """Why the figures of our own server are not to be trusted."""
        return () if self.log is None else self.log.problems_with(self.lives)

    @property
    def prompt_tokens(self) -> int:
        """Of all measured prompts, as the server counts."""
        return sum(life.prompt_tokens or 0 for life in self.lives)

    @property
    def prefill_rows(self) -> int | None:
        """Prompt rows that were computed for them: of our own server from its requests' rows, else as it tells."""
        if self.log is not None:
            rows = [self.log.of(life.request_id) for life in self.lives]
            return sum(row.prompt_tokens - row.reused_tokens for row in rows if row is not None)
        if any(life.cached_tokens is None for life in self.lives):
            return None
        return self.prompt_tokens - sum(life.cached_tokens or 0 for life in self.lives)


async def run_cell(setting: Setting, workload: Workload, way: Way, turns: Sequence[Turn]) -> Cell:
    """Run one on a fresh server.

    Raises:
        ConfigError, ServerFailed, CallFailed: the server does not serve.
    """
    client = _Client(setting, way)
    if not way.is_peer:
        options = ServeOptions(slots=setting.slots, slot_tokens=setting.slot_tokens, backlog=1, threads=setting.threads)
        async with served(setting.model, options, on_text=client.hear) as server:
            lives = await client.ask_all(server, turns)
            log = await server.stop()
        return Cell(workload=workload, way=way, lives=lives, log=log, build=None)
    assert setting.peer is not None, "its cells are left out without one"
    command = peer_command(setting.peer, setting.model, setting.peer_flags)
    size = ServerSize(slots=setting.slots, slot_tokens=setting.slot_tokens, threads=setting.threads)
    async with peer_served(command, setting.model, size, on_text=client.hear) as server:
        lives = await client.ask_all(server, turns)
        build = await build_of(server)
    return Cell(workload=workload, way=way, lives=lives, log=None, build=build)


class _Client:
    """One client that asks one request after the other, and continues sessions with the real answers."""

    def __init__(self, setting: Setting, way: Way) -> None:
        self._setting = setting
        self._way = way
        self._answers: dict[str, str] = {}
        self._so_far: dict[str, str] = {}

    def hear(self, request_id: str, text: str) -> None:
        """An answer has ended."""
        self._answers[request_id] = text

    async def ask_all(self, server: Asked, turns: Sequence[Turn]) -> tuple[ClientLife, ...]:
        """Every turn in order; the lives of the measured ones."""
        fields = dict(GREEDY)
        if self._way.is_peer:
            fields["cache_prompt"] = self._way is Way.PEER_ON
        lives: list[ClientLife] = []
        for turn in turns:
            prompt = (self._so_far.get(turn.session, "") if turn.continues else "") + turn.text
            ask = Ask(request_id=turn.name, prompt=prompt, max_tokens=self._setting.budget, fields=fields)
            life = await server.target.ask(ask, None)
            self._so_far[turn.session] = prompt + self._answers.pop(turn.name, "")
            if not turn.is_warm_up:
                lives.append(life)
        return tuple(lives)
