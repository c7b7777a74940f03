"""Decoder: rows in, logits out, by one call of llama.cpp.

    fill      rows -> llama_batch, through array views
    compute   llama_decode, the GIL given away
    fetch     one view over the logits of all rows that wanted some

Rows must come by ascending sequence id: with separate streams llama.cpp computes only consecutive, ascending ids
together, and each break costs another pass over all weights.
"""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from arriero.backend.batch import LlamaBatch
from arriero.backend.context import OpenContext
from arriero.backend.interrupt import InterruptFlag
from arriero.backend.protocol import DecodeError, DecodeInterrupted, KvExhausted
from arriero.core.errors import InvariantViolation
from arriero.core.plan import Row

NO_PLACE: Final = 1
INTERRUPTED: Final = 2
INVALID_BATCH: Final = -1


class Decoder:
    """The batch and the decode call of one context, which it borrows."""

    def __init__(
        self, context: OpenContext, flag: InterruptFlag, *, waits_for_logits: bool, reached: Callable[[], None]
    ) -> None:
        """Allocate the batch.

        Args:
            context: whose memory is filled.
            flag: interrupts a call; cleared at the beginning of each.
            waits_for_logits: whether fetching logits waits for a device, so that the GIL must be given away.
            reached: told after each call that has touched the memory, failed or not.
        """
        library = context.library
        self._handle = context.handle
        self._vocab_size = context.limits.vocab_size
        self._flag = flag
        self._reached = reached
        self._batch = LlamaBatch(library, context.limits.num_rows)
        self._decode: Any = library.long("llama_decode")
        get = library.long if waits_for_logits else library.short
        self._get_logits: Any = get("llama_get_logits", returns=ctypes.c_void_p)
        self._seen: tuple[int, tuple[int, int]] | None = None
        self._logits: NDArray[np.float32] = np.empty((0, self._vocab_size), np.float32)

    def decode(self, rows: Sequence[Row]) -> NDArray[np.float32]:
        """Compute rows in one decode call; see `LlamaCppBackend.decode`."""
        self._flag.clear()  # first of all: an interrupt that comes while the batch is filled still counts
        try:
            filled = self._batch.fill(rows)
        except ValueError as problem:  # llama.cpp itself would end the process
            raise InvariantViolation(str(problem)) from problem
        shape = (filled.num_logit_rows, self._vocab_size)
        if filled.num_rows == 0:
            return np.empty(shape, np.float32)
        code: int = self._decode(self._handle, self._batch.struct)
        if code != INVALID_BATCH:
            self._reached()
        if code != 0:
            raise _failure(code, filled.num_rows)
        if filled.num_logit_rows == 0:
            return np.empty(shape, np.float32)
        address: int = self._get_logits(self._handle)
        if (address, shape) != self._seen:  # steady decoding finds the same rows at the same place
            self._seen, self._logits = (address, shape), _view(address, shape)
        return self._logits


def _view(address: int, shape: tuple[int, int]) -> NDArray[np.float32]:
    """An array over memory that llama.cpp owns."""
    num_rows, vocab_size = shape
    memory = (ctypes.c_float * (num_rows * vocab_size)).from_address(address)
    return np.ctypeslib.as_array(memory).reshape(shape)


def _failure(code: int, num_rows: int) -> DecodeError:
    """The error that a return code of `llama_decode` stands for."""
    if code == NO_PLACE:
        return KvExhausted(f"KV memory has no place for {num_rows} rows", code="kv_exhausted")
    if code == INTERRUPTED:
        return DecodeInterrupted("the decode call was interrupted", code="interrupted")
    reason = "a row is invalid: an unknown token, or a position out of order" if code == INVALID_BATCH else "it failed"
    return DecodeError(f"llama.cpp answered {code} to a decode call of {num_rows} rows: {reason}", code="decode_failed")
