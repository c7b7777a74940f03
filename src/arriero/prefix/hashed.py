"""HashedIndex: buckets of block ids under a hash of their keys, every hit verified.

    published   a key holds its parent's hash         two parents of one hash give a false hit one level down
    exact       a key holds its parent's key itself   a collision costs a comparison, never a wrong hit

The index that paged engines have. `ContentIndex` gives the same answers as the exact one, and, as long as no hashes
collide, as the published one, faster.
"""

from bisect import insort
from collections.abc import Sequence
from typing import NamedTuple

from arriero.core.errors import InvariantViolation
from arriero.core.ids import TokenId
from arriero.prefix.chain_hash import ROOT, ChainHash
from arriero.prefix.protocol import BlockId


class _Key(NamedTuple):
    parent: "int | _Key"  # the parent's hash, or its key
    scope: str
    tokens: tuple[TokenId, ...]


class _Entry(NamedTuple):
    hash: int
    key: _Key


class HashedIndex:
    """Lookup is O(tokens) for hashing and comparing, where hashes rarely collide."""

    def __init__(self, block_size: int, chain_hash: ChainHash, *, exact: bool) -> None:
        """Start empty."""
        self._block_size = block_size
        self._hash = chain_hash
        self._exact = exact
        self._buckets: dict[int, list[BlockId]] = {}
        self._entries: dict[BlockId, _Entry] = {}
        self._duplicates: dict[_Key, list[BlockId]] = {}
        self._num_collisions = 0

    @property
    def num_collisions(self) -> int:
        """Comparisons of unequal keys that shared a hash."""
        return self._num_collisions

    def match(self, scope: str, tokens: Sequence[TokenId], num_blocks: int) -> tuple[BlockId, ...]:
        """The canonical blocks of a prompt from its beginning to the first miss; counts collisions."""
        found: list[BlockId] = []
        parent: _Entry | None = None
        while len(found) < num_blocks:
            start = len(found) * self._block_size
            entry = self._entry(parent, scope, tuple(tokens[start : start + self._block_size]))
            block = self._find(entry, counted=True)
            if block is None:
                break
            found.append(block)
            parent = self._entries[block]
        return tuple(found)

    def publish(self, block: BlockId, parent: BlockId | None, scope: str, tokens: tuple[TokenId, ...]) -> bool:
        """Index a full block."""
        if block in self._entries:
            message = f"block {block} is indexed already"
            raise InvariantViolation(message)
        entry = self._entry(None if parent is None else self._entries[parent], scope, tokens)
        self._entries[block] = entry
        if self._find(entry, counted=False) is not None:
            insort(self._duplicates.setdefault(entry.key, []), block)
            return False
        insort(self._buckets.setdefault(entry.hash, []), block)
        return True

    def withdraw(self, block: BlockId) -> None:
        """Take a block out."""
        entry = self._entries.pop(block, None)
        if entry is None:
            return
        duplicates = self._duplicates.get(entry.key, [])
        if block in duplicates:
            duplicates.remove(block)
            if not duplicates:
                del self._duplicates[entry.key]
        else:
            self._leave_bucket(entry.hash, block)

    def inherit(self, block: BlockId) -> BlockId | None:
        """Take a canonical block out and let its lowest duplicate take its place."""
        entry = self._entries[block]
        self.withdraw(block)
        duplicates = self._duplicates.pop(entry.key, None)
        if not duplicates:
            return None
        heir, *others = duplicates
        if others:
            self._duplicates[entry.key] = others
        insort(self._buckets.setdefault(entry.hash, []), heir)
        return heir

    def canonical(self, block: BlockId) -> BlockId | None:
        """The canonical block of a block's key."""
        entry = self._entries.get(block)
        return None if entry is None else self._find(entry, counted=False)

    def canonical_blocks(self) -> frozenset[BlockId]:
        """All of them."""
        return frozenset(block for bucket in self._buckets.values() for block in bucket)

    def _entry(self, parent: _Entry | None, scope: str, tokens: tuple[TokenId, ...]) -> _Entry:
        parent_hash = ROOT if parent is None else parent.hash
        above: int | _Key = parent.key if self._exact and parent is not None else parent_hash
        return _Entry(self._hash(parent_hash, scope, tokens), _Key(above, scope, tokens))

    def _find(self, entry: _Entry, *, counted: bool) -> BlockId | None:
        for block in self._buckets.get(entry.hash, ()):
            if self._entries[block].key == entry.key:
                return block
            self._num_collisions += counted
        return None

    def _leave_bucket(self, value: int, block: BlockId) -> None:
        bucket = self._buckets[value]
        bucket.remove(block)
        if not bucket:
            del self._buckets[value]
