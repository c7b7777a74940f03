"""Node times summed up: by operation, by family, by layer; and what two graphs differ in.

A node has one time and stands in one group of each kind, so every grouping has the sum of all nodes.
"""

from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from arriero.record.cpu_lab.graph_nodes import GraphNode
from arriero.record.cpu_lab.operators import Arm, Method, PhaseProfile


class GroupTime(NamedTuple):
    """Nodes that belong together.

    Attributes:
        key: what they share.
        num_nodes: how many, those that compute nothing among them.
        ns: of one call.
        share: of all nodes' time; 0 where that is 0.
    """

    key: str
    num_nodes: int
    ns: float
    share: float


class Accounting(NamedTuple):
    """Where one call's time went, by the arm that the tables use.

    Attributes:
        step_ns: median call of that arm.
        nodes_ns: sum of the nodes' medians.
        before_ns, after_ns: outside of the graph; None where it was not stamped.
        accounted: (before + nodes + after) / step.
    """

    step_ns: float
    nodes_ns: float
    before_ns: float | None
    after_ns: float | None
    accounted: float


class GraphDifference(NamedTuple):
    """Prefill's graph against decode's.

    Attributes:
        num_nodes: of each.
        num_computed: of each, without nodes for which nothing is computed.
        only_first, only_second: nodes without a counterpart.
        reshaped: pairs whose shapes differ.
        retyped: pairs whose types differ.
    """

    num_nodes: tuple[int, int]
    num_computed: tuple[int, int]
    only_first: tuple[GraphNode, ...]
    only_second: tuple[GraphNode, ...]
    reshaped: tuple[tuple[GraphNode, GraphNode], ...]
    retyped: tuple[tuple[GraphNode, GraphNode], ...]


def node_ns(node: GraphNode, method: Method) -> float:
    """A node's time by that method; 0 for one that has none of its own."""
    found = node.stamped if method is Method.STAMPED else node.apart
    return 0.0 if found is None else found.median_ns


def by_operation(phase: PhaseProfile) -> tuple[GroupTime, ...]:
    """Longest first; a matrix product is named with the type of its weights."""
    return group_times(phase.nodes, phase.method, operation_key)


def by_family(phase: PhaseProfile) -> tuple[GroupTime, ...]:
    """Longest first."""
    return group_times(phase.nodes, phase.method, lambda node: node.family.value)


def by_layer(phase: PhaseProfile) -> tuple[GroupTime, ...]:
    """By number, those outside of all layers last."""
    groups = group_times(phase.nodes, phase.method, lambda node: "" if node.layer is None else str(node.layer))
    ordered = sorted(groups, key=lambda group: (not group.key, int(group.key or 0)))
    return tuple(group._replace(key=group.key or "outside of layers") for group in ordered)


def group_times(nodes: Sequence[GraphNode], method: Method, key: Callable[[GraphNode], str]) -> tuple[GroupTime, ...]:
    """Every node in the group of its key; longest first, then by key."""
    times: dict[str, float] = {}
    counts: dict[str, int] = {}
    for node in nodes:
        name = key(node)
        times[name] = times.get(name, 0.0) + node_ns(node, method)
        counts[name] = counts.get(name, 0) + 1
    total = sum(times.values())
    groups = (GroupTime(name, counts[name], ns, ns / total if total else 0.0) for name, ns in times.items())
    return tuple(sorted(groups, key=lambda group: (-group.ns, group.key)))


def operation_key(node: GraphNode) -> str:
    """The operation; where it multiplies matrices, with the type of its first source."""
    return f"{node.operation} {node.sources[0].type}" if node.operation.startswith("MUL_MAT") else node.operation


def accounting(phase: PhaseProfile) -> Accounting:
    """How much of a call the nodes and the time around the graph explain."""
    stamped = phase.method is Method.STAMPED
    arm = phase.arm(Arm.STAMPED if stamped else Arm.APART) or phase.arms[0]
    nodes_ns = sum(node_ns(node, phase.method) for node in phase.nodes)
    before, after = (phase.before_ns, phase.after_ns) if stamped else (None, None)
    accounted = (nodes_ns + (before or 0.0) + (after or 0.0)) / arm.median_ns
    return Accounting(arm.median_ns, nodes_ns, before, after, accounted)


def compare_graphs(first: Sequence[GraphNode], second: Sequence[GraphNode]) -> GraphDifference:
    """Pair the nodes of two graphs by operation and name, in their order; unnamed ones by operation alone."""
    identities = ([_identity(node) for node in first], [_identity(node) for node in second])
    matcher = SequenceMatcher(None, *identities, autojunk=False)
    pairs = [
        (first[block.a + place], second[block.b + place])
        for block in matcher.get_matching_blocks()
        for place in range(block.size)
    ]
    matched_first, matched_second = {one.number for one, _ in pairs}, {other.number for _, other in pairs}
    return GraphDifference(
        num_nodes=(len(first), len(second)),
        num_computed=(sum(node.computes for node in first), sum(node.computes for node in second)),
        only_first=tuple(node for node in first if node.number not in matched_first),
        only_second=tuple(node for node in second if node.number not in matched_second),
        reshaped=tuple(pair for pair in pairs if pair[0].shape != pair[1].shape),
        retyped=tuple(pair for pair in pairs if _types(pair[0]) != _types(pair[1])),
    )


def _identity(node: GraphNode) -> tuple[str, str]:
    # llama.cpp counts nodes that it gave no name: node_17
    return node.operation, "" if node.name.startswith("node_") else node.name


def _types(node: GraphNode) -> tuple[str, ...]:
    return (node.type, *(source.type for source in node.sources))
