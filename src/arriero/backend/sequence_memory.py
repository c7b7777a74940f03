"""SequenceMemory: the positions of a context's sequences, as llama.cpp's own bookkeeping has them."""

from typing import Any

from arriero.backend.context import OpenContext
from arriero.core.errors import InvariantViolation
from arriero.core.ids import SequenceId


class SequenceMemory:
    """The KV memory of a context, one or two sequences at a time; every call keeps the GIL and moves no data."""

    def __init__(self, context: OpenContext) -> None:
        """Borrow the context, which must live as long."""
        short = context.library.short
        self._memory = context.memory
        self._num_sequences = context.limits.num_sequences
        self._remove: Any = short("llama_memory_seq_rm")
        self._copy: Any = short("llama_memory_seq_cp")
        self._clear: Any = short("llama_memory_clear")
        self._lowest: Any = short("llama_memory_seq_pos_min")
        self._highest: Any = short("llama_memory_seq_pos_max")

    def positions(self, sequence_id: SequenceId) -> tuple[int, int] | None:
        """Lowest and highest position, or None."""
        self._check(sequence_id)
        lowest: int = self._lowest(self._memory, sequence_id)
        highest: int = self._highest(self._memory, sequence_id)
        return None if highest < 0 else (lowest, highest)

    def length(self, sequence_id: SequenceId) -> int:
        """Positions from 0 on without a gap at the beginning; 0 for a sequence that has lost its first one."""
        span = self.positions(sequence_id)
        return 0 if span is None or span[0] != 0 else span[1] + 1

    def trim(self, sequence_id: SequenceId, length: int) -> bool:
        """Remove all positions from `length` on; whether they are gone."""
        self._check(sequence_id)
        removed: bool = self._remove(self._memory, sequence_id, length, -1)
        left = self.positions(sequence_id)
        return removed and (left is None or left[1] < length)

    def drop(self, sequence_id: SequenceId) -> bool:
        """Remove all positions; tried twice."""
        return self.trim(sequence_id, 0) or self.trim(sequence_id, 0)

    def share(self, source: SequenceId, target: SequenceId, length: int) -> None:
        """Let the cells of the first positions of `source` belong to `target` too; in one pool only."""
        self._check(source)
        self._check(target)
        self._copy(self._memory, source, target, 0, length)

    def copy_stream(self, source: SequenceId, target: SequenceId) -> None:
        """Let `target` have all of `source`; with separate streams the data follow in the next decode call."""
        self._check(source)
        self._check(target)
        self._copy(self._memory, source, target, -1, -1)

    def clear(self) -> None:
        """Empty every sequence, and begin again with the first cell."""
        self._clear(self._memory, False)  # noqa: FBT003 - llama.cpp's own argument: the numbers may stay

    def _check(self, sequence_id: SequenceId) -> None:
        # llama.cpp ends the process for an id that is too large, and means all sequences by -1
        if not 0 <= sequence_id < self._num_sequences:
            message = f"sequence id {sequence_id} is none of the {self._num_sequences} of this context"
            raise InvariantViolation(message)
