"""From the events of many calls to one time a node."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from arriero.lab.operators.bench import Call
from arriero.lab.operators.recorder import Kind
from arriero.record.cpu_lab.graph_nodes import GraphNode, NodeTime


class StampedTimes(NamedTuple):
    """What stamps say.

    Attributes:
        passes: numbers of the nodes of each pass.
        ns: int64[num_calls, num_passes].
        before, after: int64[num_calls]; outside of the graph.
    """

    passes: tuple[tuple[int, ...], ...]
    ns: NDArray[np.int64]
    before: NDArray[np.int64]
    after: NDArray[np.int64]


def stamped_times(calls: Sequence[Call], passes: tuple[tuple[int, ...], ...]) -> StampedTimes:
    """From calls with one stamp a pass.

    A pass lasts from the stamp before it to its own, so waiting for the other threads after the pass before is in it;
    the first one lasts from the moment at which the graph's last node was asked for.
    """
    at = np.stack([call.events["at"] for call in calls])
    began = np.array([call.began_at for call in calls])
    ended = np.array([call.ended_at for call in calls])
    return StampedTimes(passes, np.diff(at, axis=1), at[:, 0] - began, ended - at[:, -1])


def fits_stamps(call: Call, num_passes: int) -> bool:
    """Whether a call has one beginning and then one stamp a pass."""
    kinds = call.events["kind"]
    return len(kinds) == num_passes + 1 and kinds[0] == Kind.ASKED and bool((kinds[1:] == Kind.STAMPED).all())


def packet_times(calls: Sequence[Call]) -> NDArray[np.int64]:
    """int64[num_calls, num_packets]: from the question about a packet's last node to the word that it is computed."""
    at = np.stack([call.events["at"] for call in calls])
    spent: NDArray[np.int64] = at[:, 1::2] - at[:, ::2]
    return spent


def fits_packets(call: Call, num_packets: int) -> bool:
    """Whether a call has a question and a word for each packet, in turns."""
    kinds = call.events["kind"]
    if len(kinds) != 2 * num_packets:
        return False
    return bool((kinds[::2] == Kind.ASKED).all() and (kinds[1::2] == Kind.COMPUTED).all())


def with_stamps(nodes: Sequence[GraphNode], times: StampedTimes) -> tuple[GraphNode, ...]:
    """The nodes with the time of their pass; of several in one pass the first has it."""
    found = dict(zip((numbers[0] for numbers in times.passes), node_times(times.ns), strict=True))
    joined = {number for numbers in times.passes for number in numbers[1:]}
    return tuple(replace(node, stamped=found.get(node.number), joined=node.number in joined) for node in nodes)


def with_packets(nodes: Sequence[GraphNode], ns: NDArray[np.int64]) -> tuple[GraphNode, ...]:
    """The nodes with the time of their packet of one: `int64[num_calls, num_nodes]`."""
    return tuple(replace(node, apart=time) for node, time in zip(nodes, node_times(ns), strict=True))


def node_times(ns: NDArray[np.int64]) -> tuple[NodeTime, ...]:
    """Median and quartiles of each column; a clock that stood still or went back counts as 0."""
    low, middle, high = np.percentile(np.maximum(ns, 0), (25, 50, 75), axis=0).tolist()
    return tuple(
        NodeTime(median_ns=each, low_ns=least, high_ns=most)
        for least, each, most in zip(low, middle, high, strict=True)
    )


def price_of_cut(nodes: Sequence[GraphNode]) -> float | None:
    """Median time, apart, of the nodes that compute nothing; None if there is none."""
    found = [node.apart.median_ns for node in nodes if node.apart is not None and not node.computes]
    return float(np.median(found)) if found else None
