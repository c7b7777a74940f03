"""GraphNode: one node of a graph that llama.cpp computed, with its place, its shape and its time."""

from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta

from arriero.record.bench_parts import BenchPart
from arriero.record.strict import Count, Name

Shape = tuple[Count, Count, Count, Count]
Nanoseconds = Annotated[float, Meta(ge=0)]


class Family(StrEnum):
    """What a node is for."""

    EMBEDDING = "embedding"
    NORMS = "norms"
    PROJECTIONS = "attention projections"
    ROPE = "rope"
    KV_COPY = "KV copy"
    ATTENTION = "attention"
    FEED_FORWARD = "feed-forward"
    RESIDUAL = "residual"
    ROW_CHOICE = "row choice"
    OUTPUT_HEAD = "output head"
    VIEWS = "views"  # nothing is computed for them
    OTHER = "other"


class NodeSource(BenchPart, frozen=True, kw_only=True):
    """What a node is made from: a weight, an input, a part of KV memory, or another node."""

    name: str
    type: Name
    shape: Shape


class NodeTime(BenchPart, frozen=True, kw_only=True):
    """Nanoseconds over the calls: the median and the quartiles."""

    median_ns: Nanoseconds
    low_ns: Nanoseconds
    high_ns: Nanoseconds


class GraphNode(BenchPart, frozen=True, kw_only=True):
    """One node.

    Attributes:
        number: its place in the graph, from 0.
        name: as llama.cpp calls it; may be empty.
        operation: such as MUL_MAT.
        type: of the numbers that it makes.
        shape: of these, the fastest extent first.
        sources: in order.
        family: what it is for.
        layer: transformer block, from 0; null outside of all.
        stamped: in a graph computed in one piece: from the stamp of the node before to its own, on the first compute
            thread. Null where the graph was not stamped, where nothing is computed, and for a node that was computed in
            one pass with the one before, which has the time of both.
        apart: as a graph of its own, with all threads started for it and brought together after it; null if not
            measured.
        joined: computed in one pass with the node before when the graph is not cut.
    """

    number: Count
    name: str
    operation: Name
    type: Name
    shape: Shape
    sources: tuple[NodeSource, ...]
    family: Family
    layer: Count | None
    stamped: NodeTime | None = None
    apart: NodeTime | None = None
    joined: bool = False

    @property
    def computes(self) -> bool:
        """Whether anything is computed for it; the others only look at the same numbers in another way."""
        return self.operation not in EMPTY


EMPTY: Final = frozenset({"NONE", "RESHAPE", "TRANSPOSE", "VIEW", "PERMUTE"})
"""Operations that compute nothing; llama.cpp's compute threads pass over them."""
