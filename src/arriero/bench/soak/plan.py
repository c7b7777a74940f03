"""Plan of a soak: what comes when in each leg, from the seed and the number of the leg and from nothing else.

So a leg that was cut short is run again as it was, and no leg depends on those before it. Clients ask one request after
the other, whose contents are fixed and whose number is not: a fast server gets more of them.

    leg      |<---------------- sending ---------------->|<-- draining -->|  counted, on disk
    clients  ask, think, ask, think, leave, ask ...      |
    moments        burst      long   slow      burst     |
    stays              [ the busy neighbour ]                                every second leg
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

from arriero.bench.ask import Ask
from arriero.bench.soak.settings import Lengths, SoakSettings

GREEDY: Final = {"temperature": 0, "ignore_eos": True}
BEGINNINGS: Final = 4
"""Different beginnings that prompts share."""

_STAY_LOW, _STAY_HIGH = 0.3, 0.7  # of its part of the time in which requests are sent


class Kind(StrEnum):
    """Why a request is sent."""

    CLIENT = "client"
    LEFT = "left"  # a client leaves it
    BURST = "burst"
    LONG = "long"
    SLOW = "slow"


class ClientAsk(NamedTuple):
    """One request of a client."""

    kind: Kind
    ask: Ask
    think_s: float  # before the next one, once it is answered


@dataclass(frozen=True, slots=True)
class Moment:
    """Requests that are sent together.

    Attributes:
        at_s: from the begin of the leg.
    """

    at_s: float
    kind: Kind
    asks: tuple[Ask, ...]


@dataclass(frozen=True, slots=True)
class Stay:
    """A time in which the busy neighbour is there, from the begin of the leg."""

    from_s: float
    to_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """One leg.

    Attributes:
        number: from 0.
        send_s: how long requests are sent.
        moments: in order.
        stays: in order, none over another.
    """

    number: int
    send_s: float
    moments: tuple[Moment, ...]
    stays: tuple[Stay, ...]


def leg_of(settings: SoakSettings, number: int) -> Leg:
    """A leg by its number."""
    load = settings.load
    send_s = settings.leg_s * settings.send_share
    rng = _chance(settings, number, "moments")
    kinds = [*([Kind.BURST] * load.bursts), *([Kind.LONG] * load.longs), *([Kind.SLOW] * load.slow_readers)]
    moments = [
        Moment(rng.uniform(0, send_s), kind, _asks_at(settings, number, index, kind))
        for index, kind in enumerate(kinds)
    ]
    return Leg(
        number=number,
        send_s=send_s,
        moments=tuple(sorted(moments, key=lambda moment: moment.at_s)),
        stays=tuple(_stays(_chance(settings, number, "stays"), load.visits, send_s)) if number % 2 else (),
    )


def asks_of_client(settings: SoakSettings, number: int, client: int) -> Iterator[ClientAsk]:
    """What a client asks in a leg, without an end."""
    load = settings.load
    rng = _chance(settings, number, f"client {client}")
    beginnings = _beginnings(settings)
    count = 0
    while True:
        begin = rng.choice(beginnings) if rng.random() < load.shared_share else ()
        ask = _ask(settings, rng, f"{number}-client-{client}-{count}", load.short, begin=begin)
        kind = Kind.CLIENT
        if rng.random() < load.cancel_share:
            kind = Kind.LEFT
            ask = replace(ask, cancel_after=rng.randrange(ask.max_tokens))
        yield ClientAsk(kind, ask, rng.expovariate(1.0) * load.think_ms / 1e3)
        count += 1


def _asks_at(settings: SoakSettings, number: int, index: int, kind: Kind) -> tuple[Ask, ...]:
    load = settings.load
    rng = _chance(settings, number, f"moment {index}")
    lengths = {Kind.BURST: load.short, Kind.LONG: load.long, Kind.SLOW: load.slow}[kind]
    count = settings.in_flight + load.burst_extra if kind is Kind.BURST else 1
    return tuple(_ask(settings, rng, f"{number}-{kind}-{index}-{each}", lengths) for each in range(count))


def _ask(
    settings: SoakSettings, rng: random.Random, name: str, lengths: Lengths, *, begin: tuple[int, ...] = ()
) -> Ask:
    ids = _ids(settings)
    own = tuple(rng.choices(ids, k=rng.randint(lengths.prompt_low, lengths.prompt_high)))
    output = rng.randint(lengths.output_low, lengths.output_high)
    return Ask(request_id=name, prompt=begin + own, max_tokens=output, fields=GREEDY)


def _stays(rng: random.Random, count: int, send_s: float) -> Iterator[Stay]:
    """So many stays, each in its own part of the time."""
    part = send_s / max(1, count)
    for number in range(count):
        length = rng.uniform(_STAY_LOW, _STAY_HIGH) * part
        begin = number * part + rng.uniform(0, part - length)
        yield Stay(begin, begin + length)


def _beginnings(settings: SoakSettings) -> list[tuple[int, ...]]:
    """The same in every leg, so that some of them are found again."""
    rng = random.Random(f"soak {settings.seed} beginnings")
    return [tuple(rng.choices(_ids(settings), k=settings.load.shared_tokens)) for _ in range(BEGINNINGS)]


def _ids(settings: SoakSettings) -> range:
    return range(settings.load.first_token, settings.load.first_token + settings.load.vocabulary)


def _chance(settings: SoakSettings, number: int, use: str) -> random.Random:
    return random.Random(f"soak {settings.seed} leg {number} {use}")
