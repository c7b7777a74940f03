"""BlockManager against a model that scans everything, under both sets of rules and with colliding hashes."""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from arriero.core.ids import RequestId, SequenceId
from arriero.kv.block_figures import LEAF_FIRST, PUBLISHED, BlockHit, CacheRules
from arriero.kv.blocks import BlockManager
from arriero.kv.protocol import ReleaseCause, Shortage
from arriero.prefix.content import ContentIndex
from arriero.prefix.hashed import HashedIndex
from tests.property.machines import machine_settings
from tests.property.test_prefix import two_bits


@dataclass
class Block:
    """One that is not free."""

    users: set[int]
    tokens: int
    chain: tuple[Any, ...] | None = None  # once it is published
    is_canonical: bool = False
    used: int = 0


@dataclass
class Model:
    """The rules of blocks, by scanning."""

    num_blocks: int
    size: int
    rules: CacheRules
    blocks: dict[int, Block] = field(default_factory=dict)
    tables: dict[int, list[int]] = field(default_factory=dict)
    prompts: dict[int, tuple[str, list[int]] | None] = field(default_factory=dict)
    evicted: list[int] = field(default_factory=list)
    tick: int = 0

    def now(self) -> int:
        self.tick += 1
        return self.tick

    def canonical(self, chain: tuple[Any, ...] | None) -> int | None:
        found = [i for i, block in self.blocks.items() if block.is_canonical and block.chain == chain]
        assert len(found) <= 1
        return found[0] if found else None

    def chain(self, scope: str, prompt: list[int], number: int) -> tuple[Any, ...]:
        return (scope, number, tuple(prompt[: (number + 1) * self.size]))

    def match(self, scope: str, prompt: list[int], limit: int) -> list[int]:
        found: list[int] = []
        for number in range(limit // self.size):
            block = self.canonical(self.chain(scope, prompt, number))
            if block is None:
                break
            found.append(block)
        return found

    def cached(self) -> list[int]:
        return [i for i, block in self.blocks.items() if not block.users]

    def num_free(self) -> int:
        return self.num_blocks - len(self.blocks)

    def missing(self, need: int, keep: list[int]) -> int:
        return need - self.num_free() - len([i for i in self.cached() if i not in keep])

    def take(self, sequence: int, need: int, tokens: int) -> None:
        for _ in range(need - self.num_free()):
            self.evict()
        for i in [i for i in range(self.num_blocks) if i not in self.blocks][:need]:
            self.blocks[i] = Block({sequence}, min(self.size, tokens))
            tokens -= self.blocks[i].tokens
            self.tables[sequence].append(i)

    def evict(self) -> None:
        def order(i: int) -> tuple[int, int, int]:
            block = self.blocks[i]
            assert block.chain is not None
            return block.used, -block.chain[1] if self.rules.deepest_first else 0, i

        victim = min(self.cached(), key=order)
        chain = self.blocks.pop(victim).chain
        self.evicted.append(victim)
        heirs = [i for i in sorted(self.blocks) if self.blocks[i].chain == chain]
        if self.rules.has_heirs and heirs:
            self.blocks[heirs[0]].is_canonical = True
            self.blocks[heirs[0]].used = self.now()

    def start(self, sequence: int, prompt: list[int], scope: str | None, num_tokens: int, found: list[int]) -> None:
        self.tables[sequence] = list(found)
        self.prompts[sequence] = None if scope is None else (scope, prompt)
        if found:
            tick = self.now()
            for i in found:
                self.blocks[i].users.add(sequence)
                self.blocks[i].used = tick
        rest = num_tokens - len(found) * self.size
        self.take(sequence, -(-rest // self.size), rest)

    def room(self, sequence: int) -> int:
        table = self.tables[sequence]
        return self.size - self.blocks[table[-1]].tokens if table else 0

    def append(self, sequence: int) -> None:
        if self.room(sequence):
            self.blocks[self.tables[sequence][-1]].tokens += 1
        else:
            self.take(sequence, 1, 1)

    def length(self, sequence: int) -> int:
        return sum(self.blocks[i].tokens for i in self.tables[sequence])

    def publish(self, sequence: int, length: int) -> None:
        asked = self.prompts[sequence]
        if asked is None:
            return
        scope, prompt = asked
        for number in range(min(length, len(prompt)) // self.size):
            block = self.blocks[self.tables[sequence][number]]
            if block.chain is None:
                block.chain = self.chain(scope, prompt, number)
                if not any(each.is_canonical and each.chain == block.chain for each in self.blocks.values()):
                    block.is_canonical, block.used = True, self.now()

    def release(self, sequence: int) -> None:
        tick = self.now()
        for i in self.tables.pop(sequence):
            block = self.blocks[i]
            holder = self.canonical(block.chain) if block.chain is not None else None
            if self.rules.release_refreshes and holder is not None:
                self.blocks[holder].used = tick
            block.users.discard(sequence)
            if not block.users and not block.is_canonical:
                del self.blocks[i]


SCOPES = st.sampled_from([None, "a", "a", "b"])
PROMPTS = st.lists(st.sampled_from([0, 0, 0, 1]), max_size=14)


class BlockMachine(RuleBasedStateMachine):
    """Sequences start, grow, publish, are rewound and end, in a pool that is too small for them."""

    @initialize(
        num_blocks=st.integers(2, 12),
        size=st.integers(1, 4),
        rules=st.sampled_from([LEAF_FIRST, PUBLISHED]),
        hashed=st.booleans(),
    )
    def build(self, num_blocks: int, size: int, rules: CacheRules, hashed: bool) -> None:  # noqa: FBT001 - drawn
        index = HashedIndex(size, two_bits, exact=True) if hashed else ContentIndex(size)
        self.kv = BlockManager(num_blocks, size, index=index, rules=rules)
        self.model = Model(num_blocks, size, rules)
        self.next_id = 0

    def snapshot(self) -> tuple[object, ...]:
        tables = {each: self.kv.table(SequenceId(each)) for each in self.model.tables}
        return self.kv.usage(), self.kv.gauges(), tables

    @rule(prompt=PROMPTS, scope=SCOPES, more=st.integers(0, 3), headroom=st.sampled_from([0, 0, 5]))
    def start(self, prompt: list[int], scope: str | None, more: int, headroom: int) -> None:
        found = [] if scope is None else self.model.match(scope, prompt, len(prompt))
        hit = self.kv.lookup(prompt, scope, len(prompt))
        assert hit.num_tokens == len(found) * self.model.size
        assert not isinstance(hit, BlockHit) or list(hit.blocks) == found
        num_tokens = len(prompt) + more
        need = -(-num_tokens // self.model.size) - len(found)
        reserve = -(-headroom // self.model.size) if self.model.tables else 0
        before = self.snapshot()
        started = self.kv.start(RequestId(self.next_id), num_tokens, headroom, hit)
        missing = self.model.missing(need + reserve, found)
        if missing > 0:
            assert started == Shortage(missing * self.model.size)
            assert self.snapshot() == before
            return
        assert not isinstance(started, Shortage)
        self.model.start(self.next_id, prompt, scope, num_tokens, found)
        self.next_id += 1

    def pick(self, data: st.DataObject) -> int:
        return int(data.draw(st.sampled_from(sorted(self.model.tables))))

    @precondition(lambda self: self.model.tables)
    @rule(data=st.data(), number=st.integers(1, 5))
    def grow(self, data: st.DataObject, number: int) -> None:
        each = self.pick(data)
        need = -(-max(0, number - self.model.room(each)) // self.model.size)
        before = self.snapshot()
        shortage = self.kv.grow(SequenceId(each), number)
        if (missing := self.model.missing(need, [])) > 0:
            assert shortage == Shortage(missing * self.model.size)
            assert self.snapshot() == before
            return
        assert shortage is None
        in_place = min(number, self.model.room(each))
        if in_place:
            self.model.blocks[self.model.tables[each][-1]].tokens += in_place
        self.model.take(each, need, number - in_place)

    @precondition(lambda self: self.model.tables)
    @rule()
    def grow_each(self) -> None:
        everybody = sorted(self.model.tables)
        need = sum(not self.model.room(each) for each in everybody)
        before = self.snapshot()
        grown = self.kv.grow_each([SequenceId(each) for each in everybody])
        assert grown == (self.model.missing(need, []) <= 0)
        if not grown:
            assert self.snapshot() == before
            return
        for each in everybody:
            self.model.append(each)

    @precondition(lambda self: self.model.tables)
    @rule(number=st.integers(1, 9))
    def grow_together(self, number: int) -> None:
        everybody = [SequenceId(each) for each in sorted(self.model.tables)]
        number = min(number, self.kv.steps_ahead(everybody))
        self.kv.grow_together(everybody, number)
        for _ in range(number):
            for each in everybody:
                assert self.model.room(each) or self.model.num_free(), "something would be lost"
                self.model.append(each)

    @precondition(lambda self: self.model.tables)
    @rule(data=st.data(), length=st.integers(0, 14))
    def publish(self, data: st.DataObject, length: int) -> None:
        each = self.pick(data)
        length = min(length, self.model.length(each))
        self.kv.publish(SequenceId(each), length)
        self.model.publish(each, length)

    @precondition(lambda self: self.model.tables)
    @rule(data=st.data(), number=st.integers(0, 5))
    def rewind(self, data: st.DataObject, number: int) -> None:
        each = self.pick(data)
        published = sum(self.model.blocks[i].chain is not None for i in self.model.tables[each]) * self.model.size
        length = max(published, self.model.length(each) - number)
        self.kv.rewind(SequenceId(each), length)
        while self.model.length(each) > length:
            last = self.model.blocks[self.model.tables[each][-1]]
            last.tokens -= 1
            if not last.tokens:
                del self.model.blocks[self.model.tables[each].pop()]

    @precondition(lambda self: self.model.tables)
    @rule(data=st.data(), cause=st.sampled_from(ReleaseCause))
    def release(self, data: st.DataObject, cause: ReleaseCause) -> None:
        each = self.pick(data)
        self.kv.release(SequenceId(each), cause, 0)
        self.model.release(each)

    @invariant()
    def same_books(self) -> None:
        model = self.model
        self.kv.check()
        for each, table in model.tables.items():
            assert list(self.kv.table(SequenceId(each))) == table
            assert self.kv.room_left(SequenceId(each)) == model.room(each)
        gauges = self.kv.gauges()
        assert (gauges.free, gauges.cached) == (model.num_free(), len(model.cached()))
        assert gauges.tokens == sum(block.tokens for block in model.blocks.values())
        assert gauges.leased == sum(block.is_canonical and bool(block.users) for block in model.blocks.values())
        assert self.kv.take_evicted() == model.evicted
        model.evicted.clear()

    @invariant()
    def nothing_unreachable_is_cached_under_the_default_rules(self) -> None:
        if self.model.rules == LEAF_FIRST:
            for each in self.model.cached():
                chain = self.model.blocks[each].chain
                assert chain is not None
                scope, number, tokens = chain
                assert len(self.model.match(scope, list(tokens), len(tokens))) == number + 1


TestBlocks = BlockMachine.TestCase
TestBlocks.settings = machine_settings(one_in=2)
