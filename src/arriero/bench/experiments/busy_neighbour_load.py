"""A closed loop of clients, once quiet and once beside a busy process, on one server."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import msgspec

from arriero.bench.ask import Ask
from arriero.bench.experiments.calls import call
from arriero.bench.experiments.holes_load import tokens_per_s
from arriero.bench.experiments.sides import GREEDY
from arriero.bench.experiments.tuned import Bed, Tuned, TunedServer, share_out, tuned_server
from arriero.bench.metrics_page import sum_of
from arriero.bench.neighbour import BusyNeighbour
from arriero.metrics.client_life import ClientLife
from arriero.record.strict import Count, Positive

_WARM_UP: Final = "warm-up"


class State(StrEnum):
    """Who else is there."""

    QUIET = "quiet"
    BESIDE = "beside a busy process"


class NeighbourLoad(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is sent in each state.

    Attributes:
        clients: that each send one request after the other.
        requests: of all of them.
        prompt_tokens, budget: of every prompt and answer.
        first_token, vocabulary: ids that prompts are made of.
    """

    clients: Positive
    requests: Positive
    prompt_tokens: Positive
    budget: Positive
    first_token: Count
    vocabulary: Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class NeighbourRun:
    """One state of one round of one side.

    Attributes:
        lives: of its requests.
        cores: CPUs that the neighbour had meanwhile; None without one, and where the system does not say.
        threads: compute threads that our server said it used at the end; None from others.
        problems: why its figures are not to be trusted.
        build: what the peer was built from.
    """

    side: str
    round: int
    state: State
    lives: tuple[ClientLife, ...]
    cores: float | None
    threads: float | None
    problems: tuple[str, ...] = ()
    build: str | None = None

    @property
    def tokens_per_s(self) -> float | None:
        """Output tokens, as the server counts them, from the first send to the last end."""
        return tokens_per_s(self.lives)


async def serve_both(bed: Bed, side: Tuned, load: NeighbourLoad, number: int, seed: int) -> list[NeighbourRun]:
    """Both states of a round on one fresh server; every second round begins beside the neighbour.

    Raises:
        ConfigError, ServerFailed, CallFailed: the side does not serve.
    """
    states = (State.QUIET, State.BESIDE) if number % 2 == 0 else (State.BESIDE, State.QUIET)
    runs: list[NeighbourRun] = []
    async with tuned_server(bed, side) as server:
        await share_out(server.target, load.clients, asks_of(load, _WARM_UP, load.clients, seed))
        for state in states:
            asks = asks_of(load, f"{number}-{state.name}", load.requests, seed)
            runs.append(await _one(server, side, load, state, number, asks))
        problems = await server.end([life for each in runs for life in each.lives])
    return [replace(each, problems=problems, build=server.build) for each in runs]


async def _one(
    server: TunedServer, side: Tuned, load: NeighbourLoad, state: State, number: int, asks: Sequence[Ask]
) -> NeighbourRun:
    neighbour = BusyNeighbour()
    if state is State.BESIDE:
        neighbour.start()
    try:
        lives = await share_out(server.target, load.clients, asks)
        threads = await _threads(server.url) if side.is_ours else None
    finally:
        visit = neighbour.stop()
    return NeighbourRun(
        side=side.name,
        round=number,
        state=state,
        lives=lives,
        cores=None if visit is None else visit.cores,
        threads=threads,
    )


def asks_of(load: NeighbourLoad, name: str, count: int, seed: int) -> tuple[Ask, ...]:
    """So many requests whose prompts have nothing in common; the same for every side."""
    rng = random.Random(f"busy neighbour {seed} {name}")
    ids = range(load.first_token, load.first_token + load.vocabulary)
    return tuple(
        Ask(
            request_id=f"{name}-{index}",
            prompt=tuple(rng.choices(ids, k=load.prompt_tokens)),
            max_tokens=load.budget,
            fields=GREEDY,
        )
        for index in range(count)
    )


async def _threads(url: str) -> float | None:
    """The compute threads that our server says it uses; None if it does not say."""
    return sum_of((await call(url, "GET", "/metrics")).body, "arriero_threads")
