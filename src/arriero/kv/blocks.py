"""BlockManager: a paged engine's memory: blocks of a fixed size, one table for each sequence, full blocks shared.

    block size 4      prompt p0 ... p5, three tokens generated
    table             [ 9 | 2 | 7 ]
    block 9           p0 p1 p2 p3     full, indexed: others with this beginning lease it
    block 2           p4 p5 g0 g1     private
    block 7           g2 -  -  -      private, three places free

A sequence id is the id of its request: ids are not what is scarce here. Evicting happens only where blocks are short,
and only as many as are short.
"""

import sys
from collections.abc import Sequence
from typing import Final

from arriero.core.errors import ConfigError, InvariantViolation
from arriero.core.events import AdmissionSource, KvOp, PrefixSource
from arriero.core.ids import RequestId, SequenceId, Time, TokenId
from arriero.kv.block_figures import LEAF_FIRST, BlockGauges, BlockHit, CacheRules, PrefixCounts
from arriero.kv.block_pool import BlockPool
from arriero.kv.nothing_retained import NothingRetained
from arriero.kv.protocol import NO_HIT, KvUsage, PrefixHit, ReleaseCause, Shortage, Started
from arriero.prefix.protocol import BlockId, PrefixIndex


class _Table:
    """What one sequence holds."""

    __slots__ = ("blocks", "num_published", "prompt", "room", "scope")

    def __init__(self, blocks: list[BlockId], room: int, num_shared: int, hit: BlockHit | None) -> None:
        self.blocks = blocks
        self.room = room  # free places in the last block
        self.num_published = num_shared  # leading blocks that are in the index; at first those that were found there
        self.scope = None if hit is None else hit.scope
        self.prompt: Sequence[TokenId] = () if hit is None else hit.tokens


class BlockManager(NothingRetained):
    """Books of a pool of blocks; every verb is O(blocks of one sequence) at most, apart from logarithms."""

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        *,
        index: PrefixIndex | None = None,
        rules: CacheRules = LEAF_FIRST,
        num_sequences: int = sys.maxsize,
    ) -> None:
        """Start empty; without an index nothing is shared.

        Raises:
            ConfigError: there is no block, or none that holds a token.
        """
        if num_blocks < 1 or block_size < 1 or num_sequences < 1:
            message = (
                f"{num_blocks} blocks of {block_size} tokens for {num_sequences} sequences: use at least 1 of each"
            )
            raise ConfigError(message)
        self.block_size: Final = block_size
        self.counts = PrefixCounts()
        self._pool = BlockPool(num_blocks, deepest_first=rules.deepest_first)
        self._index = index
        self._rules = rules
        self._max_sequences = num_sequences
        self._tables: dict[SequenceId, _Table] = {}
        self._evicted: list[BlockId] = []
        self._tokens = 0
        self._held = 0  # places of all sequences, shared ones for each
        self._peak = 0
        self._largest = 0  # of sequences that have ended

    # ── the protocol ────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def sequence_limit(self) -> int:
        """Positions that one sequence can ever hold."""
        return self._pool.num_blocks * self.block_size

    @property
    def is_resting(self) -> bool:
        """Ids never rest."""
        return False

    def begin_step(self, now: Time) -> None:
        """Ids never rest, and blocks have no age on the driver's line."""

    def lookup(self, tokens: Sequence[TokenId], scope: str | None, limit: int) -> PrefixHit:
        """How many of the first `limit` tokens are in full blocks of this scope."""
        if self._index is None or scope is None:
            return NO_HIT
        blocks = self._index.match(scope, tokens, limit // self.block_size)
        return BlockHit(len(blocks) * self.block_size, blocks, scope, tokens)

    def start(
        self, request_id: RequestId, num_tokens: int, headroom: int, hit: PrefixHit = NO_HIT
    ) -> Started | Shortage:
        """Lease what was found, and take blocks for the rest."""
        sequence_id = SequenceId(request_id)
        if sequence_id in self._tables:
            message = f"sequence {sequence_id} is held already"
            raise InvariantViolation(message)
        found = hit if isinstance(hit, BlockHit) else None
        shared = () if found is None else found.blocks
        need = self._blocks_for(num_tokens) - len(shared)
        reserve = self._blocks_for(headroom) if self._tables else 0
        cached = self._pool.num_cached - sum(map(self._pool.is_cached, shared))
        missing = need + reserve - self._pool.num_free - cached
        if missing > 0:
            return Shortage(missing * self.block_size)
        if len(self._tables) >= self._max_sequences:
            return Shortage(0)
        if found is not None:
            self._lease(found)
        fresh = self._take(need)
        room = (need + len(shared)) * self.block_size - num_tokens
        self._tables[sequence_id] = _Table([*shared, *fresh], room, len(shared), found)
        self._tokens += num_tokens - hit.num_tokens
        self._held += num_tokens
        prefix = PrefixSource.TREE if hit.num_tokens else None
        return Started(sequence_id, AdmissionSource.INITIAL_IDLE, None, hit.num_tokens, prefix)

    def promise(self, sequence_id: SequenceId, length: int) -> None:
        """Publish at once, if that is the rule."""
        if self._rules.shares_at_once:
            self.publish(sequence_id, length)

    def publish(self, sequence_id: SequenceId, length: int) -> None:
        """Index the full blocks of the prompt among the first `length` tokens."""
        table = self._table_of(sequence_id)
        if self._index is None or table.scope is None:
            return
        size = self.block_size
        for number in range(table.num_published, min(length, len(table.prompt)) // size):
            block = table.blocks[number]
            parent = table.blocks[number - 1] if number else None
            tokens = tuple(table.prompt[number * size : (number + 1) * size])
            if self._index.publish(block, parent, table.scope, tokens):
                self._pool.share(block, number, self._pool.next_tick())
            table.num_published = number + 1

    def grow(self, sequence_id: SequenceId, num_tokens: int) -> Shortage | None:
        """Reserve places for the next tokens of a sequence."""
        table = self._table_of(sequence_id)
        need = self._blocks_for(num_tokens - table.room) if num_tokens > table.room else 0
        if need:
            missing = need - self._pool.num_free - self._pool.num_cached
            if missing > 0:
                return Shortage(missing * self.block_size)
            table.blocks.extend(self._take(need))
        table.room += need * self.block_size - num_tokens
        self._count(num_tokens)
        return None

    def grow_each(self, sequence_ids: Sequence[SequenceId]) -> bool:
        """One more place for each of these in turn, if free and cached blocks suffice for all."""
        tables = [self._tables[each] for each in sequence_ids]
        full = [table for table in tables if not table.room]
        if full:
            if len(full) > self._pool.num_free + self._pool.num_cached:
                return False
            for table in full:
                table.blocks += self._take(1)
                table.room = self.block_size
        for table in tables:
            table.room -= 1
        self._count(len(tables))
        return True

    def steps_ahead(self, sequence_ids: Sequence[SequenceId]) -> int:
        """As long as free blocks alone suffice."""
        if not sequence_ids:
            return 0
        # Each sequence fills its last block first; after that all of them together take a block for `size` steps each.
        in_place = min(self._tables[each].room for each in sequence_ids)
        return max(in_place, self._pool.num_free // len(sequence_ids) * self.block_size)

    def grow_together(self, sequence_ids: Sequence[SequenceId], num_tokens: int) -> None:
        """Reserve places round by round; blocks are taken in the order in which single steps would have done it."""
        size = self.block_size
        tables = [self._table_of(each) for each in sequence_ids]
        rounds = [(at, turn) for turn, table in enumerate(tables) for at in range(table.room, num_tokens, size)]
        if len(rounds) > self._pool.num_free:
            message = f"no room for {num_tokens} more tokens of {len(tables)} sequences"
            raise InvariantViolation(message)
        if rounds:
            rounds.sort()
            for (_, turn), block in zip(rounds, self._take(len(rounds)), strict=True):
                tables[turn].blocks.append(block)
                tables[turn].room += size
        for table in tables:
            table.room -= num_tokens
        self._count(num_tokens * len(tables))

    def rewind(self, sequence_id: SequenceId, length: int) -> None:
        """Give back the places of a sequence from `length` on."""
        table = self._table_of(sequence_id)
        given_back = self._length(table) - length
        if given_back <= 0:
            return
        keep = self._blocks_for(length)
        if length < table.num_published * self.block_size:
            message = f"sequence {sequence_id} is rewound to {length}, into blocks that others may have found"
            raise InvariantViolation(message)
        self._pool.free(table.blocks[keep:])
        del table.blocks[keep:]
        table.room = keep * self.block_size - length
        self._count(-given_back)

    def release(
        self,
        sequence_id: SequenceId,
        cause: ReleaseCause,
        num_waiting: int,
        computed: Sequence[TokenId] | None = None,
    ) -> None:
        """End a sequence: indexed blocks are cached unless others use them, private ones are free."""
        del cause, num_waiting, computed
        table = self._table_of(sequence_id)
        length = self._length(table)
        self._largest = max(self._largest, length)
        self._held -= length
        del self._tables[sequence_id]
        private = table.blocks[table.num_published :]
        if table.num_published:
            private[:0] = self._release_indexed(table.blocks[: table.num_published])
        self._pool.free(private)
        self._tokens -= len(private) * self.block_size - (table.room if private else 0)

    def refuse(self, op: KvOp) -> None:
        """Nothing is ever ordered, so nothing can be refused.

        Raises:
            InvariantViolation: always.
        """
        message = f"no memory stands behind these blocks, so it cannot refuse {op}"
        raise InvariantViolation(message)

    def take_ops(self) -> tuple[KvOp, ...]:
        """Nothing has to reach any memory."""
        return ()

    def usage(self) -> KvUsage:
        """Frozen figures, in tokens; O(sequences)."""
        return KvUsage(
            num_cells=self.sequence_limit,
            active_cells=self._held,
            free_cells=self.sequence_limit - self._held,
            sequences_held=len(self._tables),
            sequences_free=0,
            sequences_quarantined=0,
            largest_sequence=max([self._largest, *map(self._length, self._tables.values())]),
            held_tokens=self._held,
        )

    # ── for records and checks ──────────────────────────────────────────────────────────────────────────────────────

    @property
    def num_collisions(self) -> int:
        """Comparisons of unequal keys that shared a hash."""
        return 0 if self._index is None else self._index.num_collisions

    def gauges(self) -> BlockGauges:
        """Frozen figures, in blocks."""
        pool = self._pool
        return BlockGauges(
            pool.num_blocks - pool.num_free, pool.num_free, self._tokens, pool.num_cached, pool.num_leased, self._peak
        )

    def take_evicted(self) -> list[BlockId]:
        """The blocks evicted since the last call, in order."""
        evicted, self._evicted = self._evicted, []
        return evicted

    def room_left(self, sequence_id: SequenceId) -> int:
        """Free places in the last block of a sequence."""
        return self._table_of(sequence_id).room

    def table(self, sequence_id: SequenceId) -> tuple[BlockId, ...]:
        """The blocks of a sequence, in order."""
        return tuple(self._table_of(sequence_id).blocks)

    def check(self) -> None:
        """Verify the books from scratch."""
        self._pool.check()
        size, gauges = self.block_size, self.gauges()
        tables = self._tables.values()
        in_use = {block for table in tables for block in table.blocks}
        shared: frozenset[BlockId] = frozenset() if self._index is None else self._index.canonical_blocks()
        rules = (
            (all(0 <= table.room < size for table in tables), "a table is too long or short"),
            (len(in_use) + gauges.cached == gauges.allocated, "blocks got lost"),
            (sum(map(self._length, tables)) == self._held, "places do not add up"),
            (
                gauges.tokens == gauges.allocated * size - sum(table.room for table in tables),
                "tokens do not add up",
            ),
            (shared == self._pool.shared(), "the index and the shared blocks differ"),
            (gauges.leased == len(shared & in_use), "a shared block is leased by nobody, or the reverse"),
        )
        for holds, rule in rules:
            if not holds:
                message = f"{rule}: {gauges}, tables {[(t.room, t.blocks) for t in tables]}, shared {sorted(shared)}"
                raise InvariantViolation(message)

    # ── helpers ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _blocks_for(self, num_tokens: int) -> int:
        return -(-num_tokens // self.block_size)

    def _length(self, table: _Table) -> int:
        return len(table.blocks) * self.block_size - table.room

    def _count(self, num_tokens: int) -> None:
        """So many places more are taken."""
        self._tokens += num_tokens
        self._held += num_tokens

    def _release_indexed(self, blocks: list[BlockId]) -> list[BlockId]:
        """Put back the indexed blocks of a sequence; returns the duplicates among them, which leave the index."""
        pool, index = self._pool, self._index
        assert index is not None, "without an index no block is indexed"
        tick = pool.next_tick() if self._rules.release_refreshes else None
        private: list[BlockId] = []
        for block in blocks:
            if tick is not None and (canonical := index.canonical(block)) is not None:
                # A key counts as used also where another block stands for it.
                pool.touch(canonical, tick)
            if pool.is_shared(block):
                pool.put_back(block)
            else:
                index.withdraw(block)
                private.append(block)
        return private

    def _lease(self, hit: BlockHit) -> None:
        counts = self.counts
        counts.lookups += 1
        counts.eligible_tokens += len(hit.tokens) // self.block_size * self.block_size
        if hit.blocks:
            counts.hits += 1
            counts.matched_blocks += len(hit.blocks)
            counts.matched_tokens += hit.num_tokens
            tick = self._pool.next_tick()
            for block in hit.blocks:
                self._pool.lease(block, tick)

    def _take(self, number: int) -> list[BlockId]:
        pool = self._pool
        for _ in range(number - pool.num_free):
            block = pool.evict()
            self._evicted.append(block)
            self.counts.evictions += 1
            self._tokens -= self.block_size
            self._settle_index(block)
        taken = pool.take(number)
        allocated = pool.num_blocks - pool.num_free
        self._peak = max(self._peak, allocated)
        return taken

    def _settle_index(self, evicted: BlockId) -> None:
        if self._index is None:
            return
        if not self._rules.has_heirs:
            self._index.withdraw(evicted)
            return
        heir = self._index.inherit(evicted)
        if heir is not None:
            depth = next(table.blocks.index(heir) for table in self._tables.values() if heir in table.blocks)
            self._pool.share(heir, depth, self._pool.next_tick())

    def _table_of(self, sequence_id: SequenceId) -> _Table:
        try:
            return self._tables[sequence_id]
        except KeyError:
            message = f"sequence {sequence_id} is not held"
            raise InvariantViolation(message) from None
