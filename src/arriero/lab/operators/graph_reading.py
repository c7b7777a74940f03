"""Reads the nodes of the graph that was computed last, while llama.cpp still keeps it for the next call."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from arriero.backend.tensor_layout import TensorFacts, TensorReader
from arriero.lab.operators.families import family_of, layer_of
from arriero.lab.operators.graph_passes import PlainNode
from arriero.record.cpu_lab.graph_nodes import GraphNode, NodeSource


class ReadGraph(NamedTuple):
    """A graph without times.

    Attributes:
        nodes: for the file.
        plain: the same with addresses, which mean something in one context and until its next graph only.
    """

    nodes: tuple[GraphNode, ...]
    plain: tuple[PlainNode, ...]


def read_graph(reader: TensorReader, events: NDArray[np.void]) -> ReadGraph:
    """The graph that was listed.

    Args:
        reader: of the library that computed it.
        events: of a call with `LISTED`, before any further call of that context.
    """
    nodes: list[GraphNode] = []
    plain: list[PlainNode] = []
    for number, address in enumerate(events["node"].tolist()):
        facts, sources = reader.read(address), reader.sources(address)
        read = [reader.read(source) for source in sources]
        nodes.append(graph_node(number, facts, read))
        plain.append(PlainNode(facts.operation, address, sources))
    return ReadGraph(tuple(nodes), tuple(plain))


def graph_node(number: int, facts: TensorFacts, sources: list[TensorFacts]) -> GraphNode:
    """A node with its family and its layer, without times."""
    names = [source.name for source in sources]
    return GraphNode(
        number=number,
        name=facts.name,
        operation=facts.operation,
        type=facts.type,
        shape=facts.shape,
        sources=tuple(NodeSource(name=each.name, type=each.type, shape=each.shape) for each in sources),
        family=family_of(facts.operation, facts.name, names),
        layer=layer_of(facts.name, names),
    )
