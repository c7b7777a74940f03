"""Terms: what a pass costs, as a sum of amounts times coefficients, none of which is negative.

    pass        once a pass: reading the weights, starting its operators
    build       once where the graph is new
    rows_*      each row through the weights; a slope for each stretch between two knots
    fours       groups of four rows beyond a multiple of 16, and
    singles     rows beyond a multiple of 4, and
    ragged      once where there are any: kernels for repacked weights take 16 rows, then 4, then one at a time, so
                15 rows can take longer than 16
    stream      each KV stream
    cell        each position of KV that is read, once
    one_*       attention, by path: `key` a row x key product, `scan` a row x cell that is looked at
    few_*
    many_*
    logits      once where logits are computed
    logit_row   each row of them, and
    logit_four  groups of four beyond a multiple of 8, and
    logit_single  each one beyond a multiple of 4

Linear in the coefficients, so that a fit is a least-squares problem, and steps of any make-up are sums of the same few.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from operator import mul
from typing import Final

from arriero.core.errors import DataError
from arriero.costmodel.passes import AttentionPath, Pass
from arriero.costmodel.tiles import UNCUT, Tiles

KNOTS: Final = (0, 16, 64, 256)
_FIRST, _SECOND, _THIRD = KNOTS[1:]
BLOCK_ROWS: Final = 16
"""Rows that kernels for repacked weights take together, where there are so many."""
_QUAD: Final = 4
_OCTET: Final = 8


class TermGroup(StrEnum):
    """Terms that grow and shrink together when a machine becomes slower or faster."""

    FIXED = "fixed"  # whatever is computed
    ROWS = "rows"  # with the rows
    ATTENTION = "attention"  # with rows x context


_GROUPS: Final = (
    ("pass", TermGroup.FIXED),
    ("build", TermGroup.FIXED),
    *((f"rows_{knot}", TermGroup.ROWS) for knot in KNOTS),
    ("fours", TermGroup.ROWS),
    ("singles", TermGroup.ROWS),
    ("ragged", TermGroup.ROWS),
    ("stream", TermGroup.FIXED),
    ("cell", TermGroup.ATTENTION),
    ("one_key", TermGroup.ATTENTION),
    ("one_scan", TermGroup.ATTENTION),
    ("few_key", TermGroup.ATTENTION),
    ("few_scan", TermGroup.ATTENTION),
    ("many_key", TermGroup.ATTENTION),
    ("many_scan", TermGroup.ATTENTION),
    ("logits", TermGroup.FIXED),
    ("logit_row", TermGroup.ROWS),
    ("logit_four", TermGroup.ROWS),
    ("logit_single", TermGroup.ROWS),
)
TERMS: Final = tuple(name for name, _ in _GROUPS)
"""The names, in the order of `amounts`."""
_GROUP_OF: Final = tuple(group for _, group in _GROUPS)
_NOTHING: Final = (0, 0)


def amounts(one: Pass, tiles: Tiles = UNCUT) -> tuple[float, ...]:
    """How much of each term a pass has, if `tiles` says who computes its attention."""
    rows, keys = one.rows, (one.keys, one.scanned)
    is_many = one.path is AttentionPath.MANY
    tiled = (one.keys * tiles.waste(one.length, one.streams), one.scanned) if is_many else _NOTHING
    return (
        1,
        one.builds,
        min(rows, _FIRST),
        min(max(rows - _FIRST, 0), _SECOND - _FIRST),
        min(max(rows - _SECOND, 0), _THIRD - _SECOND),
        max(rows - _THIRD, 0),
        rows % BLOCK_ROWS // _QUAD,
        rows % _QUAD,
        rows % _QUAD > 0,
        one.streams,
        one.cells,
        *(keys if one.path is AttentionPath.ONE else _NOTHING),
        *(keys if one.path is AttentionPath.FEW else _NOTHING),
        *tiled,
        one.logit_rows > 0,
        one.logit_rows,
        one.logit_rows % _OCTET // _QUAD,
        one.logit_rows % _QUAD,
    )


@dataclass(frozen=True, slots=True)
class PassCosts:
    """Microseconds of each term, in the order of `TERMS`, at one number of threads.

    Attributes:
        values: the microseconds.
        tiles: who computes fused attention.
    """

    values: tuple[float, ...]
    tiles: Tiles = UNCUT

    def __post_init__(self) -> None:
        """Refuse what is no cost.

        Raises:
            DataError: a number is missing, negative or none.
        """
        if len(self.values) != len(TERMS):
            message = f"{len(self.values)} costs for {len(TERMS)} terms; give one for each of {', '.join(TERMS)}"
            raise DataError(message)
        for name, value in zip(TERMS, self.values, strict=True):
            if not 0 <= value < float("inf"):
                raise DataError(f"{name}: {value} us is no cost; give a number that is not negative", field=name)

    @classmethod
    def of(cls, named: Mapping[str, float], tiles: Tiles = UNCUT) -> "PassCosts":
        """From names; those that are missing cost nothing.

        Raises:
            DataError: an unknown name, or no cost.
        """
        for name in named:
            if name not in TERMS:
                raise DataError(f"{name}: no term of a pass; the terms are {', '.join(TERMS)}", field=name)
        return cls(tuple(float(named.get(name, 0.0)) for name in TERMS), tiles)

    @property
    def named(self) -> dict[str, float]:
        """By name."""
        return dict(zip(TERMS, self.values, strict=True))

    def time(self, one: Pass) -> float:
        """Microseconds of one pass."""
        return float(sum(map(mul, self.values, amounts(one, self.tiles)), 0.0))

    def shares(self, one: Pass) -> dict[TermGroup, float]:
        """The same microseconds, by group."""
        found = dict.fromkeys(TermGroup, 0.0)
        for group, part in zip(_GROUP_OF, map(mul, self.values, amounts(one, self.tiles)), strict=True):
            found[group] += part
        return found

    def scaled(self, factors: Mapping[TermGroup, float]) -> "PassCosts":
        """Every term of a group times its factor."""
        values = (value * factors[group] for value, group in zip(self.values, _GROUP_OF, strict=True))
        return PassCosts(tuple(values), self.tiles)
