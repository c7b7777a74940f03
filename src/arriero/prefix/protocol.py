"""PrefixIndex: which blocks hold the beginning of a prompt.

    prompt     t0 t1 t2 t3 | t4 t5 t6 t7 | t8 t9            block size 4: two full blocks and a tail
    chain      block 9     → block 4                          each names its parent; tails are never indexed

One block of each key is canonical and is found; a block of the same key that came later is a duplicate, which nobody
finds. An index knows no reference counts and no ages: whoever owns the blocks says when one is withdrawn.
"""

from collections.abc import Sequence
from typing import NewType, Protocol

from arriero.core.ids import TokenId

BlockId = NewType("BlockId", int)
"""A block of KV memory, from 0."""


class PrefixIndex(Protocol):
    """Keys of blocks; deterministic, and equal tokens are the only reason for a hit."""

    @property
    def num_collisions(self) -> int:
        """Comparisons of unequal keys that shared a hash, since the start."""
        ...

    def match(self, scope: str, tokens: Sequence[TokenId], num_blocks: int) -> tuple[BlockId, ...]:
        """The canonical blocks of a prompt from its beginning to the first miss, at most `num_blocks`."""
        ...

    def publish(self, block: BlockId, parent: BlockId | None, scope: str, tokens: tuple[TokenId, ...]) -> bool:
        """Index a full block; returns whether it is canonical, else it is kept as a duplicate.

        Args:
            block: one that is not in the index.
            parent: the block before it, which is in the index, canonical or not; None for the first of a prompt.
            scope: whose prompts may find it; used for a first block only.
            tokens: its tokens.
        """
        ...

    def withdraw(self, block: BlockId) -> None:
        """Take a block out; one that is not in the index is ignored.

        Where a canonical block goes, its descendants stay, and are found again as soon as their parent is.
        """
        ...

    def inherit(self, block: BlockId) -> BlockId | None:
        """Take a canonical block out as `withdraw` does, and let its lowest duplicate, if any, take its place.

        Returns that duplicate.
        """
        ...

    def canonical(self, block: BlockId) -> BlockId | None:
        """The canonical block of a block's key; None if there is none or the block is not in the index."""
        ...

    def canonical_blocks(self) -> frozenset[BlockId]:
        """All of them, for checks."""
        ...
