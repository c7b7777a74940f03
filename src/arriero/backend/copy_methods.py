"""CopyMethod: how an empty sequence gets the first positions of another one.

    MarkedCells   one pool: the cells belong to both; no data move
    StateCopy     separate streams: out into host memory, in again; costs by the source's positions
    StreamCopy    separate streams: llama.cpp copies the whole stream when it next decodes; costs by its cells

Both ways between streams copy all of the source and trim the copy, since llama.cpp knows no ranges here.
"""

from typing import Protocol

import numpy as np

from arriero.backend.sequence_memory import SequenceMemory
from arriero.backend.sequence_state import Bytes, SequenceState
from arriero.core.ids import SequenceId


class CopyMethod(Protocol):
    """One way to copy. The owner tells it what else happens to the memory."""

    def copy(self, source: SequenceId, target: SequenceId, length: int) -> bool:
        """Let `target`, which is empty, have the first `length` positions of `source`; whether it worked."""
        ...

    def changed(self, sequence_id: SequenceId) -> None:
        """A sequence was trimmed, or filled in another way."""
        ...

    def decoded(self) -> None:
        """A decode call has reached the memory, whatever came of it."""
        ...

    def is_settled(self, sequence_id: SequenceId) -> bool:
        """Whether the bytes of a sequence are where they belong, and nobody else needs what lay there before."""
        ...


class MarkedCells:
    """Cells of one pool belong to several sequences."""

    def __init__(self, memory: SequenceMemory) -> None:
        """Copy within one pool."""
        self._memory = memory

    def copy(self, source: SequenceId, target: SequenceId, length: int) -> bool:
        """Mark the cells."""
        self._memory.share(source, target, length)
        return True

    def changed(self, sequence_id: SequenceId) -> None:
        """Nothing is kept."""

    def decoded(self) -> None:
        """Nothing is kept."""

    def is_settled(self, sequence_id: SequenceId) -> bool:
        """Always."""
        del sequence_id
        return True


class StateCopy:
    """Through one buffer in host memory, which stays; copies of one source in a row read it once."""

    def __init__(self, memory: SequenceMemory, state: SequenceState) -> None:
        """Start with an empty buffer, which grows to the largest sequence."""
        self._memory = memory
        self._state = state
        self._buffer: Bytes = np.empty(0, np.uint8)
        self._held: tuple[SequenceId, int] | None = None  # whose bytes are in the buffer, and how many

    def copy(self, source: SequenceId, target: SequenceId, length: int) -> bool:
        """Read the source unless its bytes are still there, write them, trim."""
        held = self._held if self._held is not None and self._held[0] == source else self._read(source)
        if held is None:
            return False
        return self._state.write(target, self._buffer[: held[1]]) and self._memory.trim(target, length)

    def changed(self, sequence_id: SequenceId) -> None:
        """Its bytes in the buffer, if any, are old."""
        if self._held is not None and self._held[0] == sequence_id:
            self._held = None

    def decoded(self) -> None:
        """Any sequence may have grown."""
        self._held = None

    def is_settled(self, sequence_id: SequenceId) -> bool:
        """Always: a copy is complete when it returns."""
        del sequence_id
        return True

    def _read(self, source: SequenceId) -> tuple[SequenceId, int] | None:
        size = self._state.size(source)
        if size > self._buffer.nbytes:
            self._buffer = np.empty(size, np.uint8)
        is_read = self._state.read(source, self._buffer[:size])
        self._held = (source, size) if is_read else None
        return self._held


class StreamCopy:
    """llama.cpp's own copy between streams.

    It only notes the copy, and moves the data at the beginning of the next decode call. Until then the bytes of the
    target are not there, and those of the source must stay.
    """

    def __init__(self, memory: SequenceMemory) -> None:
        """Start with nothing under way."""
        self._memory = memory
        self._under_way: set[SequenceId] = set()

    def copy(self, source: SequenceId, target: SequenceId, length: int) -> bool:
        """Note the copy and trim the target's positions."""
        self._memory.copy_stream(source, target)
        self._under_way |= {source, target}
        return self._memory.trim(target, length)

    def changed(self, sequence_id: SequenceId) -> None:
        """Trims and drops move no bytes, so a copy under way stays right."""

    def decoded(self) -> None:
        """The data have moved."""
        self._under_way.clear()

    def is_settled(self, sequence_id: SequenceId) -> bool:
        """Not while a copy from it or to it is under way."""
        return sequence_id not in self._under_way
