"""In which order the runs of a paired comparison came, and what that does to a verdict."""

from enum import StrEnum
from itertools import pairwise
from typing import Final, NamedTuple


class OrderKind(StrEnum):
    """How an order protects against whatever changes with time."""

    INTERLEAVED = "interleaved"  # each pair is two neighbours, and the sides take turns in going first
    ONE_SIDED = "one_sided"  # each pair is two neighbours, and one side goes first much more often
    BLOCKS = "blocks"  # several of one side, several of the other, more than once
    SEQUENTIAL = "sequential"  # all of one side before all of the other
    UNKNOWN = "unknown"  # nobody wrote it down


class JudgedOrder(NamedTuple):
    """An order and what to say of it."""

    kind: OrderKind
    words: str  # a caution; empty for an interleaved one


_LEAST_SHARE: Final = 0.25
"""Share of the pairs that the side which goes first less often has to begin."""


def judge_order(order: str | None) -> JudgedOrder:
    """What an order such as `ABBAABBA` is worth; upper or lower case.

    Raises:
        ValueError: other letters than A and B, or not as many of one as of the other.
    """
    if order is None:
        return JudgedOrder(OrderKind.UNKNOWN, "the order of running was not recorded: drift cannot be told from effect")
    sides = order.upper()
    if set(sides) - {"A", "B"} or sides.count("A") != sides.count("B"):
        raise ValueError(f"order {order!r}: use A and B alone, as many of one as of the other")
    if len(sides) > 2 and sum(one != other for one, other in pairwise(sides)) == 1:
        words = f"sequential order: all runs of {sides[0]} came before all of {sides[-1]}; interleave them (ABBA)"
        return JudgedOrder(OrderKind.SEQUENTIAL, words)
    starts = [sides[start : start + 2] for start in range(0, len(sides), 2)]
    if any(pair[0] == pair[1] for pair in starts):
        return JudgedOrder(OrderKind.BLOCKS, "the two runs of a pair were not neighbours; interleave the sides (ABBA)")
    first = min(starts.count("AB"), starts.count("BA"))
    if len(starts) > 1 and first < _LEAST_SHARE * len(starts):
        words = f"{max(starts, key=starts.count)[0]} went first in {len(starts) - first} of {len(starts)} pairs"
        return JudgedOrder(OrderKind.ONE_SIDED, f"{words}: drift counts for one side; take turns (ABBA)")
    return JudgedOrder(OrderKind.INTERLEAVED, "")
