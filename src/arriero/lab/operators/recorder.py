"""Recorder: callbacks inside a graph's computation that note times, in one of four ways.

    still      they answer and note nothing: what the mere presence of callbacks costs
    listed     every node of the graph is noted before anything is computed: its structure
    stamped    the graph is computed in one piece; the first compute thread leaves a stamp after each node
    packets    the graph is computed in packets of k nodes, with all threads brought together after each

Packets of one node are what a profile through llama.cpp's eval callback is made of. They change what they measure: each
is a graph of its own, for which threads are started and waited for, and neighbours that llama.cpp would compute in one
pass are computed apart. Stamps come from the callback by which a call can be aborted; llama.cpp calls it after every
node whether somebody wants to abort or not, so they change nothing but the reading of a clock.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from arriero.backend.graph_hooks import GraphHooks


class Kind(IntEnum):
    """What an event tells; the numbers are those of `sources/recorder.c`."""

    ASKED = 0  # the packet that ends with this node is about to be computed, or the node is listed
    COMPUTED = 1  # the packet that ends with this node has been computed
    STAMPED = 2  # one more node has been computed


EVENT: Final = np.dtype([("at", np.int64), ("node", np.uint64), ("kind", np.int64)])
"""One event: nanoseconds of the monotonic clock, the tensor's address or 0, the `Kind`."""

NO_LAST: Final = -1
ROOM: Final = 1 << 16
"""Events of one decode call, at most; a graph of 100 layers has some 3,000 nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What is noted of the next decode call.

    Attributes:
        every: nodes in a packet; 0 computes the graph in one piece.
        last: number of the graph's last node; None if it is not known.
        lists: whether each node is noted before it is computed.
        stamps: whether each node is noted after it was computed.
    """

    every: int = 0
    last: int | None = None
    lists: bool = False
    stamps: bool = False


STILL: Final = Watch()
LISTED: Final = Watch(lists=True)


class Recorder(GraphHooks, Protocol):
    """Callbacks of one context; told before each decode call what to note, and asked after it."""

    @property
    def name(self) -> str:
        """What the callbacks are made of, in words."""
        ...

    def watch(self, watch: Watch) -> None:
        """Forget what was noted; the next call is noted like this."""
        ...

    def events(self) -> NDArray[np.void]:
        """`EVENT[n]`, a copy, in the order of time.

        Raises:
            InvariantViolation: there was no room for all of them.
        """
        ...


class Chosen(NamedTuple):
    """How recorders are made here.

    Attributes:
        make: one for each context.
        reason: why they are not compiled; None if they are.
    """

    make: Callable[[], Recorder]
    reason: str | None
