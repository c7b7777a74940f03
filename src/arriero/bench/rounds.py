"""Rounds: in which order two sides are measured, so that nothing that changes with time favours one of them.

A round measures both sides once, and its two measurements make a pair. A machine that grows slower by the minute
slows the second of a pair a little more than the first, so the sides take turns in going first:

    abba     round 1: A B, round 2: B A, round 3: A B ...   a drift that is linear in time cancels over two rounds
    seeded   each round by chance, as many A B as B A       also against what comes back every second round

All of A and then all of B would give the drift of the machine as the difference of the sides; it is refused.
"""

import random
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from arriero.core.errors import ConfigError

FEWEST_ROUNDS: Final = 6
"""Below them there is no verdict: the exact interval needs so many pairs at 95 %, and a drift as many samples."""

FEWEST_AA_ROUNDS: Final = 2
"""So that each place of a pair comes first once; below `FEWEST_ROUNDS` the floor is the whole range of the pairs."""


class Side(StrEnum):
    """One of the two things that are compared."""

    A = "a"
    B = "b"

    @property
    def other(self) -> "Side":
        """The one that it is compared with."""
        return Side.B if self is Side.A else Side.A


class Order(StrEnum):
    """How the order of the measurements is chosen."""

    ABBA = "abba"
    SEEDED = "seeded"


def order_of(kind: Order, num_rounds: int, seed: int, *, fewest: int = FEWEST_ROUNDS) -> tuple[Side, ...]:
    """The sides in the order in which they are measured; round r is number 2r and 2r + 1.

    Raises:
        ConfigError: the rounds are too few, or an odd number, which leaves the two orders unbalanced.
    """
    if num_rounds < fewest or num_rounds % 2:
        raise ConfigError(f"{num_rounds} rounds: use an even number of at least {fewest}")
    starts = [Side.A, Side.B] * (num_rounds // 2)
    if kind is Order.SEEDED:
        random.Random(seed).shuffle(starts)
    sides = tuple(side for first in starts for side in (first, first.other))
    check_order(sides)
    return sides


def read_order(text: str) -> Order:
    """The order that a word names.

    Raises:
        ConfigError: it is none, or one that cannot tell a difference of the sides from a drift of the machine.
    """
    try:
        return Order(text)
    except ValueError:
        known = " or ".join(Order)
    if text in {"sequential", "aabb", "blocks"}:
        raise ConfigError(
            f"--order {text}: all of one side before all of the other turns a drift of the machine into a difference; "
            f"use {known}"
        )
    raise ConfigError(f"--order {text}: no such order; use {known}")


def check_order(sides: Sequence[Side]) -> None:
    """Refuse an order in which a pair is no pair, or one side always goes first.

    Raises:
        ConfigError: says which.
    """
    rounds = [sides[start : start + 2] for start in range(0, len(sides), 2)]
    if any(len(set(each)) != 2 for each in rounds):
        raise ConfigError(f"order {shown(sides)}: each round has to measure both sides; use {' or '.join(Order)}")
    num_a_first = sum(each[0] is Side.A for each in rounds)
    if len(rounds) > 1 and num_a_first in {0, len(rounds)}:
        raise ConfigError(f"order {shown(sides)}: one side always goes first; use {' or '.join(Order)}")


def shown(sides: Sequence[Side]) -> str:
    """The order as it is printed and stored: `ABBAABBA`."""
    return "".join(side.upper() for side in sides)
