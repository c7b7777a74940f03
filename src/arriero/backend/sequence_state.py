"""SequenceState: the KV of one sequence as bytes, out of a context and into one.

What llama.cpp writes for one sequence:

    magic | sequence id | number of streams | for each stream: number of cells [| a line for each cell | data]
    4       4             4                                    4                 12 or 24 bytes

Only one stream has cells then. Which one does not matter when the bytes are read back, but the number of streams must
be the context's: `fitted` makes it so, and a file survives another `--sequences`.
"""

import ctypes
import struct
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arriero.backend.context import OpenContext
from arriero.core.ids import SequenceId

Bytes = NDArray[np.uint8]
"""uint8[size]; read only if it lies in a file."""

BIG: Final = 1 << 20  # bytes from which on a call gives the GIL away
HEAD: Final = struct.Struct("<IiI")  # magic, sequence id, number of streams
COUNT: Final = struct.Struct("<I")
DATA_HEAD: Final = struct.Struct("<II")  # whether values lie transposed, number of layers
CELL_LINES: Final = (12, 24)  # position, number of ids, id; the longer one for models with positions in two dimensions
NUM_STREAMS_AT: Final = 8


class SequenceState:
    """Reads and writes the bytes of sequences; the caller holds them."""

    def __init__(self, context: OpenContext) -> None:
        """Borrow the context, which must live as long."""
        library = context.library
        self._handle = context.handle
        self.num_streams = 1 if context.limits.unified else context.limits.num_sequences
        names = ("llama_state_seq_get_data", "llama_state_seq_set_data")
        self._size: Any = library.short("llama_state_seq_get_size")
        self._get_short, self._set_short = (library.short(name) for name in names)
        self._get_long, self._set_long = (library.long(name) for name in names)

    def size(self, sequence_id: SequenceId) -> int:
        """Bytes that `read` needs now."""
        size: int = self._size(self._handle, sequence_id)
        return size

    def read(self, sequence_id: SequenceId, target: Bytes) -> bool:
        """Copy a sequence into bytes of exactly its size; whether it worked."""
        get = self._get_long if target.nbytes >= BIG else self._get_short
        written: int = get(self._handle, _pointer(target), target.nbytes, sequence_id)
        return written == target.nbytes

    def write(self, sequence_id: SequenceId, source: Bytes) -> bool:
        """Replace a sequence by what `read` gave; whether it worked. If not, what it holds is undefined."""
        put = self._set_long if source.nbytes >= BIG else self._set_short
        read: int = put(self._handle, _pointer(source), source.nbytes, sequence_id)
        return read == source.nbytes


class StateShape(NamedTuple):
    """What the first bytes of a state say about all of them."""

    num_streams: int
    stream: int  # the one that has cells
    num_cells: int


def shape_of(state: Bytes) -> StateShape | None:
    """Read the head of a state; None if it holds no cell, or is no such state."""
    if state.nbytes < HEAD.size + COUNT.size:
        return None
    num_streams: int = HEAD.unpack_from(state.data)[2]
    most = (state.nbytes - HEAD.size) // COUNT.size
    for stream in range(min(num_streams, most)):
        num_cells: int = COUNT.unpack_from(state.data, HEAD.size + COUNT.size * stream)[0]
        if num_cells:
            return StateShape(num_streams, stream, num_cells)
    return None


def fitted(state: Bytes, num_streams: int) -> Bytes | None:
    """The same sequence for a context of so many streams; None if the bytes are no state of one sequence."""
    shape = shape_of(state)
    if shape is None:
        return None
    if shape.num_streams == num_streams:
        return state
    begin = HEAD.size + COUNT.size * shape.stream
    end = state.nbytes - COUNT.size * (shape.num_streams - 1 - shape.stream)
    empty_streams = np.zeros(COUNT.size * (num_streams - 1), np.uint8)
    made = np.concatenate((state[: HEAD.size], state[begin:end], empty_streams))
    COUNT.pack_into(made.data, NUM_STREAMS_AT, num_streams)
    return made


def values_transposed(state: Bytes, num_layers: int) -> bool | None:
    """Whether a state's values lie one number after the other (attention that is not fused); None if unclear."""
    shape = shape_of(state)
    if shape is None:
        return None
    for line in CELL_LINES:
        at = HEAD.size + COUNT.size * (shape.stream + 1) + line * shape.num_cells
        if at + DATA_HEAD.size <= state.nbytes:
            transposed, layers = DATA_HEAD.unpack_from(state.data, at)
            if transposed in {0, 1} and layers == num_layers:
                return bool(transposed)
    return None


def _pointer(data: Bytes) -> Any:  # noqa: ANN401 - ctypes has no such types
    return ctypes.cast(data.ctypes.data, ctypes.POINTER(ctypes.c_uint8))
