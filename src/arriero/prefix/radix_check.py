"""The rules of a radix tree's nodes, verified from scratch.

Each node is compared with its parent, its children and its own runs only: a leaf knows its runs from nothing else, so
what holds at every node holds in the whole tree.
"""

from arriero.core.errors import InvariantViolation
from arriero.prefix.radix_node import Holder, Node, serial_of, walk


def check_nodes(root: Node[Holder], few: int) -> tuple[int, int]:
    """Verify all nodes; returns how many tokens and how many runs they have.

    Raises:
        InvariantViolation: a rule does not hold.
    """
    _check_runs(root)
    num_tokens, num_runs = 0, len(root.endings)
    if root.edge or root.end or root.recent or root.order or root.parent is not None:
        raise InvariantViolation("the root is more than a root")
    for key, child in root.children.items():
        _check_child(root, key, child)
    for _, node in walk(root):
        for key, child in node.children.items():
            _check_child(node, key, child)
        _check_runs(node)
        _check_order(node, few)
        num_tokens += len(node.edge)
        num_runs += len(node.endings)
    return num_tokens, num_runs


def _check_child(parent: Node[Holder], key: int, child: Node[Holder]) -> None:
    rules = (
        (child.parent is parent, "has another parent"),
        (len(child.edge) > 0 and child.edge[0] == key, "is found by a token that its edge does not begin with"),
        (child.start == parent.end, "does not begin where its parent ends"),
        (bool(child.children or child.endings), "is a leaf without a run"),
        (not child.is_needless, "is needless"),
    )
    for holds, rule in rules:
        if not holds:
            raise InvariantViolation(f"the node from {child.start} to {child.end} {rule}")


def _check_runs(node: Node[Holder]) -> None:
    for run in node.endings:
        if run.node is not node:
            raise InvariantViolation(f"run {run.holder} is said to end after {node.end} tokens, and does not")
    serials = [run.serial for run in node.endings]
    if serials != sorted(set(serials)):
        raise InvariantViolation(f"runs that end after {node.end} tokens are out of order: {serials}")


def _check_order(node: Node[Holder], few: int) -> None:
    order = node.order
    if len(order) != len(node.children) or set(map(id, order)) != set(map(id, node.children.values())):
        raise InvariantViolation(f"the node from {node.start} to {node.end} orders other nodes than its children")
    last = [max(map(serial_of, child.recent), default=0) for child in order]
    if last != sorted(last):
        raise InvariantViolation(f"children of the node from {node.start} to {node.end} are out of order: {last}")
    # All that end here and all that the children know, not only the last few of each.
    known = [*node.endings, *(run for child in order for run in child.recent)]
    if node.recent != sorted(known, key=serial_of)[-few:]:
        raise InvariantViolation(f"the node from {node.start} to {node.end} does not know its last runs")
