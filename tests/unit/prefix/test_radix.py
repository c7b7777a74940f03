import pytest

from arriero.core.errors import InvariantViolation
from arriero.prefix.radix import PicturedNode, RadixTree, TreeMatch


def test_holders_are_whatever_the_caller_knows_runs_by() -> None:
    tree: RadixTree[tuple[str, int]] = RadixTree()
    tree.insert(("ann", 1), (1, 2, 3))
    tree.insert(("bob", 1), (1, 2, 4))
    assert tree.match((1, 2, 4, 5), 4) == TreeMatch(3, (("bob", 1),))
    assert tree.match((1, 2), 2) == TreeMatch(2, (("bob", 1), ("ann", 1)))
    assert (tree.runs, len(tree), tree.num_tokens) == ((("ann", 1), ("bob", 1)), 2, 4)


def test_a_holder_without_a_run_is_refused_and_nothing_changes() -> None:
    tree: RadixTree[str] = RadixTree()
    tree.insert("ann", (1, 2, 3))
    with pytest.raises(InvariantViolation, match="run bob is not in the tree"):
        tree.withdraw("bob")
    tree.check()
    assert tree.picture() == (PicturedNode(0, 3, ("ann",)),)
