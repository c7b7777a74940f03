"""Values of the block manager: its rules, what it found, what it counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from arriero.core.ids import TokenId
from arriero.kv.protocol import PrefixHit
from arriero.prefix.protocol import BlockId


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRules:
    """Whom a full memory loses first, and what is shared with whom.

    Attributes:
        release_refreshes: the end of a request counts as a use of its blocks.
        deepest_first: among blocks of one age, those at the end of a prompt go first.
        has_heirs: where a canonical block goes, a duplicate that is in use takes its place.
        shares_at_once: a prompt is found by those planned after it in the same step, instead of from the next on.
    """

    release_refreshes: bool = True
    deepest_first: bool = True
    has_heirs: bool = True
    shares_at_once: bool = False


LEAF_FIRST = CacheRules()
"""No block is ever cached that cannot be reached: a parent is used whenever its child is, and outlives it."""

PUBLISHED = CacheRules(release_refreshes=False, deepest_first=False, has_heirs=False)
"""The published simulator: a prompt's first blocks are its oldest and go first; what follows cannot be reached then."""


@dataclass(frozen=True, slots=True)
class BlockHit(PrefixHit):
    """What a lookup found, with what is needed to publish the rest.

    Attributes:
        blocks: those that hold the tokens.
        scope: in which was looked.
        tokens: the whole prompt.
    """

    blocks: tuple[BlockId, ...]
    scope: str
    tokens: Sequence[TokenId]


@dataclass(slots=True)
class PrefixCounts:
    """Totals since the start, of the prompts that were started after a lookup."""

    lookups: int = 0
    hits: int = 0
    matched_blocks: int = 0
    matched_tokens: int = 0
    eligible_tokens: int = 0  # in full blocks of prompts
    evictions: int = 0


class BlockGauges(NamedTuple):
    """Figures of one moment, in blocks unless it says tokens."""

    allocated: int  # in use or cached
    free: int
    tokens: int  # in allocated blocks, each physical one once
    cached: int
    leased: int  # shared ones in use
    peak: int  # the most allocated, ever
