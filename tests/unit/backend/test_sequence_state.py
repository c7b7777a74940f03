import struct

import numpy as np
import pytest

from arriero.backend.sequence_state import Bytes, StateShape, fitted, shape_of, values_transposed

NUM_LAYERS = 3


def state_of(num_streams: int, stream: int, num_cells: int = 2, *, transposed: bool = False, line: int = 12) -> Bytes:
    """What llama.cpp writes, with made-up data behind."""
    counts = [num_cells if each == stream else 0 for each in range(num_streams)]
    head = struct.pack("<IiI", 0xAF143CD8, 5, num_streams)
    lines = b"\x07" * (line * num_cells)
    data = struct.pack("<II", transposed, NUM_LAYERS) + bytes(range(40))
    before, after = counts[: stream + 1], counts[stream + 1 :]
    zeros = struct.pack(f"<{len(after)}I", *after)
    return np.frombuffer(head + struct.pack(f"<{len(before)}I", *before) + lines + data + zeros, np.uint8)


@pytest.mark.parametrize("stream", [0, 1, 3])
def test_the_head_tells_the_stream_and_its_cells(stream: int) -> None:
    assert shape_of(state_of(4, stream)) == StateShape(4, stream, 2)


@pytest.mark.parametrize("num_streams", [1, 2, 4, 9])
@pytest.mark.parametrize("stream", [0, 2, 3])
def test_a_state_fits_a_context_of_any_number_of_streams(stream: int, num_streams: int) -> None:
    made = fitted(state_of(4, stream), num_streams)
    assert made is not None
    expected = state_of(num_streams, 0) if num_streams != 4 else state_of(4, stream)
    assert made.tobytes() == expected.tobytes()


def test_a_state_that_fits_is_not_copied() -> None:
    state = state_of(4, 2)
    assert fitted(state, 4) is state


@pytest.mark.parametrize("content", [b"", b"\x00" * 12, b"\x00" * 64, struct.pack("<IiII", 1, 2, 2**31, 0)])
def test_bytes_that_are_no_state_are_none(content: bytes) -> None:
    state = np.frombuffer(content, np.uint8)
    assert shape_of(state) is None
    assert fitted(state, 2) is None
    assert values_transposed(state, NUM_LAYERS) is None


@pytest.mark.parametrize("line", [12, 24])
@pytest.mark.parametrize("transposed", [False, True])
def test_the_order_of_values_is_found_behind_the_cells(transposed: bool, line: int) -> None:  # noqa: FBT001
    state = state_of(4, 2, transposed=transposed, line=line)
    assert values_transposed(state, NUM_LAYERS) is transposed
    assert values_transposed(state, NUM_LAYERS + 1) is None
