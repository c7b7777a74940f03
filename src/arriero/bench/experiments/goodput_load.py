"""A mixed load that waits for nobody: short and long requests at a rate, and what came of it within objectives."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta

from arriero.bench.ask import Ask
from arriero.bench.experiments.sides import GREEDY
from arriero.bench.schedule import Limits, Loop, Planned, Schedule, seal
from arriero.core.errors import ConfigError
from arriero.metrics.client_figures import ClientSlos
from arriero.metrics.validity import Flag
from arriero.record.bench_parts import Point
from arriero.record.strict import Count, Name, Positive

DRAIN_S = 120.0
"""How long answers are waited for after the last arrival."""

_NS = 1_000_000_000
_NS_PER_MS = 1_000_000


class RequestKind(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kind of request.

    Attributes:
        name: begins the ids of its requests.
        weight: how often it comes, beside the weights of the others.
        prompt_low, prompt_high: tokens of a prompt, evenly spread.
        output_low, output_high: tokens of an answer.
    """

    name: Name
    weight: Annotated[float, Meta(gt=0, le=1e6)]
    prompt_low: Positive
    prompt_high: Positive
    output_low: Positive
    output_high: Positive

    def check(self) -> None:
        """Refuse bounds the wrong way round.

        Raises:
            ConfigError: names them.
        """
        for low, high in (("prompt_low", "prompt_high"), ("output_low", "output_high")):
            if getattr(self, low) > getattr(self, high):
                raise ConfigError(f"mix.kinds {self.name}: {low} is above {high}; lower it")


class Mix(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is asked.

    Attributes:
        kinds: of requests.
        first_token, vocabulary: ids that prompts are made of.
    """

    kinds: Annotated[tuple[RequestKind, ...], Meta(min_length=1)]
    first_token: Count
    vocabulary: Positive

    def check(self) -> None:
        """Refuse what cannot be made.

        Raises:
            ConfigError: names it.
        """
        for kind in self.kinds:
            kind.check()


class Objectives(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a good answer keeps, in milliseconds.

    Attributes:
        ttft_ms: the first token, counted from when the request was due.
        gap_ms: the longest wait for any further token.
    """

    ttft_ms: Positive
    gap_ms: Positive

    @property
    def slos(self) -> ClientSlos:
        """The same for a summary."""
        return ClientSlos(ttft_ns=self.ttft_ms * _NS_PER_MS, largest_gap_ns=self.gap_ms * _NS_PER_MS)


@dataclass(frozen=True, slots=True, kw_only=True)
class GoodputCell:
    """One side at one rate in one round.

    Attributes:
        side: by its name.
        share: the rate as a share of the measured capacity.
        point: figures, validity and every request.
        problems: why its figures are not to be trusted.
        build: what the peer was built from.
    """

    side: str
    share: float
    round: int
    point: Point
    problems: tuple[str, ...] = ()
    build: str | None = None

    @property
    def is_valid(self) -> bool:
        """Whether it shows the server rather than a generator that was late."""
        return self.point.validity.flag is not Flag.INVALID

    @property
    def good_per_s(self) -> float | None:
        """Requests a second that were answered within the objectives; None of a cell that is not valid."""
        return self.point.summary.window.good_requests_per_s if self.is_valid else None


def asks_of(mix: Mix, name: str, seed: int) -> Iterator[Ask]:
    """Requests of the mix without an end; the same name gives the same ones."""
    rng = random.Random(f"goodput {seed} {name}")
    ids = range(mix.first_token, mix.first_token + mix.vocabulary)
    weights = [kind.weight for kind in mix.kinds]
    number = 0
    while True:
        (kind,) = rng.choices(mix.kinds, weights)
        yield Ask(
            request_id=f"{name}-{kind.name}-{number}",
            prompt=tuple(rng.choices(ids, k=rng.randint(kind.prompt_low, kind.prompt_high))),
            max_tokens=rng.randint(kind.output_low, kind.output_high),
            fields=GREEDY,
        )
        number += 1


def schedule_of(mix: Mix, *, rate_per_s: float, seconds: float, name: str, seed: int) -> Schedule:
    """Poisson arrivals at a rate for so long, at least one; the same for every side."""
    rng = random.Random(f"arrivals {seed} {name}")
    end = round(seconds * _NS)
    planned: list[Planned] = []
    at = 0
    for ask in asks_of(mix, name, seed):
        if at >= end:
            break
        planned.append(Planned(ask=ask, at_ns=at))
        at += max(1, round(rng.expovariate(rate_per_s) * _NS))
    return seal(
        Loop.OPEN,
        planned,
        limits=Limits(duration_ns=end, drain_ns=round(DRAIN_S * _NS)),
        settings={"rate_per_s": rate_per_s, "seconds": seconds, "seed": seed, "name": name},
    )
