"""Shares of functions: the hottest first, how much the first few hold together, and what mending one could gain.

The bound of a function with share s is 1 / (1 - s) (Amdahl, AFIPS 1967): the speed-up of the whole if it took no time
at all. No real change reaches it.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from arriero.metrics.symbol_families import Family


class Share(NamedTuple):
    """One function."""

    symbol: str
    shared_object: str
    share: float  # of all samples or instructions, 0 to 1


class Ranked(NamedTuple):
    """One function in its place."""

    rank: int  # from 1
    symbol: str
    shared_object: str
    share: float
    cumulative: float  # of it and all before it
    bound: float | None  # None for a share of everything


def amdahl_bound(share: float) -> float | None:
    """1 / (1 - share); None where there is no bound, for a share of 1.

    Raises:
        ValueError: not a share.
    """
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"{share} is no share; it lies between 0 and 1")
    return None if share >= 1.0 else 1.0 / (1.0 - share)


def ranked(shares: Iterable[Share], limit: int | None = None) -> tuple[Ranked, ...]:
    """The hottest first; equal shares by symbol, then by object."""
    ordered = sorted(shares, key=lambda each: (-each.share, each.symbol, each.shared_object))
    return tuple(_ranks(ordered[:limit]))


def _ranks(ordered: Sequence[Share]) -> Iterator[Ranked]:
    seen: list[float] = []
    for rank, each in enumerate(ordered, start=1):
        seen.append(each.share)
        cumulative = min(1.0, math.fsum(seen))
        yield Ranked(rank, each.symbol, each.shared_object, each.share, cumulative, amdahl_bound(each.share))


def top_share(shares: Iterable[float], count: int) -> float:
    """What the `count` largest hold together."""
    return min(1.0, math.fsum(sorted(shares, reverse=True)[:count]))


def family_shares(shares: Iterable[tuple[Family, float]]) -> dict[Family, float]:
    """Family -> its share, the largest first; equal ones in the order of `Family`."""
    parts: dict[Family, list[float]] = {}
    for family, share in shares:
        parts.setdefault(family, []).append(share)
    order = list(Family)
    sums = {family: min(1.0, math.fsum(found)) for family, found in parts.items()}
    return dict(sorted(sums.items(), key=lambda pair: (-pair[1], order.index(pair[0]))))
