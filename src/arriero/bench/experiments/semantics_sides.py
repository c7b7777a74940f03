"""What each side of the comparison did, question by question; nothing is judged here."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
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
    """

    plain: Told
    forced: Told | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lockstep:
    """Rounds in which all clients ask at once.

    Attributes:
        rounds: the lives of each.
        shapes: of each round of our own server, the rows of its steps; None where they are not known.
        logs: what our own server wrote.
    """

    clients: int
    budget: int
    rounds: tuple[tuple[ClientLife, ...], ...]
    log: ServerLog | None


@dataclass(slots=True, kw_only=True)
class SideFound:
    """Everything that one side did.

    Attributes:
        latencies: budget → lives of one client.
    """

    name: str
    end: EndOfGeneration | None = None
    latencies: dict[int, list[ClientLife]] = field(default_factory=dict[int, list[ClientLife]])
    capped: Lockstep | None = None
    matched: list[Lockstep] = field(default_factory=list[Lockstep])
    build: str | None = None


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
        found.end = EndOfGeneration(plain=plain, forced=forced)


async def ask_alone(side: Side, prompt: str, budgets: Sequence[int], number: int, found: SideFound) -> None:
    """One client; a warm-up, then so many answers of each budget in turns."""
    async with side.running(1, 1) as running:
        ids = await tokens_of(running.asked.url, prompt, add_special=True)
        await running.asked.target.ask(_ask(ids, budgets[0], "warm-up", stream=True), None)
        for index in range(number):
            for budget in budgets:
                life = await running.asked.target.ask(_ask(ids, budget, f"alone-{budget}-{index}", stream=True), None)
                found.latencies.setdefault(budget, []).append(life)


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
