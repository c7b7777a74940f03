"""Blocks in cases small enough to be followed by hand; block size 2 throughout."""

import pytest

from arriero.core.errors import ConfigError, InvariantViolation
from arriero.core.events import DropSequence
from arriero.core.ids import RequestId, SequenceId
from arriero.kv.block_figures import LEAF_FIRST, PUBLISHED, CacheRules
from arriero.kv.blocks import BlockManager
from arriero.kv.protocol import ReleaseCause, Shortage, Started
from arriero.prefix.content import ContentIndex


def blocks(num_blocks: int, rules: CacheRules = LEAF_FIRST, *, num_sequences: int = 99) -> BlockManager:
    return BlockManager(num_blocks, 2, index=ContentIndex(2), rules=rules, num_sequences=num_sequences)


def start(kv: BlockManager, number: int, prompt: list[int], *, headroom: int = 0) -> Started | Shortage:
    hit = kv.lookup(prompt, "scope", len(prompt))
    return kv.start(RequestId(number), len(prompt), headroom, hit)


def run(kv: BlockManager, number: int, prompt: list[int]) -> None:
    """A prompt comes, is computed and goes."""
    assert isinstance(start(kv, number, prompt), Started)
    kv.publish(SequenceId(number), len(prompt))
    kv.release(SequenceId(number), ReleaseCause.COMPLETED, 0)


def reused(kv: BlockManager, prompt: list[int]) -> int:
    return kv.lookup(prompt, "scope", len(prompt)).num_tokens


def test_the_lowest_ids_are_taken_and_the_last_block_is_filled_first() -> None:
    kv = blocks(4)
    start(kv, 1, [1, 2, 3])
    assert kv.table(SequenceId(1)) == (0, 1)
    assert kv.grow(SequenceId(1), 1) is None
    assert kv.table(SequenceId(1)) == (0, 1)
    assert kv.grow(SequenceId(1), 1) is None
    assert kv.table(SequenceId(1)) == (0, 1, 2)
    gauges = kv.gauges()
    assert (gauges.allocated, gauges.free, gauges.tokens, gauges.peak) == (3, 1, 5, 3)


def test_a_tail_is_never_found_and_another_scope_finds_nothing() -> None:
    kv = blocks(4)
    run(kv, 1, [1, 2, 3])
    assert reused(kv, [1, 2, 3]) == 2
    assert kv.lookup([1, 2, 3], "other", 3).num_tokens == 0
    assert kv.lookup([1, 2, 3], None, 3).num_tokens == 0


def test_a_limit_keeps_the_last_token_to_be_computed() -> None:
    kv = blocks(4)
    run(kv, 1, [1, 2, 3, 4])
    assert kv.lookup([1, 2, 3, 4], "scope", 3).num_tokens == 2


def test_a_shared_block_is_leased_twice_and_counted_once() -> None:
    kv = blocks(6)
    start(kv, 1, [1, 2, 3, 4])
    kv.publish(SequenceId(1), 4)
    start(kv, 2, [1, 2, 9])
    assert kv.table(SequenceId(2)) == (0, 2)
    assert kv.gauges().tokens == 5
    assert kv.usage().active_cells == 7
    kv.release(SequenceId(1), ReleaseCause.COMPLETED, 0)
    assert (kv.gauges().cached, kv.gauges().leased) == (1, 1)
    kv.check()


def test_published_order_loses_the_beginning_first_and_the_default_the_end() -> None:
    for rules, left in ((PUBLISHED, 0), (LEAF_FIRST, 2)):
        kv = blocks(3, rules)
        run(kv, 1, [1, 2, 3, 4])
        start(kv, 2, [7, 7, 7, 7])
        assert kv.take_evicted() == [0 if rules is PUBLISHED else 1]
        assert reused(kv, [1, 2, 3, 4]) == left


def test_an_unreachable_end_is_found_again_when_its_beginning_is_computed_again() -> None:
    kv = blocks(3, PUBLISHED)
    run(kv, 1, [1, 2, 3, 4])
    run(kv, 2, [7, 7, 7, 7])
    assert reused(kv, [1, 2, 3, 4]) == 0
    start(kv, 3, [1, 2])
    assert kv.take_evicted() == [0, 1]
    kv = blocks(4, PUBLISHED)
    run(kv, 1, [1, 2, 3, 4])
    run(kv, 2, [7, 7, 8, 8, 9])
    assert kv.take_evicted() == [0]
    run(kv, 3, [1, 2])
    assert reused(kv, [1, 2, 3, 4]) == 4


def test_the_end_of_a_request_counts_as_a_use_by_default() -> None:
    for rules, evicted in ((PUBLISHED, [0]), (LEAF_FIRST, [1])):
        kv = blocks(3, rules)
        start(kv, 1, [1, 1])
        kv.publish(SequenceId(1), 2)
        run(kv, 2, [2, 2])
        kv.release(SequenceId(1), ReleaseCause.COMPLETED, 0)
        start(kv, 3, [3, 3, 3])
        assert kv.take_evicted() == evicted


@pytest.mark.parametrize(("rules", "found"), [(PUBLISHED, 0), (LEAF_FIRST, 2)])
def test_a_duplicate_in_use_inherits_by_default_and_stays_private_as_published(rules: CacheRules, found: int) -> None:
    kv = blocks(3, rules)
    start(kv, 1, [1, 2])
    start(kv, 2, [1, 2])
    kv.publish(SequenceId(1), 2)
    kv.publish(SequenceId(2), 2)
    kv.release(SequenceId(1), ReleaseCause.COMPLETED, 0)
    start(kv, 3, [5, 5, 5])
    assert kv.take_evicted() == [0]
    kv.check()
    assert reused(kv, [1, 2]) == found
    kv.release(SequenceId(2), ReleaseCause.COMPLETED, 0)
    kv.check()
    assert kv.gauges().cached == found // 2


def test_equal_prompts_of_one_step_share_at_once_where_that_is_the_rule() -> None:
    kv = blocks(4, CacheRules(shares_at_once=True))
    start(kv, 1, [1, 2])
    kv.promise(SequenceId(1), 2)
    assert reused(kv, [1, 2]) == 2
    other = blocks(4)
    start(other, 1, [1, 2])
    other.promise(SequenceId(1), 2)
    assert reused(other, [1, 2]) == 0


def test_a_shortage_says_how_much_and_changes_nothing() -> None:
    kv = blocks(3, num_sequences=2)
    start(kv, 1, [1, 2, 3, 4])
    before = kv.gauges()
    assert start(kv, 2, [5, 6, 7, 8, 9]) == Shortage(4)
    assert start(kv, 2, [5], headroom=1) == Shortage(2)
    assert kv.grow(SequenceId(1), 3) == Shortage(2)
    assert kv.gauges() == before
    assert isinstance(start(kv, 2, [5]), Started)
    assert start(kv, 3, []) == Shortage(0)


def test_headroom_is_waived_for_one_alone() -> None:
    assert isinstance(start(blocks(2), 1, [1, 2, 3, 4], headroom=9), Started)


def test_counts_are_those_of_started_prompts() -> None:
    kv = blocks(8)
    run(kv, 1, [1, 2, 3])
    kv.lookup([1, 2, 3], "scope", 3)
    run(kv, 2, [1, 2, 4, 5, 6])
    counts = kv.counts
    assert (counts.lookups, counts.hits, counts.matched_blocks, counts.matched_tokens) == (2, 1, 1, 2)
    assert (counts.eligible_tokens, counts.evictions, kv.num_collisions) == (6, 0, 0)


def test_misuse_is_a_bug() -> None:
    kv = blocks(4)
    start(kv, 1, [1, 2])
    with pytest.raises(InvariantViolation, match="held already"):
        start(kv, 1, [1, 2])
    with pytest.raises(InvariantViolation, match="not held"):
        kv.grow(SequenceId(9), 1)
    kv.publish(SequenceId(1), 2)
    with pytest.raises(InvariantViolation, match="others may have found"):
        kv.rewind(SequenceId(1), 1)
    with pytest.raises(InvariantViolation, match="no room"):
        kv.grow_together([SequenceId(1)], 99)
    with pytest.raises(InvariantViolation, match="no memory"):
        kv.refuse(DropSequence(SequenceId(1)))
    with pytest.raises(ConfigError, match="at least 1"):
        BlockManager(0, 2)
