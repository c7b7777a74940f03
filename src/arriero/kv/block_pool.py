"""BlockPool: ids of blocks, each free, in use, or cached: with tokens that nobody uses now and a lookup may find.

free ── take ──▶ in use ── put back, private ──────────────▶ free
                   │ ▲
  put back, shared │ │ lease
                   ▼ │
                 cached ── evict, least recently used first ──▶ free
"""

import heapq
from collections.abc import Iterable

from arriero.core.errors import InvariantViolation
from arriero.prefix.protocol import BlockId


class BlockPool:
    """Lowest free ids first; taking, leasing and putting back are O(log pool) at most and do not depend on its size."""

    def __init__(self, num_blocks: int, *, deepest_first: bool) -> None:
        """Start with ids 0 ... num_blocks - 1 free."""
        self.num_blocks = num_blocks
        self._deepest_first = deepest_first
        self._returned: list[BlockId] = []  # a heap of free ids below `_fresh`
        self._fresh = 0  # ids from here on were never taken
        self._leases: dict[BlockId, int] = {}  # of shared blocks; 0: cached
        self._used: dict[BlockId, tuple[int, int]] = {}  # tick of the last use, depth; of shared blocks
        self._cached: dict[BlockId, tuple[int, int, BlockId]] = {}
        self._order: list[tuple[int, int, BlockId]] = []  # a heap; what is not in `_cached` as it stands here is stale
        self._tick = 0

    @property
    def num_free(self) -> int:
        """Ids that nobody uses and that hold nothing."""
        return self.num_blocks - self._fresh + len(self._returned)

    @property
    def num_cached(self) -> int:
        """Ids that nobody uses now and that hold tokens."""
        return len(self._cached)

    @property
    def num_leased(self) -> int:
        """Shared blocks in use."""
        return len(self._leases) - len(self._cached)

    def is_cached(self, block: BlockId) -> bool:
        """Whether nobody uses a block that holds tokens."""
        return block in self._cached

    def is_shared(self, block: BlockId) -> bool:
        """Whether lookups may find a block."""
        return block in self._leases

    def shared(self) -> frozenset[BlockId]:
        """All blocks that lookups may find."""
        return frozenset(self._leases)

    def take(self, number: int) -> list[BlockId]:
        """The lowest free ids, ascending; there must be so many."""
        returned = self._returned
        if number == 1 and returned:
            return [heapq.heappop(returned)]
        taken = [heapq.heappop(returned) for _ in range(min(number, len(returned)))]
        missing = number - len(taken)
        if missing:
            assert self._fresh + missing <= self.num_blocks, "more blocks taken than are free"
            taken.extend(map(BlockId, range(self._fresh, self._fresh + missing)))
            self._fresh += missing
        return taken

    def free(self, blocks: Iterable[BlockId]) -> None:
        """Take back private blocks."""
        for block in blocks:
            heapq.heappush(self._returned, block)

    def next_tick(self) -> int:
        """A moment later than all before."""
        self._tick += 1
        return self._tick

    def share(self, block: BlockId, depth: int, tick: int) -> None:
        """Let a block in use be leased by others; its user is the first."""
        self._leases[block] = 1
        self._used[block] = (tick, depth)

    def lease(self, block: BlockId, tick: int) -> None:
        """Use a shared block."""
        self._leases[block] += 1
        self._cached.pop(block, None)
        self._used[block] = (tick, self._used[block][1])

    def put_back(self, block: BlockId) -> None:
        """End one use of a shared block; without any it is cached."""
        self._leases[block] -= 1
        if not self._leases[block]:
            self._cache(block)

    def touch(self, block: BlockId, tick: int) -> None:
        """Count a use of a shared block, in use or cached."""
        self._used[block] = (tick, self._used[block][1])
        if block in self._cached:
            self._cache(block)

    def evict(self) -> BlockId:
        """Take the least recently used cached block out and free it; there must be one."""
        while True:
            entry = heapq.heappop(self._order)
            block = entry[2]
            if self._cached.get(block) == entry:
                del self._cached[block], self._leases[block], self._used[block]
                heapq.heappush(self._returned, block)
                return block

    def check(self) -> None:
        """Verify the books from scratch.

        Raises:
            InvariantViolation: they do not add up.
        """
        rules = (
            (self._leases.keys() == self._used.keys(), "a shared block has no age, or the reverse"),
            (self._cached.keys() == {each for each, n in self._leases.items() if not n}, "cached and in use at once"),
            (len(set(self._returned)) == len(self._returned), "a block is free twice"),
            (not self._leases.keys() & set(self._returned), "a block is free and shared at once"),
            (all(each < self._fresh for each in self._returned), "a block is free twice"),
            (set(self._cached.values()) <= set(self._order), "a cached block cannot be evicted"),
        )
        for holds, rule in rules:
            if not holds:
                message = f"{rule}: leases {self._leases}, cached {self._cached}, free {sorted(self._returned)}"
                raise InvariantViolation(message)

    def _cache(self, block: BlockId) -> None:
        tick, depth = self._used[block]
        entry = (tick, -depth if self._deepest_first else 0, block)
        self._cached[block] = entry
        if len(self._order) > 64 and len(self._order) > 2 * len(self._cached):
            self._order = list(self._cached.values())
            heapq.heapify(self._order)
        else:
            heapq.heappush(self._order, entry)
