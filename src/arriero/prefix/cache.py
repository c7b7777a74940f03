"""PrefixTrees: one radix tree for each cache scope, and in which of them a run is.

A scope is a wall: its runs are found by its own prompts only, and tokens that two scopes have in common stand twice.
A scope without runs takes no memory.
"""

from collections.abc import Sequence
from typing import NewType

from arriero.core.errors import InvariantViolation
from arriero.core.ids import TokenId
from arriero.prefix.radix import FEW, PicturedNode, RadixTree, TreeMatch

RunKey = NewType("RunKey", int)
"""A run; minted by the caller, and free for another run once it is withdrawn."""

NO_TREE_MATCH: TreeMatch[RunKey] = TreeMatch(0, ())


class PrefixTrees:
    """Every verb costs what it costs in one tree, however many scopes there are.

    Tokens may be any sequence of numbers of 32 bits; an `array("i")` is compared without being converted first, which
    pays where one prompt is looked up again and again.
    """

    def __init__(self, few: int = FEW) -> None:
        """Start empty; matches will name at most `few` runs."""
        self._few = few
        self._trees: dict[str, RadixTree[RunKey]] = {}
        self._scopes: dict[RunKey, str] = {}
        self._num_tokens = 0

    @property
    def num_tokens(self) -> int:
        """Distinct tokens of all trees: what runs of one scope share is counted once."""
        return self._num_tokens

    @property
    def scopes(self) -> tuple[str, ...]:
        """Those that have runs, the one in use for the longest time first."""
        return tuple(self._trees)

    def __len__(self) -> int:
        return len(self._scopes)

    def __contains__(self, run: object) -> bool:
        return run in self._scopes

    def match(self, scope: str, tokens: Sequence[TokenId], limit: int) -> TreeMatch[RunKey]:
        """The longest beginning of `tokens[:limit]` that some run of a scope holds, cut at any token.

        The runs hold at least so many tokens of it: all that do, or the last few; the one inserted last first, where
        growing and shrinking is no insertion. Where nothing matches there are none.
        """
        tree = self._trees.get(scope)
        return NO_TREE_MATCH if tree is None else tree.match(tokens, limit)

    def match_whole(self, scope: str, tokens: Sequence[TokenId], limit: int) -> TreeMatch[RunKey]:
        """The same of runs whose whole text `tokens[:limit]` begin with: the longest of them, which have one text."""
        tree = self._trees.get(scope)
        return NO_TREE_MATCH if tree is None else tree.match_whole(tokens, limit)

    def common(self, run: RunKey, tokens: Sequence[TokenId], limit: int) -> int:
        """How many of the first `limit` tokens are also the first of one run; 0 of an unknown run."""
        return self._tree(run).common(run, tokens, limit) if run in self._scopes else 0

    def length(self, run: RunKey) -> int:
        """How many tokens a run holds."""
        return self._tree(run).length(run)

    def tokens(self, run: RunKey) -> tuple[TokenId, ...]:
        """What a run holds; O(its length)."""
        return self._tree(run).tokens(run)

    def scope(self, run: RunKey) -> str:
        """Whose prompts may find a run."""
        return self._scope(run)

    def insert(self, scope: str, run: RunKey, tokens: Sequence[TokenId]) -> None:
        """Let a run hold exactly these tokens: a new one, or one that goes on; then O(new tokens).

        Raises:
            InvariantViolation: it is in another scope, or `tokens` do not go on where it ends; nothing has changed.
        """
        known = self._scopes.get(run)
        if known is not None and known != scope:
            raise InvariantViolation(f"run {run} is in the cache scope {known!r}, not in {scope!r}")
        tree = self._trees.get(scope)
        if tree is None:
            tree = RadixTree[RunKey](self._few)
        before = tree.num_tokens
        tree.insert(run, tokens)
        self._trees[scope] = tree
        self._scopes[run] = scope
        self._num_tokens += tree.num_tokens - before

    def truncate(self, run: RunKey, length: int) -> None:
        """Let a run hold only its first `length` tokens, which may be none.

        Raises:
            InvariantViolation: it holds fewer, or it is unknown. Nothing has changed.
        """
        tree = self._tree(run)
        before = tree.num_tokens
        tree.truncate(run, length)
        self._num_tokens += tree.num_tokens - before

    def withdraw(self, run: RunKey) -> None:
        """Forget a run, and the tokens that no other run of its scope holds.

        Raises:
            InvariantViolation: it is unknown.
        """
        tree = self._tree(run)
        before = tree.num_tokens
        tree.withdraw(run)
        self._num_tokens += tree.num_tokens - before
        scope = self._scopes.pop(run)
        if not len(tree):
            del self._trees[scope]

    def picture(self, scope: str) -> tuple[PicturedNode[RunKey], ...]:
        """The tree of a scope in rows, lengths and runs without tokens; each node before those below it."""
        tree = self._trees.get(scope)
        return () if tree is None else tree.picture()

    def check(self) -> None:
        """Verify all trees from scratch, in O(tokens).

        Raises:
            InvariantViolation: they do not add up.
        """
        scopes = {run: scope for scope, tree in self._trees.items() for run in tree.runs}
        if scopes != self._scopes or len(scopes) != sum(map(len, self._trees.values())):
            raise InvariantViolation(f"runs are not in the trees of their scopes: {self._scopes}")
        if self._num_tokens != sum(tree.num_tokens for tree in self._trees.values()):
            raise InvariantViolation(f"{self._num_tokens} tokens are counted, which the trees do not have")
        for scope, tree in self._trees.items():
            if not len(tree):
                raise InvariantViolation(f"the cache scope {scope!r} has a tree without runs")
            tree.check()

    def _scope(self, run: RunKey) -> str:
        scope = self._scopes.get(run)
        if scope is None:
            raise InvariantViolation(f"run {run} is in no tree")
        return scope

    def _tree(self, run: RunKey) -> RadixTree[RunKey]:
        return self._trees[self._scope(run)]
