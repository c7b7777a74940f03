"""Node: one edge of a radix tree, and which runs pass through it.

                    ┌ children ─ (30 31 32)  runs 5
    root ── (10 11) ┤
                    └ children ─ (20)  runs 4, 2 ── (21)  runs 7          a run ends at the end of an edge

Every node knows the few runs under it that were made last, so that a match need not look for them below the place
where it ends. They are kept right where a run comes or goes:

    recent   the `few` runs through this node that were made last, oldest of them first
    order    the children, by the last run of each; the `few` last of them have all that `recent` can need
    endings  the runs that end here, oldest first

Of fewer than `few` runs `recent` has all, so one that leaves is simply taken out; else it is filled again from
`endings` and from the last children: O(few²), whatever there is below. The root needs neither `recent` nor `order`:
what matches nothing names no runs.
"""

from array import array
from bisect import bisect_left, insort
from collections.abc import Hashable, Iterator, Sequence
from struct import pack
from typing import Final, Generic, TypeAlias, TypeVar

from arriero.core.ids import TokenId

Holder = TypeVar("Holder", bound=Hashable)
"""Whatever a caller knows a run by."""

Edge: TypeAlias = "array[int]"
"""Tokens, signed, 32 bits each."""

FIRST_PIECE: Final = 32
"""Tokens of an edge that are compared first; each piece after it is four times as long as the one before."""


class Run(Generic[Holder]):
    """One run: who holds it, when it was made, where it ends."""

    __slots__ = ("holder", "node", "serial")

    def __init__(self, holder: Holder, serial: int, node: "Node[Holder]") -> None:
        self.holder = holder
        self.serial = serial
        self.node = node


class Node(Generic[Holder]):
    """The tokens of a path from `end - len(edge)` to `end`."""

    __slots__ = ("children", "edge", "end", "endings", "order", "parent", "recent")

    def __init__(self, parent: "Node[Holder] | None", edge: Edge, end: int) -> None:
        self.parent = parent
        self.edge = edge
        self.end = end
        self.children: dict[TokenId, Node[Holder]] = {}
        self.endings: list[Run[Holder]] = []
        self.recent: list[Run[Holder]] = []
        self.order: list[Node[Holder]] = []

    @property
    def start(self) -> int:
        """How many tokens stand before this edge."""
        return self.end - len(self.edge)

    @property
    def is_private(self) -> bool:
        """Whether nothing but one run ends here, and nothing comes after it, so that the edge may change its length."""
        return self.parent is not None and len(self.endings) == 1 and not self.children

    @property
    def is_needless(self) -> bool:
        """Whether this edge and the next one could be one edge."""
        return self.parent is not None and not self.endings and len(self.children) == 1

    def path(self, above: "Node[Holder] | None" = None) -> "Iterator[Node[Holder]]":
        """This node and those above it, up to `above` or the root, which are not among them."""
        node = self
        while node is not above and node.parent is not None:
            yield node
            node = node.parent

    # --- edges -----------------------------------------------------------------------------------

    def extend(self, tokens: Sequence[TokenId]) -> None:
        """Let the edge of a private node be longer; O(new tokens)."""
        self.edge.extend(packed(tokens))
        self.end += len(tokens)

    def cut(self, end: int) -> None:
        """Let the edge of a private node end sooner."""
        del self.edge[end - self.start :]
        self.end = end

    def add_leaf(self, tokens: Sequence[TokenId], run: Run[Holder]) -> "Node[Holder]":
        """A new leaf after this node, for `run` alone."""
        leaf = Node(self, packed(tokens), self.end + len(tokens))
        leaf.recent.append(run)
        self.children[leaf.edge[0]] = leaf
        leaf.enter_order()
        return leaf

    def detach(self) -> None:
        """Leave the parent; for a leaf that no run passes through any more, whose `recent` is still what it was."""
        assert self.parent is not None, "the root stays"
        self.leave_order()
        del self.parent.children[self.edge[0]]

    def split(self, end: int) -> "Node[Holder]":
        """Cut the edge in two; returns the new upper node, which ends after `end` tokens, for a run that ends there."""
        length = end - self.start
        upper = Node(self.parent, self.edge[:length], end)
        upper.recent = self.recent.copy()
        upper.order = [self]
        self._stand_in(upper)
        del self.edge[:length]
        upper.children[self.edge[0]] = self
        self.parent = upper
        return upper

    def merge(self) -> None:
        """Give the edge of a needless node to its only child, which takes its place."""
        (child,) = self.children.values()
        self.edge.extend(child.edge)
        child.edge = self.edge
        child.parent = self.parent
        self._stand_in(child)

    def _stand_in(self, other: "Node[Holder]") -> None:
        """Let another node with the same last run and first token have this one's place in the parent."""
        parent = self.parent
        assert parent is not None, "the root stays"
        parent.children[self.edge[0]] = other
        if parent.parent is not None:
            parent.order[bisect_left(parent.order, last_serial(self), key=last_serial)] = other

    # --- who was last ----------------------------------------------------------------------------

    def add_run(self, run: Run[Holder], few: int) -> None:
        """Note a run that passes through here from now on."""
        recent = self.recent
        if recent[-1].serial < run.serial:
            self.leave_order()
            recent.append(run)
            self.enter_order()
        else:
            insort(recent, run, key=serial_of)
        if len(recent) > few:
            del recent[0]

    def remove_run(self, run: Run[Holder], few: int) -> bool:
        """Forget a run that passes through here no longer, while others do; below here it must be forgotten already.

        Returns whether it was known here; if not, it is not known above either.
        """
        recent = self.recent
        if run not in recent:
            return False
        is_last = recent[-1] is run
        if is_last:
            self.leave_order()
        if len(recent) < few:
            recent.remove(run)
        else:
            self.recent = self.last_runs(few)
        if is_last:
            self.enter_order()
        return True

    def last_runs(self, few: int) -> list[Run[Holder]]:
        """What `recent` has to be, from the endings and what the children know."""
        found = self.endings[-few:]
        for child in self.order[-few:]:
            found += child.recent
        found.sort(key=serial_of)
        return found[-few:]

    def enter_order(self) -> None:
        """Stand among the children of the parent where the last run says."""
        parent = self.parent
        if parent is not None and parent.parent is not None:
            insort(parent.order, self, key=last_serial)

    def leave_order(self) -> None:
        """Stand there no longer; before the last run changes."""
        parent = self.parent
        if parent is not None and parent.parent is not None:
            del parent.order[bisect_left(parent.order, last_serial(self), key=last_serial)]


def serial_of(run: Run[Holder]) -> int:
    """When a run was made."""
    return run.serial


def last_serial(node: Node[Holder]) -> int:
    """When the last run through a node was made."""
    return node.recent[-1].serial


def walk(root: Node[Holder]) -> Iterator[tuple[int, Node[Holder]]]:
    """All nodes below the root with their level from 0, each before its children, these as they were made."""
    stack = [(0, child) for child in reversed(root.children.values())]
    while stack:
        level, node = stack.pop()
        yield level, node
        stack.extend((level + 1, child) for child in reversed(node.children.values()))


def packed(tokens: Sequence[TokenId]) -> Edge:
    """Tokens as an edge holds them; the same object if they are that already."""
    if isinstance(tokens, array) and tokens.typecode == "i":
        return tokens
    # Twice as fast as an array made of the sequence itself, which parses each number as an argument.
    return array("i", pack(f"{len(tokens)}i", *tokens))


def num_common(edge: Edge, tokens: Sequence[TokenId], start: int, limit: int) -> int:
    """How many tokens an edge has in common with `tokens[start:limit]`, of which the first is known to be the same.

    Compares whole pieces at the speed of C, and looks at O(result) tokens only, however long both are.
    """
    most = min(len(edge), limit - start)
    same, size = 1, FIRST_PIECE
    while same < most:
        stop = min(same + size, most)
        mine, other = edge[same:stop], packed(tokens[start + same : start + stop])
        if mine != other:
            return same + first_difference(mine, other)
        same, size = stop, size * 4
    return same


def first_difference(one: Edge, other: Edge) -> int:
    """Where two unequal pieces of one length differ first; halves are compared, O(length) in C."""
    low, high = 0, len(one)  # equal before `low`, unequal before `high`
    while high - low > 1:
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low
