"""A check that cannot fail is none: each rule is broken by hand once."""

from collections.abc import Callable

import pytest

from arriero.core.errors import InvariantViolation
from arriero.prefix.cache import PrefixTrees, RunKey
from arriero.prefix.radix import RadixTree
from arriero.prefix.radix_node import Node, Run, packed

Tree = RadixTree[int]


def small_tree() -> Tree:
    """Edge (1 2) with children (3 4) of runs 0 and 3, (5) of run 1, (6) of run 2; edge (9) of run 4."""
    tree = Tree(few=2)
    for run, tokens in enumerate([(1, 2, 3, 4), (1, 2, 5), (1, 2, 6), (1, 2, 3, 4), (9,)]):
        tree.insert(run, tokens)
    return tree


def inner(tree: Tree) -> Node[int]:
    return tree._root.children[1]


def leaf(tree: Tree) -> Node[int]:
    return inner(tree).children[3]


def without_a_sibling(tree: Tree) -> None:
    for key in (5, 6):
        child = inner(tree).children.pop(key)
        inner(tree).order.remove(child)


def count_twice(tree: Tree) -> None:
    tree._num_tokens += 1


def another_holder(tree: Tree) -> None:
    tree._runs[7] = tree._runs.pop(4)


def an_older_run_later(tree: Tree) -> None:
    tree._runs[0] = tree._runs.pop(0)


def another_child(tree: Tree) -> None:
    inner(tree).order[0] = tree._root.children[9]


BREACHES: dict[str, tuple[Callable[[Tree], object], str]] = {
    "a token too many is counted": (count_twice, "are not what the nodes have"),
    "a run is unknown": (lambda tree: tree._runs.pop(2), "are not what the nodes have"),
    "a run is known by another name": (another_holder, "do not stand in the order in which they were made"),
    "an old run counts as new": (an_older_run_later, "do not stand in the order in which they were made"),
    "the root has tokens": (lambda tree: tree._root.edge.append(1), "more than a root"),
    "the root knows runs": (lambda tree: tree._root.recent.append(tree._runs[0]), "more than a root"),
    "a parent is another's": (lambda tree: setattr(inner(tree), "parent", leaf(tree)), "has another parent"),
    "a key is another's": (lambda tree: setattr(leaf(tree), "edge", packed((4, 4))), "edge does not begin with"),
    "an edge is empty": (lambda tree: setattr(leaf(tree), "edge", packed(())), "edge does not begin with"),
    "an edge is too long": (lambda tree: setattr(leaf(tree), "end", 5), "does not begin where its parent ends"),
    "a leaf has no run": (lambda tree: leaf(tree).endings.clear(), "is a leaf without a run"),
    "an inner node has one child": (without_a_sibling, "is needless"),
    "a run ends elsewhere": (lambda tree: setattr(tree._runs[1], "node", leaf(tree)), "run 1 is said to end after 3"),
    "a run ends twice": (lambda tree: tree._root.endings.append(tree._runs[1]), "run 1 is said to end after 0"),
    "the endings are turned": (lambda tree: leaf(tree).endings.reverse(), "are out of order"),
    "an ending is there twice": (lambda tree: leaf(tree).endings.append(leaf(tree).endings[-1]), "are out of order"),
    "a child has no place": (lambda tree: inner(tree).order.pop(), "orders other nodes than its children"),
    "a stranger has a place": (another_child, "orders other nodes than its children"),
    "the children are turned": (lambda tree: inner(tree).order.reverse(), "are out of order"),
    "a last run is missing": (lambda tree: leaf(tree).recent.pop(0), "does not know its last runs"),
    "a run too many is known": (lambda tree: inner(tree).recent.insert(0, tree._runs[1]), "not know its last runs"),
    "the last runs are turned": (lambda tree: inner(tree).recent.reverse(), "does not know its last runs"),
}


def test_the_whole_tree_is_right() -> None:
    small_tree().check()


@pytest.mark.parametrize("name", BREACHES)
def test_a_broken_rule_is_named(name: str) -> None:
    breach, message = BREACHES[name]
    tree = small_tree()
    breach(tree)
    with pytest.raises(InvariantViolation, match=message):
        tree.check()


def two_trees() -> PrefixTrees:
    trees = PrefixTrees()
    trees.insert("a", RunKey(0), (1, 2))
    trees.insert("b", RunKey(1), (1, 2))
    return trees


def a_stranger(trees: PrefixTrees) -> None:
    trees._scopes[RunKey(2)] = "a"


def the_wrong_scope(trees: PrefixTrees) -> None:
    trees._scopes[RunKey(0)] = "b"


def in_two_trees(trees: PrefixTrees) -> None:
    trees._trees["a"].insert(RunKey(1), (1, 2))


def more_tokens(trees: PrefixTrees) -> None:
    trees._num_tokens += 1


def an_empty_tree(trees: PrefixTrees) -> None:
    trees._trees["c"] = RadixTree()


def a_broken_tree(trees: PrefixTrees) -> None:
    node = trees._trees["a"]._root.children[1]
    run = Run(RunKey(0), 7, node)
    node.endings.append(run)
    node.recent.append(run)


@pytest.mark.parametrize(
    ("breach", "message"),
    [
        (a_stranger, "not in the trees of their scopes"),
        (the_wrong_scope, "not in the trees of their scopes"),
        (in_two_trees, "not in the trees of their scopes"),
        (more_tokens, "which the trees do not have"),
        (an_empty_tree, "has a tree without runs"),
        (a_broken_tree, "are not what the nodes have"),
    ],
)
def test_a_broken_rule_between_trees_is_named(breach: Callable[[PrefixTrees], None], message: str) -> None:
    trees = two_trees()
    trees.check()
    breach(trees)
    with pytest.raises(InvariantViolation, match=message):
        trees.check()
