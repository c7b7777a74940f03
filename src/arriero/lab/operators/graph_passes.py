"""Which nodes one stamp stands for, and which packets a graph is cut into.

    node      0 GET_ROWS   1 RMS_NORM   2 MUL   3 MUL_MAT   4 VIEW   5 ROPE
    stamps    x            - - - - - - x        x           none     x

Nothing is computed for a view, so there is no stamp for it. A norm and the multiplication by its weights that follows
are computed in one pass where both stand in one graph; the stamp comes after the second. Whether llama.cpp does so
depends on its build and its environment, so both ways are counted, and the one that fits the stamps is taken.
"""

from collections.abc import Sequence
from typing import NamedTuple

from arriero.record.cpu_lab.graph_nodes import EMPTY


class PlainNode(NamedTuple):
    """What has to be known of a node."""

    operation: str
    address: int
    sources: tuple[int, ...]  # addresses


def passes_of(nodes: Sequence[PlainNode], *, joins: bool) -> tuple[tuple[int, ...], ...]:
    """Numbers of the nodes under each stamp, in order; nodes without a stamp are in none.

    Args:
        nodes: of a graph computed in one piece.
        joins: whether a norm and its multiplication are one pass.
    """
    found: list[tuple[int, ...]] = []
    number = 0
    while number < len(nodes):
        if nodes[number].operation in EMPTY:
            number += 1
        elif joins and _is_joined(nodes, number):
            found.append((number, number + 1))
            number += 2
        else:
            found.append((number,))
            number += 1
    return tuple(found)


def fitting_passes(nodes: Sequence[PlainNode], num_stamps: int) -> tuple[tuple[int, ...], ...] | None:
    """The passes of which there are as many as stamps; None if neither way fits."""
    for joins in (True, False):
        passes = passes_of(nodes, joins=joins)
        if len(passes) == num_stamps:
            return passes
    return None


def packets_of(num_nodes: int, every: int) -> tuple[range, ...]:
    """The packets of so many nodes each, the last one with what is left; one packet for 0."""
    size = every or num_nodes
    return tuple(range(first, min(first + size, num_nodes)) for first in range(0, num_nodes, size))


def _is_joined(nodes: Sequence[PlainNode], number: int) -> bool:
    if nodes[number].operation != "RMS_NORM" or number + 1 >= len(nodes):
        return False
    following = nodes[number + 1]
    return following.operation == "MUL" and nodes[number].address in following.sources
