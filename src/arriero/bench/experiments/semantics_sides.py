"""What each side of the comparison did, question by question; nothing is judged here."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from arriero.bench.ask import Ask
from arriero.bench.experiments.calls import call
from arriero.bench.experiments.contexts import ModelSettings
from arriero.bench.experiments.served import ServeOptions, ServerLog, served, tokens_of
from arriero.bench.experiments.sides import (
    GREEDY,
    OURS,
    Asked,
    ServerSize,
    build_of,
    peer_command,
    peer_served,
)
from arriero.bench.sse_wire import Choice, Chunk
from arriero.core.ids import TokenId
from arriero.metrics.client_life import ClientLife

END_BIAS: Final = 100
PATH: Final = "/v1/completions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A whole body: the server's own count, how it ended, its text with white space made one."""

    status: int
    num_tokens: int | None
    finish: str | None
    text: str


@dataclass(slots=True)
class Running:
    """One server while it is asked, and what it wrote when it has ended.

    Attributes:
        log: of our own server, once it has ended; None before, and of any other.
        build: what the peer was built from.
    """

    asked: Asked
    log: ServerLog | None = None
    build: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two servers, to be started as often as needed.

    Attributes:
        peer: path of llama-server; None: our own server.
    """

    name: str
    model: ModelSettings
    slot_tokens: int
    threads: int
    peer: str | None = None
    peer_flags: tuple[str, ...] = ()

    @asynccontextmanager
    async def running(self, slots: int, backlog: int) -> AsyncGenerator[Running]:
        """A fresh one; `backlog` means something to our own server only."""
        if self.peer is None:
            options = ServeOptions(slots=slots, slot_tokens=self.slot_tokens, backlog=backlog, threads=self.threads)
            async with served(self.model, options) as server:
                found = Running(server)
                yield found
                found.log = await server.stop()
            return
        command = peer_command(self.peer, self.model, self.peer_flags)
        size = ServerSize(slots=slots, slot_tokens=self.slot_tokens, threads=self.threads)
        async with peer_served(command, self.model, size) as server:
            found = Running(server)
            found.build = await build_of(server)
            yield found


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOfGeneration:
    """A prompt that may end at once, and the same with the end token forced.

    Attributes:
        plain: without help.
        forced: the end token comes first; None if its text is not one token here.
        log: what our own server wrote.
    """

    plain: Told
    forced: Told | None
    log: ServerLog | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """One client on one slot.

    Attributes:
        lives: by budget.
        log: what our own server wrote.
    """

    lives: Mapping[int, tuple[ClientLife, ...]]
    log: ServerLog | None

    def all_lives(self) -> tuple[ClientLife, ...]:
        """Of every budget."""
        return tuple(life for each in self.lives.values() for life in each)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lockstep:
    """Rounds in which all clients ask at once.

    Attributes:
        rounds: the lives of each.
        log: what our own server wrote; None of the peer.
    """

    clients: int
    budget: int
    rounds: tuple[tuple[ClientLife, ...], ...]
    log: ServerLog | None

    def all_lives(self) -> tuple[ClientLife, ...]:
        """Of every round."""
        return tuple(life for each in self.rounds for life in each)


@dataclass(slots=True, kw_only=True)
class SideFound:
    """Everything that one side did; what is missing is the cells whose server failed.

    Attributes:
        alone: blocks of one client.
        capped: more clients than may be in flight.
        matched: as many clients as slots.
        build: what the peer was built from.
    """

    name: str
    end: EndOfGeneration | None = None
    alone: list[Alone] = field(default_factory=list[Alone])
    capped: Lockstep | None = None
    matched: list[Lockstep] = field(default_factory=list[Lockstep])
    build: str | None = None

    @property
    def latencies(self) -> dict[int, list[ClientLife]]:
        """Budget → the lives of one client, over all blocks."""
        found: dict[int, list[ClientLife]] = {}
        for block in self.alone:
            for budget, lives in block.lives.items():
                found.setdefault(budget, []).extend(lives)
        return found

    def problems(self) -> list[tuple[str, ...]]:
        """Of each cell of our own server, why its figures are not to be trusted."""
        cells: list[Alone | Lockstep] = [*self.alone, *([] if self.capped is None else [self.capped]), *self.matched]
        found = [each.log.problems_with(each.all_lives()) for each in cells if each.log is not None]
        return found if self.end is None or self.end.log is None else [self.end.log.problems, *found]


async def ask_for_end(side: Side, prompt: str, end_text: str, budget: int, found: SideFound) -> None:
    """How an answer that ends at once is counted."""
    async with side.running(1, 1) as running:
        found.build = running.build
        url = running.asked.url
        plain = await _whole(url, {"prompt": prompt, "max_tokens": budget, "temperature": 0})
        forced = None
        ids = await tokens_of(url, end_text, parse_special=True)
        if len(ids) == 1:
            bias = {str(ids[0]): END_BIAS}
            body = {"prompt": prompt, "max_tokens": budget, "temperature": 0, "logit_bias": bias}
            forced = await _whole(url, body)
    found.end = EndOfGeneration(plain=plain, forced=forced, log=running.log)


async def ask_alone(side: Side, prompt: str, budgets: Sequence[int], number: int) -> Alone:
    """One client; a warm-up, then so many answers of each budget in turns."""
    lives: dict[int, list[ClientLife]] = {budget: [] for budget in budgets}
    async with side.running(1, 1) as running:
        ids = await tokens_of(running.asked.url, prompt, add_special=True)
        await running.asked.target.ask(_ask(ids, budgets[0], "warm-up", stream=True), None)
        for index in range(number):
            for budget in budgets:
                ask = _ask(ids, budget, f"alone-{budget}-{index}", stream=True)
                lives[budget].append(await running.asked.target.ask(ask, None))
    return Alone(lives={budget: tuple(each) for budget, each in lives.items()}, log=running.log)


async def lockstep(
    side: Side, prompt: str, *, slots: int, backlog: int, clients: int, budget: int, rounds: int
) -> Lockstep:
    """So many clients that ask at once, again and again; a round begins when the last one has ended."""
    lives: list[tuple[ClientLife, ...]] = []
    async with side.running(slots, backlog) as running:
        target = running.asked.target
        ids = await tokens_of(running.asked.url, prompt, add_special=True)
        await target.ask(_ask(ids, budget, "warm-up"), None)
        for number in range(rounds):
            asks = [_ask(ids, budget, f"round-{number}-{client}") for client in range(clients)]
            lives.append(tuple(await asyncio.gather(*(target.ask(ask, None) for ask in asks))))
    return Lockstep(clients=clients, budget=budget, rounds=tuple(lives), log=running.log)


def is_ours(found: SideFound) -> bool:
    """Whether this is this project's server."""
    return found.name == OURS


def _ask(ids: tuple[TokenId, ...], budget: int, request_id: str, *, stream: bool = False) -> Ask:
    return Ask(request_id=request_id, prompt=ids, max_tokens=budget, stream=stream, fields=GREEDY)


async def _whole(url: str, body: dict[str, Any]) -> Told:
    reply = await call(url, "POST", PATH, body)
    try:
        answer = msgspec.convert(reply.body, Chunk)
    except msgspec.ValidationError:
        answer = Chunk()
    choice = answer.choices[0] if answer.choices else Choice()
    return Told(
        status=reply.status,
        num_tokens=None if answer.usage is None else answer.usage.completion_tokens,
        finish=choice.finish_reason,
        text=" ".join((choice.text or "").split()),
    )
