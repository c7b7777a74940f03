"""Cells of prefix reuse: one workload, one way of serving it, one fresh server, one sequential client."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from arriero.bench.ask import Ask
from arriero.bench.experiments.contexts import ModelSettings
from arriero.bench.experiments.prefix_reuse_workloads import Turn
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

_SESSION: Final = ("--cache-scope", "session", "--session-reuse")


class Way(StrEnum):
    """How a workload is served."""

    OFF = "no reuse"
    SESSION_EXACT = "session, exact"
    SESSION_PARTIAL = "session, partial"
    TREE = "tree"
    PEER = "llama-server, prompt cache on"
    EXACT_OFF = "exact mode, no reuse"
    EXACT_TREE = "exact mode, tree"

    @property
    def is_peer(self) -> bool:
        """Whether it is llama-server."""
        return self is Way.PEER

    @property
    def names_sessions(self) -> bool:
        """Whether a request says which session it belongs to."""
        return self in {Way.SESSION_EXACT, Way.SESSION_PARTIAL}

    @property
    def baseline(self) -> "Way":
        """The way whose answers these must be: the same rows, all of them computed."""
        return Way.EXACT_OFF if self in {Way.EXACT_OFF, Way.EXACT_TREE} else Way.OFF


FLAGS: Final[Mapping[Way, tuple[str, ...]]] = MappingProxyType({
    Way.OFF: ("--no-reuse",),
    Way.SESSION_EXACT: (*_SESSION, "exact"),
    Way.SESSION_PARTIAL: (*_SESSION, "lcp"),
    Way.TREE: ("--cache-scope", "key"),
    Way.EXACT_OFF: ("--no-reuse", "--exact"),
    Way.EXACT_TREE: ("--cache-scope", "key", "--exact"),
})
"""What our own server is started with for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What every cell has in common.

    Attributes:
        budget: tokens of every answer.
        flags: further flags of our own server.
    """

    model: ModelSettings
    peer: str | None
    peer_flags: tuple[str, ...]
    flags: tuple[str, ...]
    budget: int
    slots: int
    slot_tokens: int
    threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """One request with its answer.

    Attributes:
        prompt: the whole of it, as it was sent.
        text: of the answer.
    """

    turn: Turn
    prompt: str
    text: str
    life: ClientLife


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What came of one.

    Attributes:
        interleaved: sessions that took turns.
        answers: of all requests in order, warm-ups included.
        log: what our own server wrote; None of the peer.
        cache: what our own server said of its cache at the end, if it does.
        build: what the peer was built from.
    """

    way: Way
    round: int
    interleaved: int
    answers: tuple[Answered, ...]
    log: ServerLog | None
    cache: Any = None
    build: str | None = None

    @property
    def measured(self) -> tuple[ClientLife, ...]:
        """Lives of the measured requests, in order."""
        return tuple(each.life for each in self.answers if not each.turn.is_warm_up)

    @property
    def problems(self) -> tuple[str, ...]:
        """Why the figures of our own server are not to be trusted."""
        return () if self.log is None else self.log.problems_with(each.life for each in self.answers)

    def prompt_tokens(self, *, with_warm_ups: bool = False) -> int:
        """Of all measured prompts, as the server counts."""
        return sum(life.prompt_tokens or 0 for life in self._lives(with_warm_ups=with_warm_ups))

    def prefill_rows(self, *, with_warm_ups: bool = False) -> int | None:
        """Prompt rows that were computed for them: of our own server from its requests' rows, else as it tells."""
        lives = self._lives(with_warm_ups=with_warm_ups)
        if self.log is not None:
            rows = [self.log.of(life.request_id) for life in lives]
            return sum(row.prompt_tokens - row.reused_tokens for row in rows if row is not None)
        if any(life.cached_tokens is None for life in lives):
            return None
        return sum((life.prompt_tokens or 0) - (life.cached_tokens or 0) for life in lives)

    def _lives(self, *, with_warm_ups: bool) -> tuple[ClientLife, ...]:
        return tuple(each.life for each in self.answers) if with_warm_ups else self.measured


@dataclass(frozen=True, slots=True, kw_only=True)
class CellKey:
    """Which cell is to be run."""

    way: Way
    round: int
    interleaved: int


async def run_cell(setting: Setting, key: CellKey, turns: Sequence[Turn]) -> Cell:
    """Run one on a fresh server.

    Raises:
        ConfigError, ServerFailed, CallFailed: the server does not serve.
    """
    client = _Client(setting, key.way)
    if not key.way.is_peer:
        options = ServeOptions(
            slots=setting.slots,
            slot_tokens=setting.slot_tokens,
            backlog=1,
            threads=setting.threads,
            reuses=True,
            flags=(*FLAGS[key.way], *setting.flags),
        )
        async with served(setting.model, options, on_text=client.hear) as server:
            answers = await client.ask_all(server, turns)
            cache = (await server.call("GET", "/debug/cache")).body
            log = await server.stop()
        return Cell(
            way=key.way, round=key.round, interleaved=key.interleaved, answers=answers, log=log, cache=cache
        )  # fmt: skip
    assert setting.peer is not None, "its cells are left out without one"
    command = peer_command(setting.peer, setting.model, setting.peer_flags)
    size = ServerSize(slots=setting.slots, slot_tokens=setting.slot_tokens, threads=setting.threads)
    async with peer_served(command, setting.model, size, on_text=client.hear) as server:
        answers = await client.ask_all(server, turns)
        build = await build_of(server)
    return Cell(
        way=key.way, round=key.round, interleaved=key.interleaved, answers=answers, log=None, build=build
    )  # fmt: skip


class _Client:
    """One client that asks one request after the other, and continues sessions with the real answers."""

    def __init__(self, setting: Setting, way: Way) -> None:
        self._setting = setting
        self._way = way
        self._texts: dict[str, str] = {}
        self._so_far: dict[str, str] = {}

    def hear(self, request_id: str, text: str) -> None:
        """An answer has ended."""
        self._texts[request_id] = text

    async def ask_all(self, server: Asked, turns: Sequence[Turn]) -> tuple[Answered, ...]:
        """Every turn in order."""
        fields = {**GREEDY, **({"cache_prompt": True} if self._way.is_peer else {})}
        found: list[Answered] = []
        for turn in turns:
            prompt = (self._so_far.get(turn.session, "") if turn.continues else "") + turn.text
            ask = Ask(
                request_id=turn.name,
                prompt=prompt,
                max_tokens=self._setting.budget,
                fields=fields,
                session_id=turn.session if self._way.names_sessions else None,
            )
            life = await server.target.ask(ask, None)
            text = self._texts.pop(turn.name, "")
            self._so_far[turn.session] = prompt + text
            found.append(Answered(turn=turn, prompt=prompt, text=text, life=life))
        return tuple(found)
