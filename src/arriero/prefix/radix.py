"""RadixTree: the runs of one cache scope, found by how they begin.

    run 5   10 11 30 31 32        root ── (10 11) ┬─ (30 31 32)  5
    run 4   10 11 20                              └─ (20)  4, 2 ── (21)  7
    run 2   10 11 20
    run 7   10 11 20 21           match of 10 11 30 99: 3 tokens, run 5

Tokens stand once, on edges; a match may end inside an edge, and a run that ends inside one cuts it in two. A leaf has a
run that ends there; an inner node has one, or two children at least; so there are fewer than two nodes a run.
A run keeps the moment at which it was made while it grows and shrinks: that is the order in which matches name runs.

Cost, with P nodes on the way to the end of a run (its branchings, not its tokens) and n tokens that are compared,
taken over or given back; comparing and copying is done in C, and finding a child is one dictionary access:

    match       O(n + P), and O(few) for the runs, whatever is below
    insert      O(n + P) for a new run; n = new tokens for one that grows, and P = new branchings
    truncate    O(n + P)
    withdraw    O(n + P), where n = the edge of the leaf that goes or of the two that become one

Nothing here recurses, so neither long prompts nor long chains of runs meet a limit.
"""

from bisect import insort
from collections.abc import Sequence
from typing import Final, Generic, NamedTuple

from arriero.core.errors import InvariantViolation
from arriero.core.ids import TokenId
from arriero.prefix.radix_check import check_nodes
from arriero.prefix.radix_node import Holder, Node, Run, num_common, packed, serial_of, walk

FEW: Final = 8
"""How many runs a match names at most."""


class TreeMatch(NamedTuple, Generic[Holder]):
    """The longest beginning of a prompt that some run holds."""

    num_tokens: int
    runs: tuple[Holder, ...]  # hold at least so many tokens of it; the one made last first; () where num_tokens is 0


class PicturedNode(NamedTuple, Generic[Holder]):
    """One node without its tokens."""

    level: int  # nodes above it, without the root
    num_tokens: int  # on its edge
    runs: tuple[Holder, ...]  # that end there, the one made first first


class RadixTree(Generic[Holder]):
    """Deterministic; equal tokens are the only reason for a match."""

    def __init__(self, few: int = FEW) -> None:
        """Start empty; matches will name at most `few` runs."""
        self._few = few
        self._root: Node[Holder] = Node(None, packed(()), 0)
        self._runs: dict[Holder, Run[Holder]] = {}  # in the order in which they were made
        self._serial = 0
        self._num_tokens = 0

    @property
    def num_tokens(self) -> int:
        """Tokens on all edges: those of all runs, what they share counted once."""
        return self._num_tokens

    @property
    def runs(self) -> tuple[Holder, ...]:
        """All of them, the one made first first."""
        return tuple(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def match(self, tokens: Sequence[TokenId], limit: int) -> TreeMatch[Holder]:
        """The longest beginning of `tokens[:limit]` that some run holds, and the last few runs that hold it."""
        node, length = descend(self._root, tokens, min(limit, len(tokens)))
        return TreeMatch(length, tuple([run.holder for run in reversed(node.recent)]))

    def match_whole(self, tokens: Sequence[TokenId], limit: int) -> TreeMatch[Holder]:
        """The longest runs that are a beginning of `tokens[:limit]`, whole, and not empty."""
        node, length = descend(self._root, tokens, min(limit, len(tokens)))
        for each in node.path():
            if each.endings and each.end <= length:
                return TreeMatch(each.end, tuple([run.holder for run in reversed(each.endings[-self._few :])]))
        return TreeMatch(0, ())

    def common(self, holder: Holder, tokens: Sequence[TokenId], limit: int) -> int:
        """How many of the first `limit` tokens are also the first of one run."""
        length, limit = 0, min(limit, len(tokens))
        for node in reversed(list(self._run(holder).node.path())):
            if length == limit or node.edge[0] != tokens[length]:
                break
            length += num_common(node.edge, tokens, length, limit)
            if length < node.end:
                break
        return length

    def length(self, holder: Holder) -> int:
        """How many tokens a run holds."""
        return self._run(holder).node.end

    def tokens(self, holder: Holder) -> tuple[TokenId, ...]:
        """What a run holds; O(its length)."""
        found = packed(())
        for node in reversed(list(self._run(holder).node.path())):
            found.extend(node.edge)
        return tuple(found)

    def insert(self, holder: Holder, tokens: Sequence[TokenId]) -> None:
        """Let a run, new or known, hold exactly these tokens.

        Args:
            holder: a known one holds a beginning of `tokens` already; of that, only the last token is compared.
            tokens: what it holds now.

        Raises:
            InvariantViolation: `tokens` do not go on where the run ends. Nothing has changed.
        """
        run = self._runs.get(holder)
        if run is None:
            self._serial += 1
            start = self._root
            run = self._runs[holder] = Run(holder, self._serial, start)
        else:
            start = run.node
            self._require_extension(run, tokens)
            if len(tokens) == start.end:
                return
            if start.is_private:
                self._num_tokens += len(tokens) - start.end
                start.extend(tokens[start.end :])
                return
            start.endings.remove(run)
        self._place(run, start, tokens)
        if start.is_needless:
            start.merge()

    def truncate(self, holder: Holder, length: int) -> None:
        """Let a run hold only its first `length` tokens; its place among the runs stays.

        Raises:
            InvariantViolation: it holds fewer, or `length` is negative. Nothing has changed.
        """
        run = self._run(holder)
        old = run.node
        if not 0 <= length <= old.end:
            raise InvariantViolation(f"run {holder} of {old.end} tokens cannot be cut to {length}")
        node = next((each for each in old.path() if each.start < length), self._root)
        if node is old and length == old.end:
            return
        if node is old and old.is_private:
            self._num_tokens -= old.end - length
            old.cut(length)
            return
        if length < node.end:
            node = node.split(length)
        insort(node.endings, run, key=serial_of)
        run.node = node
        self._leave(run, old, node)

    def withdraw(self, holder: Holder) -> None:
        """Forget a run, and the tokens that no other run holds."""
        run = self._run(holder)
        del self._runs[holder]
        self._leave(run, run.node, self._root)

    def picture(self) -> tuple[PicturedNode[Holder], ...]:
        """All nodes, each before its children; the root only if a run without tokens ends there."""
        root = [PicturedNode(0, 0, tuple(run.holder for run in self._root.endings))] if self._root.endings else []
        below = (
            PicturedNode(level, len(node.edge), tuple(run.holder for run in node.endings))
            for level, node in walk(self._root)
        )
        return (*root, *below)

    def check(self) -> None:
        """Verify the whole tree, in O(tokens).

        Raises:
            InvariantViolation: a rule of this file or of its nodes does not hold.
        """
        if check_nodes(self._root, self._few) != (self._num_tokens, len(self._runs)):
            raise InvariantViolation(f"{self._num_tokens} tokens or {len(self._runs)} runs are not what the nodes have")
        serials = [run.serial for run in self._runs.values()]
        if serials != sorted(serials) or any(holder != run.holder for holder, run in self._runs.items()):
            raise InvariantViolation(f"runs do not stand in the order in which they were made: {self.runs}")

    def _run(self, holder: Holder) -> Run[Holder]:
        run = self._runs.get(holder)
        if run is None:
            raise InvariantViolation(f"run {holder} is not in the tree")
        return run

    def _require_extension(self, run: Run[Holder], tokens: Sequence[TokenId]) -> None:
        end = run.node.end
        if len(tokens) < end or (end and tokens[end - 1] != run.node.edge[-1]):
            raise InvariantViolation(f"{len(tokens)} tokens do not extend run {run.holder}, which holds {end} others")

    def _place(self, run: Run[Holder], start: Node[Holder], tokens: Sequence[TokenId]) -> None:
        """Let a run that comes from `start` end where `tokens` do."""
        node, length = descend(start, tokens, len(tokens))
        if length < node.end:
            node = node.split(length)
        for each in node.path(start):
            each.add_run(run, self._few)
        if length < len(tokens):
            node = node.add_leaf(tokens[length:], run)
            self._num_tokens += len(node.edge)
        insort(node.endings, run, key=serial_of)
        run.node = node

    def _leave(self, run: Run[Holder], old: Node[Holder], above: Node[Holder]) -> None:
        """Let a run that ended at `old` pass through no node below `above` any more."""
        node = old
        node.endings.remove(run)
        if not node.endings and not node.children and node.parent is not None:
            self._num_tokens -= len(node.edge)
            node.detach()
            node = node.parent
        for each in node.path(above):
            if not each.remove_run(run, self._few):
                break
        if node.is_needless:
            node.merge()


def descend(node: Node[Holder], tokens: Sequence[TokenId], limit: int) -> tuple[Node[Holder], int]:
    """Follow `tokens[:limit]` from the end of a node; returns the last node that was entered, and how far it holds."""
    length = node.end
    while length < limit:
        child = node.children.get(tokens[length])
        if child is None:
            break
        node = child
        length += num_common(node.edge, tokens, length, limit)
        if length < node.end:
            break
    return node, length
