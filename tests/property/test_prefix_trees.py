"""The radix trees against a dictionary of token tuples: two scopes, two tokens, so that edges are cut often."""

from array import array
from collections.abc import Callable, Sequence
from itertools import pairwise, takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from arriero.core.errors import InvariantViolation
from arriero.prefix.cache import PrefixTrees, RunKey
from arriero.prefix.radix import TreeMatch
from arriero.prefix.radix_node import first_difference, num_common, packed
from tests.property.machines import machine_settings

SCOPES = ("a", "b")
Tokens = tuple[int, ...]

scopes = st.sampled_from(SCOPES)
short = st.lists(st.integers(0, 1), max_size=6).map(tuple)
# Now and then a stretch longer than the pieces in which edges are compared.
stretches = (
    st.just(()) | short | st.builds(lambda head, n, tail: head + (0,) * n + tail, short, st.integers(0, 170), short)
)
kinds = st.sampled_from([tuple, list, lambda tokens: array("i", tokens)])


def num_same(one: Sequence[int], other: Sequence[int]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


class Model:
    """Runs in the order of their insertion: scope and tokens."""

    def __init__(self, few: int) -> None:
        self.few = few
        self.runs: dict[int, tuple[str, Tokens]] = {}

    def of(self, scope: str) -> dict[int, Tokens]:
        return {run: tokens for run, (its_scope, tokens) in self.runs.items() if its_scope == scope}

    def match(self, scope: str, prompt: Tokens) -> tuple[int, Tokens]:
        lengths = {run: num_same(tokens, prompt) for run, tokens in self.of(scope).items()}
        longest = max(lengths.values(), default=0)
        return self._last(longest, [run for run, length in lengths.items() if length == longest])

    def match_whole(self, scope: str, prompt: Tokens) -> tuple[int, Tokens]:
        whole = {run: len(tokens) for run, tokens in self.of(scope).items() if prompt[: len(tokens)] == tokens}
        longest = max(whole.values(), default=0)
        return self._last(longest, [run for run, length in whole.items() if length == longest])

    def _last(self, longest: int, runs: list[int]) -> tuple[int, Tokens]:
        return longest, tuple(reversed(runs))[: self.few] if longest else ()

    def num_tokens(self) -> int:
        in_order = [sorted(self.of(scope).values()) for scope in SCOPES]
        held = sum(len(tokens) for texts in in_order for tokens in texts)
        return held - sum(num_same(*pair) for texts in in_order for pair in pairwise(texts))


class TreesMachine(RuleBasedStateMachine):
    """Runs begin anywhere, often where others do; they grow, shrink and go, in any order."""

    @initialize(few=st.sampled_from([1, 2, 3, 8]))
    def build(self, few: int) -> None:
        self.trees = PrefixTrees(few)
        self.model = Model(few)
        self.next_run = 0

    def draw_run(self, data: st.DataObject) -> int:
        return data.draw(st.sampled_from(list(self.model.runs)), "run")

    def draw_beginning(self, data: st.DataObject) -> Tokens:
        tokens = self.model.runs[self.draw_run(data)][1] if self.model.runs else ()
        return tokens[: data.draw(st.just(len(tokens)) | st.integers(0, len(tokens)), "cut")]

    @rule(data=st.data(), scope=scopes, more=stretches, kind=kinds)
    def insert(self, data: st.DataObject, scope: str, more: Tokens, kind: Callable[[Tokens], Sequence[int]]) -> None:
        tokens = self.draw_beginning(data) + more
        self.trees.insert(scope, RunKey(self.next_run), kind(tokens))
        self.model.runs[self.next_run] = (scope, tokens)
        self.next_run += 1

    @precondition(lambda self: self.model.runs)
    @rule(data=st.data(), more=stretches, kind=kinds, follows=st.booleans())
    def grow(
        self, data: st.DataObject, more: Tokens, kind: Callable[[Tokens], Sequence[int]], *, follows: bool
    ) -> None:
        run = self.draw_run(data)
        scope, tokens = self.model.runs[run]
        if follows:  # along another run, as two requests with one prompt and one answer do
            longer = [other for other in self.model.of(scope).values() if other[: len(tokens)] == tokens]
            tokens = data.draw(st.sampled_from(longer), "followed")
        self.trees.insert(scope, RunKey(run), kind(tokens + more))
        self.model.runs[run] = (scope, tokens + more)

    @precondition(lambda self: self.model.runs)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        run = self.draw_run(data)
        scope, tokens = self.model.runs[run]
        length = data.draw(st.integers(0, len(tokens)), "length")
        self.trees.truncate(RunKey(run), length)
        self.model.runs[run] = (scope, tokens[:length])

    @precondition(lambda self: self.model.runs)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        run = self.draw_run(data)
        self.trees.withdraw(RunKey(run))
        del self.model.runs[run]

    @precondition(lambda self: len(self.model.runs) > 8)
    @rule(data=st.data(), number=st.integers(1, 8))
    def withdraw_many(self, data: st.DataObject, number: int) -> None:
        for _ in range(number):
            self.withdraw(data)

    @rule(data=st.data(), scope=scopes, more=stretches, limit=st.integers(0, 300), kind=kinds)
    def match(
        self,
        data: st.DataObject,
        scope: str,
        more: Tokens,
        limit: int,
        kind: Callable[[Tokens], Sequence[int]],
    ) -> None:
        tokens = self.draw_beginning(data) + more
        assert self.trees.match(scope, kind(tokens), limit) == self.model.match(scope, tokens[:limit])
        assert self.trees.match_whole(scope, kind(tokens), limit) == self.model.match_whole(scope, tokens[:limit])
        for run, (_, its_tokens) in self.model.runs.items():
            assert self.trees.common(RunKey(run), kind(tokens), limit) == num_same(its_tokens, tokens[:limit])

    @precondition(lambda self: self.model.runs)
    @rule(data=st.data())
    def what_is_refused_changes_nothing(self, data: st.DataObject) -> None:
        run = self.draw_run(data)
        scope, tokens = self.model.runs[run]
        other = SCOPES[scope == SCOPES[0]]
        with pytest.raises(InvariantViolation):
            self.trees.insert(other, RunKey(run), tokens)
        for length in (-1, len(tokens) + 1):
            with pytest.raises(InvariantViolation):
                self.trees.truncate(RunKey(run), length)
        with pytest.raises(InvariantViolation):
            self.trees.withdraw(RunKey(self.next_run))
        if tokens:
            for wrong in (tokens[:-1], (*tokens[:-1], 2, 2)):
                with pytest.raises(InvariantViolation):
                    self.trees.insert(scope, RunKey(run), wrong)

    @invariant()
    def the_books_add_up(self) -> None:
        self.trees.check()
        assert self.trees.num_tokens == self.model.num_tokens()
        assert set(self.trees.scopes) == {scope for scope, _ in self.model.runs.values()}
        assert len(self.trees) == len(self.model.runs)

    @rule()
    def every_run_is_what_it_is(self) -> None:
        for number, (scope, tokens) in self.model.runs.items():
            run = RunKey(number)
            assert run in self.trees
            assert (self.trees.scope(run), self.trees.tokens(run)) == (scope, tokens)
            assert self.trees.length(run) == len(tokens)

    @rule()
    def the_picture_has_all_runs_and_all_tokens(self) -> None:
        rows = {scope: self.trees.picture(scope) for scope in SCOPES}
        for scope, nodes in rows.items():
            assert sorted(run for node in nodes for run in node.runs) == sorted(self.model.of(scope))
        assert sum(node.num_tokens for nodes in rows.values() for node in nodes) == self.trees.num_tokens


TestTrees = TreesMachine.TestCase
TestTrees.settings = machine_settings(one_in=2)


@given(same=st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=700), data=st.data())
def test_the_first_difference_is_found_wherever_it_is(same: list[int], data: st.DataObject) -> None:
    one, other = (same + data.draw(st.lists(st.integers(0, 1), max_size=3)) for _ in range(2))
    before = data.draw(st.lists(st.integers(0, 1), max_size=3))
    limit = data.draw(st.integers(len(before) + 1, len(before) + len(other)))
    prompt = before + other
    assert num_common(packed(one), prompt, len(before), limit) == num_same(one, prompt[len(before) : limit])


@given(st.lists(st.integers(0, 1), min_size=1, max_size=40), st.data())
def test_halving_finds_the_first_of_many_differences(one: list[int], data: st.DataObject) -> None:
    changed = data.draw(st.sets(st.integers(0, len(one) - 1), min_size=1))
    other = [1 - token if place in changed else token for place, token in enumerate(one)]
    assert first_difference(packed(one), packed(other)) == min(changed)


def test_what_is_returned_is_a_value_of_its_own() -> None:
    trees = PrefixTrees()
    tokens = array("i", [1, 2, 3])
    trees.insert("a", RunKey(0), tokens)
    tokens.append(4)
    tokens[0] = 9
    assert trees.match("a", [1, 2, 3, 4], 4) == TreeMatch(3, (RunKey(0),))
    trees.check()
