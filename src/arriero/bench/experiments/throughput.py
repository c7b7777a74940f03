"""E5: tokens a second with few clients, and whether busy slots explain the difference to llama-server.

Closed loops of clients, as many slots as clients, the same prompt, whole bodies. The servers take turns in going first,
each is fresh, and both export how many slots were busy in how many decode calls, under the same names.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median as fmedian
from typing import Final

import msgspec

from arriero.backend.models import resolve_model
from arriero.bench.ask import Ask
from arriero.bench.client_loop import run as run_on_loop
from arriero.bench.experiments.calls import call
from arriero.bench.experiments.contexts import ModelSettings
from arriero.bench.experiments.experiment import Experiment, Outcome, Statement, Table, Tell, Value
from arriero.bench.experiments.failed_cells import FailedCells
from arriero.bench.experiments.prometheus import SlotCounts, slot_counts
from arriero.bench.experiments.samples import NS_PER_MS, http_label, median, ratio, rounded, spread, stable
from arriero.bench.experiments.served import model_facts, tokens_of
from arriero.bench.experiments.sides import (
    GREEDY,
    NO_PEER,
    OURS,
    THEIRS,
    AskedServer,
    ServerSize,
    asked_server,
    build_of,
    check_peer,
    peer_command,
)
from arriero.bench.peers import arriero
from arriero.bench.servers_commands import ServerCommand, with_flags
from arriero.metrics.client_life import ClientLife
from arriero.metrics.client_life import Outcome as End
from arriero.record.strict import Count, Name, Positive

UNEXPLAINED: Final = 0.05


class Throughput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is run.

    Attributes:
        peer: path of llama-server; None: only this project's server is measured.
        peer_flags: further flags of it.
        prompt: of every request.
        budget: tokens of every answer.
        clients: numbers of clients, each with as many slots.
        requests: measured in each cell, over all clients.
        rounds: of each cell; the servers take turns in going first.
        slot_tokens: KV positions of each slot.
        threads: compute threads of either server; 0: every CPU.
    """

    model: ModelSettings
    peer: str | None = None
    peer_flags: tuple[str, ...] = ()
    prompt: Name
    budget: Positive
    clients: tuple[Positive, ...]
    requests: Positive
    rounds: Positive
    slot_tokens: Positive
    threads: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One server under one load.

    Attributes:
        lives: of the measured requests.
        counts: decode calls and busy slots while they were served.
    """

    server: str
    clients: int
    round: int
    lives: tuple[ClientLife, ...]
    counts: SlotCounts

    @property
    def seconds(self) -> float:
        """From the first send to the last end."""
        sent = [life.sent_at for life in self.lives if life.sent_at is not None]
        closed = [life.closed_at for life in self.lives if life.closed_at is not None]
        return (max(closed) - min(sent)) / 1e9 if sent and closed else 0.0

    @property
    def tokens_per_s(self) -> float | None:
        """Output tokens, as the server counts them, over that time."""
        return ratio(sum(life.num_tokens or 0 for life in self.lives), self.seconds)

    @property
    def calls_per_s(self) -> float | None:
        """Decode calls over that time."""
        return ratio(self.counts.calls, self.seconds)


def run(config: Throughput, tell: Tell) -> Outcome:
    """Measure and judge."""
    facts = model_facts(config.model)
    check_peer(config.peer, config.model)
    failed = FailedCells()
    loads, peer_build = run_on_loop(_loads(config, failed, tell))
    bad = sum(life.outcome is not End.LENGTH for load in loads for life in load.lives)
    statements = [failed.statement(), Statement.equal("requests that failed, were rejected or ended early", bad, 0)]
    statements += [judge_texts(loads), *(judge(config, loads, clients) for clients in config.clients)]
    return Outcome(
        statements=tuple(statements),
        tables=(table(config, loads),),
        limits=_limits(config),
        facts={**facts, "threads": config.threads, "peer_build": peer_build, **failed.facts},
        raw={"loads.jsonl": b"".join(msgspec.json.encode(load) + b"\n" for load in loads)},
    )


def _commands(config: Throughput) -> dict[str, tuple[ServerCommand, str]]:
    """Each server with the model as it is told."""
    model = config.model
    flags = ("--backend", model.backend, "--flash-attn", model.flash_attention, "--no-reuse")
    found = {OURS: (with_flags(arriero(), flags), model.reference)}
    if config.peer is not None:
        found[THEIRS] = (peer_command(config.peer, model, config.peer_flags), str(resolve_model(model.reference)))
    return found


async def _loads(config: Throughput, failed: FailedCells, tell: Tell) -> tuple[list[Load], str | None]:
    """Every load whose server served, and what the peer was built from."""
    found: list[Load] = []
    peer_build: str | None = None
    commands = _commands(config)
    for number, clients, name in _order(config, list(commands)):
        cell = f"round {number + 1} of {config.rounds}, {clients} clients, {name}"
        tell(cell)
        command, model = commands[name]
        size = ServerSize(slots=clients, slot_tokens=config.slot_tokens, threads=config.threads)
        with failed.losing(cell):
            async with asked_server(command, size.values(model)) as server:
                lives, counts = await _load(config, server, clients)
                peer_build = peer_build or await build_of(server)
            found.append(Load(server=name, clients=clients, round=number, lives=lives, counts=counts))
    return found, peer_build


def _order(config: Throughput, servers: list[str]) -> Iterator[tuple[int, int, str]]:
    """Round, clients and server of each cell; every other round begins with the other server."""
    for number in range(config.rounds):
        turns = servers if number % 2 == 0 else servers[::-1]
        yield from ((number, clients, server) for clients in config.clients for server in turns)


async def _load(config: Throughput, server: AskedServer, clients: int) -> tuple[tuple[ClientLife, ...], SlotCounts]:
    """A warm-up for each client, then the measured requests."""
    prompt = await tokens_of(server.url, config.prompt, add_special=True)

    def ask(number: int | str) -> Ask:
        return Ask(request_id=f"r-{number}", prompt=prompt, max_tokens=config.budget, stream=False, fields=GREEDY)

    await asyncio.gather(*(server.target.ask(ask(f"warm-up-{i}"), None) for i in range(clients)))
    before = slot_counts((await call(server.url, "GET", "/metrics")).body)
    numbers = iter(range(config.requests))
    lives: list[ClientLife] = []

    async def client() -> None:
        lives.extend([await server.target.ask(ask(number), None) for number in numbers])

    await asyncio.gather(*(client() for _ in range(clients)))
    after = slot_counts((await call(server.url, "GET", "/metrics")).body)
    return tuple(lives), after.since(before)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Figures:
    """One server at one number of clients, medians over rounds."""

    tokens_per_s: float | None
    mean_active: float | None
    calls_per_s: float | None
    rounds: tuple[float | None, ...]
    answer_ms: float | None
    num_texts: int

    @property
    def slots_per_s(self) -> float | None:
        """Busy slots of a call, times calls a second; None if either is not known."""
        if self.mean_active is None or self.calls_per_s is None:
            return None
        return self.mean_active * self.calls_per_s


def _figures(loads: Sequence[Load], server: str, clients: int) -> _Figures:
    chosen = [load for load in loads if load.server == server and load.clients == clients]
    rates = tuple(load.tokens_per_s for load in chosen)
    answers = (
        life.closed_at - life.sent_at for load in chosen for life in load.lives if life.closed_at and life.sent_at
    )
    return _Figures(
        tokens_per_s=median(rate for rate in rates if rate is not None),
        mean_active=median(each for load in chosen if (each := load.counts.mean_active) is not None),
        calls_per_s=median(each for load in chosen if (each := load.calls_per_s) is not None),
        rounds=rates,
        answer_ms=ratio(median(answers), NS_PER_MS),
        num_texts=len({life.text_sha256 for load in chosen for life in load.lives}),
    )


def judge_texts(loads: Sequence[Load]) -> Statement:
    """One client is served alone, so our answers to the one prompt must be the same in every round."""
    texts: dict[object, set[str]] = {}
    for load in loads:
        if load.server == OURS and load.clients == 1:
            texts.setdefault("the prompt", set()).update(life.text_sha256 or "none" for life in load.lives)
    return stable("1 client: our answers are the same in every round", texts)


def judge(config: Throughput, loads: Sequence[Load], clients: int) -> Statement:
    """Whether the ratio of busy slots explains the ratio of tokens a second; both are taken round by round."""
    text = f"{clients} clients: what busy slots leave unexplained of the ratio of tokens a second"
    if config.peer is None:
        return Statement.undecided(text, f"at most {UNEXPLAINED:g}", NO_PEER)
    rests = [
        speed / busy
        for ours, theirs in _pairs(loads, OURS, clients)
        if (speed := ratio(ours.tokens_per_s, theirs.tokens_per_s)) is not None
        and (busy := ratio(ours.counts.mean_active, theirs.counts.mean_active))
    ]
    return Statement.at_most(text, rounded(abs(fmedian(rests) - 1)) if rests else None, UNEXPLAINED)


def _pairs(loads: Sequence[Load], server: str, clients: int) -> Iterator[tuple[Load, Load]]:
    """A server and the peer in the same round."""
    by_key = {(load.server, load.clients, load.round): load for load in loads}
    for load in loads:
        peer = by_key.get((THEIRS, clients, load.round))
        if (load.server, load.clients) == (server, clients) and peer is not None:
            yield load, peer


def _against_peer(loads: Sequence[Load], server: str, clients: int) -> float | None:
    """The ratio of tokens a second, median over rounds."""
    pairs = _pairs(loads, server, clients)
    ratios = [each for one, peer in pairs if (each := ratio(one.tokens_per_s, peer.tokens_per_s)) is not None]
    return fmedian(ratios) if ratios else None


def table(config: Throughput, loads: Sequence[Load]) -> Table:
    """Every number of clients with every server."""
    base = min(config.clients)
    return Table(
        title="Throughput of a closed loop, as many slots as clients",
        label=http_label(config.model),
        heads=(
            "clients", "server", "tok/s", "rounds", f"/ {base} client{'' if base == 1 else 's'}", "/ llama-server",
            "mean active", "decode calls/s", "mean active x decode calls/s", "answer p50, ms", "texts",
        ),
        rows=tuple(_rows(config, loads, base)),
        note=(
            f"Medians over {config.rounds} rounds, ratios to llama-server round by round. Both servers count decode "
            "calls and busy slots themselves. Answers in different company need not be equal bit by bit: texts of "
            "more than one client are counted only."
        ),
    )  # fmt: skip


def _rows(config: Throughput, loads: Sequence[Load], base: int) -> Iterator[tuple[Value, ...]]:
    servers = list(dict.fromkeys(load.server for load in loads))
    for clients in config.clients:
        for server in servers:
            found, fewest = _figures(loads, server, clients), _figures(loads, server, base)
            yield (
                clients,
                server,
                rounded(found.tokens_per_s),
                spread(found.rounds),
                rounded(ratio(found.tokens_per_s, fewest.tokens_per_s)),
                rounded(_against_peer(loads, server, clients)),
                rounded(found.mean_active),
                rounded(found.calls_per_s),
                rounded(found.slots_per_s),
                rounded(found.answer_ms),
                found.num_texts,
            )


def _limits(config: Throughput) -> tuple[str, ...]:
    return (
        "A smoke test: short answers to one short prompt, few clients; `arriero bench compare` is the comparison.",
        "A closed loop with as many slots as clients leaves slots empty between two requests, whoever serves.",
        *(() if config.peer is not None else (NO_PEER[:1].upper() + NO_PEER[1:] + ".",)),
    )


EXPERIMENT: Final = Experiment(
    name="throughput",
    number="E5",
    decides="Is the difference to llama-server in a closed loop explained by how many slots were busy?",
    metric="ratio of tokens a second, divided by the ratio of busy slots in a decode call",
    comparison="arriero and llama-server, fresh for each cell, taking turns in going first",
    difference="5 % that busy slots do not explain",
    config=Throughput,
    run=run,
)
