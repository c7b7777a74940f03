"""Both indexes of full blocks against one dictionary, with 64-bit hashes and with 2-bit ones that often collide."""

from dataclasses import dataclass, field

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from arriero.core.errors import InvariantViolation
from arriero.prefix.chain_hash import ROOT, ChainHash, scope_hash
from arriero.prefix.content import ContentIndex
from arriero.prefix.hashed import HashedIndex
from arriero.prefix.protocol import BlockId, PrefixIndex
from tests.property.machines import machine_settings

SIZE = 2
SCOPES = ("a", "b")


def two_bits(parent: int, scope: str, tokens: tuple[int, ...]) -> int:
    return scope_hash(parent, scope, tokens) & 3


@dataclass
class Model:
    """Chains of token tuples; the published key instead knows the hash of its parent only."""

    chain_hash: ChainHash | None  # None: exact
    keys: dict[int, object] = field(default_factory=dict)
    hashes: dict[int, int] = field(default_factory=dict)
    canonical: dict[object, int] = field(default_factory=dict)

    def key(self, parent: int | None, scope: str, tokens: tuple[int, ...]) -> object:
        if self.chain_hash is None:
            return (scope, tokens) if parent is None else (self.keys[parent], scope, tokens)
        return (ROOT if parent is None else self.hashes[parent], scope, tokens)

    def match(self, scope: str, tokens: list[int], num_blocks: int) -> tuple[int, ...]:
        found: list[int] = []
        for number in range(num_blocks):
            stretch = tuple(tokens[number * SIZE : (number + 1) * SIZE])
            block = self.canonical.get(self.key(found[-1] if found else None, scope, stretch))
            if block is None:
                break
            found.append(block)
        return tuple(found)

    def publish(self, block: int, parent: int | None, scope: str, tokens: tuple[int, ...]) -> bool:
        self.keys[block] = self.key(parent, scope, tokens)
        if self.chain_hash is not None:
            self.hashes[block] = self.chain_hash(ROOT if parent is None else self.hashes[parent], scope, tokens)
        return self.canonical.setdefault(self.keys[block], block) == block

    def withdraw(self, block: int) -> None:
        key = self.keys.pop(block, None)
        if self.canonical.get(key) == block:
            del self.canonical[key]

    def inherit(self, block: int) -> int | None:
        key = self.keys[block]
        self.withdraw(block)
        heirs = sorted(each for each, other in self.keys.items() if other == key)
        if heirs:
            self.canonical[key] = heirs[0]
        return heirs[0] if heirs else None


class IndexMachine(RuleBasedStateMachine):
    """Prompts over three tokens are published from their beginning; any block may be withdrawn at any time."""

    @initialize(kind=st.sampled_from(["content", "exact", "exact, 2 bits", "published", "published, 2 bits"]))
    def build(self, kind: str) -> None:
        chain_hash = two_bits if "2 bits" in kind else scope_hash
        is_exact = not kind.startswith("published")
        self.index: PrefixIndex
        if kind == "content":
            self.index = ContentIndex(SIZE)
        else:
            self.index = HashedIndex(SIZE, chain_hash, exact=is_exact)
        self.model = Model(None if is_exact else chain_hash)
        self.next_block = 0

    @rule(
        scope=st.sampled_from(SCOPES),
        tokens=st.lists(st.integers(0, 1), min_size=SIZE, max_size=4 * SIZE),
        skip=st.integers(0, 3),
    )
    def publish(self, scope: str, tokens: list[int], skip: int) -> None:
        found = self.index.match(scope, tokens, len(tokens) // SIZE)
        assert found == self.model.match(scope, tokens, len(tokens) // SIZE)
        blocks = [int(each) for each in found[:skip]]
        for number in range(len(blocks), len(tokens) // SIZE):
            stretch = tuple(tokens[number * SIZE : (number + 1) * SIZE])
            parent = BlockId(blocks[-1]) if blocks else None
            block = BlockId(self.next_block)
            self.next_block += 1
            assert self.index.publish(block, parent, scope, stretch) == self.model.publish(
                block, parent, scope, stretch
            )
            blocks.append(block)

    @precondition(lambda self: self.model.keys)
    @rule(data=st.data(), inherits=st.booleans())
    def withdraw(self, data: st.DataObject, inherits: bool) -> None:  # noqa: FBT001 - hypothesis draws it
        block = data.draw(st.sampled_from(sorted(self.model.keys)))
        if inherits and self.model.canonical.get(self.model.keys[block]) == block:
            assert self.index.inherit(BlockId(block)) == self.model.inherit(block)
        else:
            self.index.withdraw(BlockId(block))
            self.model.withdraw(block)

    @precondition(lambda self: self.model.keys)
    @rule(data=st.data())
    def publish_twice(self, data: st.DataObject) -> None:
        block = BlockId(data.draw(st.sampled_from(sorted(self.model.keys))))
        with pytest.raises(InvariantViolation):
            self.index.publish(block, None, "a", (0, 0))

    @rule()
    def withdraw_a_stranger(self) -> None:
        self.index.withdraw(BlockId(self.next_block))

    @invariant()
    def same_canonical_blocks(self) -> None:
        assert self.index.canonical_blocks() == set(self.model.canonical.values())
        for block, key in self.model.keys.items():
            assert self.index.canonical(BlockId(block)) == self.model.canonical.get(key)


TestIndex = IndexMachine.TestCase
TestIndex.settings = machine_settings(one_in=2)


def test_collisions_are_counted_and_never_give_a_hit() -> None:
    index = HashedIndex(SIZE, lambda *_: 0, exact=True)
    for block in range(3):
        index.publish(BlockId(block), None, "a", (block, block))
    assert index.match("a", [2, 2], 1) == (2,)
    assert index.num_collisions == 2
    assert index.match("a", [3, 3], 1) == ()
    assert index.match("b", [0, 0], 1) == ()
    assert index.num_collisions == 8


def test_the_published_key_takes_the_child_of_another_parent_of_the_same_hash() -> None:
    def first_is_nothing(parent: int, scope: str, tokens: tuple[int, ...]) -> int:
        del scope
        return 1 if parent == ROOT else hash(tokens)

    for exact, found in ((False, (1, 2)), (True, (1,))):
        index = HashedIndex(1, first_is_nothing, exact=exact)
        index.publish(BlockId(0), None, "a", (7,))
        index.publish(BlockId(1), None, "a", (8,))
        index.publish(BlockId(2), BlockId(0), "a", (9,))
        assert index.match("a", [8, 9], 2) == found
