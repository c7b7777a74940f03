from array import array
from collections.abc import Sequence
from typing import overload

import pytest

from arriero.core.errors import InvariantViolation
from arriero.core.request import BlankTokens
from arriero.prefix.cache import PrefixTrees, RunKey
from arriero.prefix.radix import PicturedNode, TreeMatch

SYSTEM = tuple(range(100, 130))


def trees_of(*runs: Sequence[int], few: int = 8) -> PrefixTrees:
    trees = PrefixTrees(few)
    for number, tokens in enumerate(runs):
        trees.insert("a", RunKey(number), tokens)
    return trees


def runs(*numbers: int) -> tuple[RunKey, ...]:
    return tuple(map(RunKey, numbers))


class CountedTokens(Sequence[int]):
    """A prompt that counts how many of its tokens anybody looks at."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens = tuple(tokens)
        self.num_read = 0

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...
    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        found = self.tokens[index]
        self.num_read += 1 if isinstance(found, int) else len(found)
        return found

    def __len__(self) -> int:
        return len(self.tokens)


def test_a_match_is_cut_at_any_token_inside_an_edge() -> None:
    trees = trees_of(SYSTEM)
    for length in range(1, len(SYSTEM) + 1):
        assert trees.match("a", (*SYSTEM[:length], 7), 99) == TreeMatch(length, runs(0))


def test_the_limit_cuts_too() -> None:
    assert trees_of(SYSTEM).match("a", SYSTEM, len(SYSTEM) - 1) == TreeMatch(len(SYSTEM) - 1, runs(0))


@pytest.mark.parametrize("limit", [0, -1])
def test_nothing_is_found_where_nothing_may_be(limit: int) -> None:
    assert trees_of(SYSTEM).match("a", SYSTEM, limit) == TreeMatch(0, ())


def test_a_run_that_ends_before_the_match_is_not_named() -> None:
    trees = trees_of(SYSTEM, SYSTEM[:10])
    assert trees.match("a", SYSTEM, 11) == TreeMatch(11, runs(0))
    assert trees.match("a", SYSTEM, 10) == TreeMatch(10, runs(1, 0))


def test_only_the_last_few_runs_are_named_and_those_before_step_in_when_they_go() -> None:
    trees = trees_of(*((*SYSTEM, own) for own in range(6)), few=3)
    assert trees.match("a", SYSTEM, 99).runs == runs(5, 4, 3)
    trees.withdraw(RunKey(4))
    assert trees.match("a", SYSTEM, 99).runs == runs(5, 3, 2)
    trees.truncate(RunKey(5), 3)
    assert trees.match("a", SYSTEM, 99).runs == runs(3, 2, 1)


def test_runs_of_one_text_step_in_too() -> None:
    trees = trees_of(SYSTEM, SYSTEM, SYSTEM, SYSTEM, SYSTEM, (*SYSTEM, 1), few=3)
    assert trees.match("a", SYSTEM, 99).runs == runs(5, 4, 3)
    for gone, named in ((5, (4, 3, 2)), (3, (4, 2, 1)), (4, (2, 1, 0)), (2, (1, 0))):
        trees.withdraw(RunKey(gone))
        assert trees.match("a", SYSTEM, 99).runs == runs(*named)


def test_growing_does_not_make_a_run_the_last_one() -> None:
    trees = trees_of(SYSTEM, SYSTEM)
    trees.insert("a", RunKey(0), (*SYSTEM, 1, 2))
    assert trees.match("a", SYSTEM, 99).runs == runs(1, 0)


def test_scopes_do_not_see_one_another() -> None:
    trees = trees_of(SYSTEM)
    assert trees.match("b", SYSTEM, 99) == TreeMatch(0, ())
    trees.insert("b", RunKey(1), SYSTEM[:5])
    assert trees.match("b", SYSTEM, 99) == TreeMatch(5, runs(1))
    assert trees.num_tokens == len(SYSTEM) + 5
    assert (trees.scope(RunKey(1)), trees.scopes) == ("b", ("a", "b"))
    trees.withdraw(RunKey(1))
    assert (trees.scopes, trees.picture("b")) == (("a",), ())


def test_a_run_is_in_one_scope() -> None:
    trees = trees_of(SYSTEM)
    with pytest.raises(InvariantViolation, match="run 0 is in the cache scope 'a', not in 'b'"):
        trees.insert("b", RunKey(0), SYSTEM)
    assert trees.scopes == ("a",)


def test_a_key_may_be_used_again_once_it_is_withdrawn() -> None:
    trees = trees_of(SYSTEM)
    trees.withdraw(RunKey(0))
    trees.insert("b", RunKey(0), (1, 2))
    assert trees.match("b", (1, 2, 3), 99) == TreeMatch(2, runs(0))


def test_what_does_not_go_on_is_refused() -> None:
    trees = trees_of(SYSTEM)
    for wrong in (SYSTEM[:-1], (*SYSTEM[:-1], 0, 0)):
        with pytest.raises(InvariantViolation, match="tokens do not extend run 0"):
            trees.insert("a", RunKey(0), wrong)
    trees.check()


def test_a_stranger_is_refused_and_shares_nothing() -> None:
    trees, stranger = trees_of(SYSTEM), RunKey(7)
    for verb in (trees.withdraw, trees.length, trees.tokens, trees.scope):
        with pytest.raises(InvariantViolation, match="run 7 is in no tree"):
            verb(stranger)
    assert stranger not in trees
    assert trees.common(stranger, SYSTEM, 99) == 0


def test_the_longest_whole_run_may_be_shorter_than_the_match() -> None:
    trees = trees_of(SYSTEM, SYSTEM[:10], SYSTEM[:10], SYSTEM[:4])
    prompt = (*SYSTEM[:20], 1)
    assert trees.match("a", prompt, 99) == TreeMatch(20, runs(0))
    assert trees.match_whole("a", prompt, 99) == TreeMatch(10, runs(2, 1))
    assert trees.match_whole("a", prompt, 9) == TreeMatch(4, runs(3))
    assert trees.match_whole("a", prompt, 3) == TreeMatch(0, ())


def test_the_tokens_of_one_run_alone_are_what_leaves_with_it() -> None:
    trees = trees_of((*SYSTEM, 1, 2), (*SYSTEM, 3), SYSTEM, SYSTEM[:3])
    assert trees.num_tokens == len(SYSTEM) + 3
    for run, left in ((0, len(SYSTEM) + 1), (1, len(SYSTEM)), (2, 3), (3, 0)):
        trees.withdraw(RunKey(run))
        assert trees.num_tokens == left
    assert len(trees) == 0


def test_an_empty_run_is_held_and_never_found() -> None:
    trees = trees_of(())
    assert trees.match("a", SYSTEM, 99) == TreeMatch(0, ())
    assert trees.picture("a") == (PicturedNode(0, 0, runs(0)),)
    trees.insert("a", RunKey(0), SYSTEM)
    assert trees.match("a", SYSTEM, 99) == TreeMatch(len(SYSTEM), runs(0))
    trees.check()


def test_negative_tokens_and_blank_prompts_are_tokens() -> None:
    trees = trees_of((-1, 5), BlankTokens(100))
    assert trees.match("a", (-1, 5, 6), 99) == TreeMatch(2, runs(0))
    assert trees.match("a", BlankTokens(300), 300) == TreeMatch(100, runs(1))


@pytest.mark.parametrize("typecode", ["i", "l", "q"])
def test_arrays_of_any_kind_are_tokens(typecode: str) -> None:
    trees = trees_of(array(typecode, SYSTEM), array(typecode, SYSTEM[:40]))
    trees.insert("a", RunKey(1), array(typecode, (*SYSTEM, *range(100))))
    assert trees.match("a", array(typecode, SYSTEM), 99) == TreeMatch(len(SYSTEM), runs(1, 0))
    assert trees.match("a", (*SYSTEM, *range(100)), 999) == TreeMatch(len(SYSTEM) + 100, runs(1))
    trees.insert("a", RunKey(1), array(typecode, (*SYSTEM, *range(103))))
    trees.insert("a", RunKey(1), (*SYSTEM, *range(106)))
    trees.check()


def test_the_picture_shows_lengths_and_runs_and_no_tokens() -> None:
    trees = trees_of((10, 11, 30, 31, 32), (10, 11, 20), (10, 11, 20), (10, 11, 20, 21), (40,))
    assert trees.picture("a") == (
        PicturedNode(0, 2, ()),
        PicturedNode(1, 3, runs(0)),
        PicturedNode(1, 1, runs(1, 2)),
        PicturedNode(2, 1, runs(3)),
        PicturedNode(0, 1, runs(4)),
    )


def test_edges_become_one_again_when_nothing_parts_them() -> None:
    trees = trees_of((1, 2, 3, 4), (1, 2, 9))
    trees.withdraw(RunKey(1))
    assert trees.picture("a") == (PicturedNode(0, 4, runs(0)),)


def test_a_match_looks_at_little_more_than_it_finds() -> None:
    prompt = tuple(range(100_000))
    trees = trees_of(prompt)
    for same in (0, 1, 40, 1_000, 20_000):
        counted = CountedTokens((*prompt[:same], *(-1 for _ in prompt[same:])))
        assert trees.match("a", counted, len(counted)).num_tokens == same
        assert counted.num_read <= 40 + 5 * same
    unknown = CountedTokens(tuple(-1 for _ in prompt))
    trees.match("a", unknown, len(unknown))
    assert unknown.num_read == 1


def test_a_run_that_grows_costs_its_new_tokens_only() -> None:
    trees = trees_of((*SYSTEM, 1), (*SYSTEM, 2))
    grown = CountedTokens((*SYSTEM, 1, *range(5)))
    trees.insert("a", RunKey(0), grown)
    assert grown.num_read == 5 + 1  # and the last one before, which is compared


def test_a_chain_of_ten_thousand_runs_meets_no_limit() -> None:
    number = 10_000
    tokens = array("i", range(number))
    trees = PrefixTrees()
    for run in range(number):  # each cuts the first edge of those before, which is the quick way to make a chain
        trees.insert("a", RunKey(run), tokens[: number - run])
    trees.check()
    assert trees.match("a", tokens, number) == TreeMatch(number, runs(0))
    assert trees.match_whole("a", (*tokens[:5_000], -1), number) == TreeMatch(5_000, runs(5_000))
    assert trees.picture("a")[-1] == PicturedNode(number - 1, 1, runs(0))
    assert trees.common(RunKey(0), tokens, number) == number
    trees.truncate(RunKey(0), 5)
    trees.insert("a", RunKey(0), tokens)
    trees.check()
    assert trees.match("a", tokens, 7).runs == runs(9993, 9992, 9991, 9990, 9989, 9988, 9987, 9986)
    for run in range(number):
        trees.withdraw(RunKey(run))
    assert (trees.num_tokens, trees.scopes) == (0, ())


def test_a_run_that_grows_token_by_token_stays_one_edge_beside_its_twin() -> None:
    trees = trees_of(SYSTEM, SYSTEM)
    for length in range(len(SYSTEM) + 1, 400):
        for run in runs(0, 1):
            trees.insert("a", run, range(100, 100 + length))
    assert trees.picture("a") == (PicturedNode(0, 399, runs(0, 1)),)
    trees.check()
