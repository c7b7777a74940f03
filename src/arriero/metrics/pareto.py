"""The Pareto front: what nothing else beats in everything at once."""

from collections.abc import Sequence
from typing import TypeAlias

Costs: TypeAlias = Sequence[float]
"""One value an objective, each of which is better the lower it is; a rate is given as its negative."""


def pareto_front(points: Sequence[Costs]) -> tuple[bool, ...]:
    """For each point whether it lies on the front: no other is as good everywhere and better somewhere.

    Equal points stand on the front together. Cost: O(points^2 x objectives), which is nothing for model files.

    Raises:
        ValueError: points have different numbers of objectives.
    """
    if len({len(each) for each in points}) > 1:
        raise ValueError("every point needs the same objectives")
    return tuple(not any(_beats(other, each) for other in points) for each in points)


def _beats(one: Costs, other: Costs) -> bool:
    pairs = list(zip(one, other, strict=True))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)
