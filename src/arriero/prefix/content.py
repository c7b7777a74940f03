"""ContentIndex: the tokens themselves as keys, in a tree of blocks.

    root of a scope ── (10, 11) block 9 ── (12, 13) block 4
                    │                   └─ (20, 21) block 7, duplicates 8
                    └─ (30, 31) gone    ── (32, 33) block 5      unreachable until (30, 31) is computed again

Exact without any hash of our own: a lookup is one dictionary access a block. A node stays as long as it, or anything
below it, has a block.
"""

from collections.abc import Sequence

from arriero.core.errors import InvariantViolation
from arriero.core.ids import TokenId
from arriero.prefix.protocol import BlockId


class _Node:
    """One key: a stretch of tokens after all those above it."""

    __slots__ = ("block", "children", "duplicates", "parent", "tokens")

    def __init__(self, parent: "_Node | None", tokens: tuple[TokenId, ...]) -> None:
        self.parent = parent
        self.tokens = tokens
        self.children: dict[tuple[TokenId, ...], _Node] = {}
        self.block: BlockId | None = None
        self.duplicates: list[BlockId] = []


class ContentIndex:
    """Every verb is O(1) a block, apart from hashing its tokens."""

    def __init__(self, block_size: int) -> None:
        """Start empty."""
        self._block_size = block_size
        self._roots: dict[str, _Node] = {}
        self._nodes: dict[BlockId, _Node] = {}

    @property
    def num_collisions(self) -> int:
        """None: unequal keys are never compared."""
        return 0

    def match(self, scope: str, tokens: Sequence[TokenId], num_blocks: int) -> tuple[BlockId, ...]:
        """The canonical blocks of a prompt from its beginning to the first miss."""
        node = self._roots.get(scope)
        size = self._block_size
        found: list[BlockId] = []
        while node is not None and len(found) < num_blocks:
            start = len(found) * size
            node = node.children.get(tuple(tokens[start : start + size]))
            if node is None or node.block is None:
                break
            found.append(node.block)
        return tuple(found)

    def publish(self, block: BlockId, parent: BlockId | None, scope: str, tokens: tuple[TokenId, ...]) -> bool:
        """Index a full block."""
        if block in self._nodes:
            message = f"block {block} is indexed already"
            raise InvariantViolation(message)
        above = self._root(scope) if parent is None else self._nodes[parent]
        node = above.children.get(tokens)
        if node is None:
            node = above.children[tokens] = _Node(above, tokens)
        self._nodes[block] = node
        if node.block is None:
            node.block = block
            return True
        node.duplicates.append(block)
        return False

    def withdraw(self, block: BlockId) -> None:
        """Take a block out."""
        node = self._nodes.pop(block, None)
        if node is None:
            return
        if node.block == block:
            node.block = None
        else:
            node.duplicates.remove(block)
        self._prune(node)

    def inherit(self, block: BlockId) -> BlockId | None:
        """Take a canonical block out and let its lowest duplicate take its place."""
        node = self._nodes.pop(block)
        node.block = min(node.duplicates, default=None)
        if node.block is not None:
            node.duplicates.remove(node.block)
        self._prune(node)
        return node.block

    def canonical(self, block: BlockId) -> BlockId | None:
        """The canonical block of a block's key."""
        node = self._nodes.get(block)
        return None if node is None else node.block

    def canonical_blocks(self) -> frozenset[BlockId]:
        """All of them."""
        return frozenset(block for block, node in self._nodes.items() if node.block == block)

    def _root(self, scope: str) -> _Node:
        root = self._roots.get(scope)
        if root is None:
            root = self._roots[scope] = _Node(None, ())
        return root

    def _prune(self, node: _Node) -> None:
        """Forget a node without anything, and those above it that are left without anything by that."""
        while node.block is None and not node.duplicates and not node.children and node.parent is not None:
            del node.parent.children[node.tokens]
            node = node.parent
