"""A population that changes: so many requests are under way, the number drawn anew at each end, with mixed lengths.

As arrivals by the clock would, it leaves slots empty in no order; unlike them, it keeps the same number of slots busy
on a fast and on a slow machine, and for a fast and a slow server.
"""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from arriero.bench.ask import Ask
from arriero.bench.experiments.sides import GREEDY
from arriero.bench.target import Target
from arriero.core.errors import ConfigError
from arriero.metrics.client_life import ClientLife
from arriero.record.strict import Count, Positive


class Population(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is asked, and how many at a time.

    Attributes:
        requests: of one run.
        fewest, most: requests under way.
        prompt_low, prompt_high: tokens of a prompt, evenly spread.
        output_low, output_high: tokens of an answer.
        first_token, vocabulary: ids that prompts are made of.
    """

    requests: Positive
    fewest: Positive
    most: Positive
    prompt_low: Positive
    prompt_high: Positive
    output_low: Positive
    output_high: Positive
    first_token: Count
    vocabulary: Positive

    def check(self) -> None:
        """Refuse bounds the wrong way round.

        Raises:
            ConfigError: names them.
        """
        for low, high in (("fewest", "most"), ("prompt_low", "prompt_high"), ("output_low", "output_high")):
            if getattr(self, low) > getattr(self, high):
                raise ConfigError(f"population.{low}: is above population.{high}; lower it")
        if self.requests > self.vocabulary:
            raise ConfigError(f"vocabulary: {self.vocabulary} ids; {self.requests} prompts begin unlike one another")

    @property
    def longest(self) -> int:
        """Positions that a request needs at most."""
        return self.prompt_high + self.output_high


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run, fixed beforehand; the same for every side.

    Attributes:
        asks: in the order in which they are sent.
        sizes: of the population: the first one at the start, then one after each end.
    """

    asks: tuple[Ask, ...]
    sizes: tuple[int, ...]


def plan_of(population: Population, seed: int, number: int) -> Plan:
    """The plan of a round; each has prompts of its own."""
    population.check()
    rng = random.Random(f"population {seed} {number}")
    ids = range(population.first_token, population.first_token + population.vocabulary)
    asks = tuple(
        Ask(
            request_id=f"round-{number}-{index}",
            prompt=(first, *rng.choices(ids, k=rng.randint(population.prompt_low, population.prompt_high) - 1)),
            max_tokens=rng.randint(population.output_low, population.output_high),
            fields=GREEDY,
        )
        for index, first in enumerate(rng.sample(ids, population.requests))  # nothing is found in any cache
    )
    sizes = tuple(rng.randint(population.fewest, population.most) for _ in range(population.requests + 1))
    return Plan(asks=asks, sizes=sizes)


async def send_population(target: Target, plan: Plan) -> tuple[ClientLife, ...]:
    """Send a plan to a target; the lives in the order of their ends."""
    waiting = list(reversed(plan.asks))
    under_way: set[asyncio.Task[ClientLife]] = set()
    lives: list[ClientLife] = []
    while waiting or under_way:
        size = plan.sizes[len(lives)]
        while waiting and len(under_way) < size:
            under_way.add(asyncio.create_task(target.ask(waiting.pop(), None)))
        ended, under_way = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
        lives.extend(task.result() for task in ended)
    return tuple(lives)


def tokens_per_s(lives: Sequence[ClientLife]) -> float | None:
    """Output tokens over the time from the first send to the last end."""
    sent = [life.sent_at for life in lives if life.sent_at is not None]
    closed = [life.closed_at for life in lives if life.closed_at is not None]
    if not sent or not closed:
        return None
    seconds = (max(closed) - min(sent)) / 1e9
    return sum(life.num_tokens or 0 for life in lives) / seconds if seconds else None
