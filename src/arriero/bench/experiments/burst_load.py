"""Bursts: many requests that begin with one long prefix, from a few clients or all at once.

    prefix    the same tokens for every request of a burst, new ones for each burst: its first request is a cold one
    own       tokens of its own, the first of which no other request of the burst has

A closed loop of as many clients as requests is a fan-out: all are sent at the same moment.
"""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from arriero.bench.ask import Ask
from arriero.bench.experiments.samples import ratio
from arriero.bench.experiments.sides import GREEDY
from arriero.bench.target import Target
from arriero.core.errors import ConfigError
from arriero.core.ids import TokenId
from arriero.metrics.client_life import ClientLife
from arriero.record.strict import Positive

_WARM_UP_TOKENS: Final = 8


class BurstShape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a burst looks like.

    Attributes:
        requests: of one burst.
        clients: that send them, each one after the other.
        prefix_tokens, own_tokens: of every prompt.
        budget: tokens of every answer.
        first_token, vocabulary: ids that prompts are made of.
    """

    requests: Positive
    clients: Positive
    prefix_tokens: Positive
    own_tokens: Positive
    budget: Positive
    first_token: Annotated[int, Meta(ge=0)]
    vocabulary: Positive

    def check(self) -> None:
        """Refuse what cannot be made.

        Raises:
            ConfigError: there are too few ids for own tokens that all begin differently.
        """
        if self.requests >= self.vocabulary:
            raise ConfigError(
                f"vocabulary: {self.vocabulary} ids; {self.requests} requests need more, to begin unlike one another"
            )

    @property
    def ideal_rows(self) -> int:
        """Prompt rows of a burst whose prefix is computed once."""
        return self.prefix_tokens + self.requests * self.own_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """The prompts of one burst.

    Attributes:
        name: begins the ids of its requests.
        prefix: what all begin with.
        owns: what follows, a request each.
    """

    name: str
    prefix: tuple[TokenId, ...]
    owns: tuple[tuple[TokenId, ...], ...]

    def request_id(self, number: int) -> str:
        """Of one of its requests."""
        return f"{self.name}-{number}"


def burst_of(shape: BurstShape, number: int, seed: int) -> Burst:
    """The burst of a round; the same for every side."""
    rng = random.Random(f"burst {seed} {number}")
    ids = range(shape.first_token, shape.first_token + shape.vocabulary)
    firsts = rng.sample(ids, shape.requests + 1)  # no own part begins as the prefix of a later burst may
    return Burst(
        name=f"burst-{number}",
        prefix=(firsts[0], *rng.choices(ids, k=shape.prefix_tokens - 1)),
        owns=tuple((first, *rng.choices(ids, k=shape.own_tokens - 1)) for first in firsts[1:]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstRun:
    """One burst, served by one side.

    Attributes:
        side: by which.
        round: of the run.
        lives: of its requests, as they ended.
        prefill_rows: prompt rows that were computed for them; None if the side does not say.
        problems: why its figures are not to be trusted.
        cache: what the side said of its cache at the end, if it does.
        build: what the peer was built from.
    """

    side: str
    round: int
    lives: tuple[ClientLife, ...]
    prefill_rows: int | None
    problems: tuple[str, ...] = ()
    cache: Any = None
    build: str | None = None

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
    def first_ns(self) -> list[float]:
        """TTFT of each; infinite without a token."""
        return [
            life.chunk_at[0] - life.sent_at if life.chunk_at and life.sent_at is not None else float("inf")
            for life in self.lives
        ]


async def send(target: Target, shape: BurstShape, burst: Burst, *, cache_prompt: bool) -> tuple[ClientLife, ...]:
    """Serve a burst by a server: its clients send one request after the other."""
    fields = {**GREEDY, **({"cache_prompt": True} if cache_prompt else {})}
    numbers = iter(range(len(burst.owns)))
    lives: list[ClientLife] = []

    async def client() -> None:
        for number in numbers:
            prompt = burst.prefix + burst.owns[number]
            ask = Ask(request_id=burst.request_id(number), prompt=prompt, max_tokens=shape.budget, fields=fields)
            lives.append(await target.ask(ask, None))

    await asyncio.gather(*(client() for _ in range(shape.clients)))
    return tuple(lives)


async def warm_up(target: Target, shape: BurstShape, clients: int) -> None:
    """A short request for each client, so that no burst meets a server that has computed nothing yet."""
    ids = range(shape.first_token, shape.first_token + shape.vocabulary)
    rng = random.Random("warm up")

    def ask(number: int) -> Ask:
        prompt = tuple(rng.choices(ids, k=_WARM_UP_TOKENS))
        return Ask(request_id=f"warm-up-{number}", prompt=prompt, max_tokens=2, fields=GREEDY)

    await asyncio.gather(*(target.ask(ask(number), None) for number in range(clients)))


def pooled(runs: Sequence[BurstRun], side: str) -> list[float]:
    """TTFT of every request of a side, over all rounds."""
    return [first for run in runs if run.side == side for first in run.first_ns]
