"""LlamaCppBackend: one context of llama.cpp.

    decode(rows)
      fill      rows -> llama_batch, through array views
      compute   llama_decode, the GIL given away
      fetch     one view over the logits of all rows that wanted some

Rows must come by ascending sequence id: with separate streams llama.cpp computes only consecutive, ascending ids
together, and each break costs another pass over all weights.
"""

import ctypes
from collections.abc import Sequence
from typing import Any, Final, assert_never

import numpy as np
from numpy.typing import NDArray

from arriero.backend.batch import LlamaBatch
from arriero.backend.context import ContextOptions, OpenContext, open_context
from arriero.backend.interrupt import InterruptFlag
from arriero.backend.llama_model import LlamaModel
from arriero.backend.protocol import BackendLimits, DecodeError, DecodeInterrupted, KvExhausted
from arriero.backend.sampler_chain import LlamaSampler, SamplerLibrary
from arriero.backend.vocabulary import find_end_tokens
from arriero.core.errors import InvariantViolation
from arriero.core.events import DropSequence, KvOp, TrimSequence
from arriero.core.ids import SequenceId, TokenId
from arriero.core.plan import Row
from arriero.core.request import Request

NO_PLACE: Final = 1
INTERRUPTED: Final = 2
INVALID_BATCH: Final = -1


class LlamaCppBackend:
    """A `Backend` over one `LlamaModel`, which must outlive it."""

    def __init__(self, model: LlamaModel, options: ContextOptions) -> None:
        """Allocate KV memory and buffers.

        Raises:
            ConfigError: the options cannot work together, or memory does not suffice.
        """
        self._flag = InterruptFlag()
        self._context: OpenContext = open_context(model, options, self._flag)
        self._limits = self._context.limits
        library = model.library
        self._batch = LlamaBatch(library, self._limits.num_rows)
        self._end_tokens = find_end_tokens(model)
        self._sampler_library = SamplerLibrary(library, self._limits.vocab_size, self._limits.sequence_limit)
        self._decode: Any = library.long("llama_decode")
        # With layers on a GPU this call waits until they are computed, so then it must give the GIL away.
        get = library.long if model.num_gpu_layers else library.short
        self._get_logits: Any = get("llama_get_logits", returns=ctypes.c_void_p)
        self._seen: tuple[int, tuple[int, int]] | None = None
        self._logits: NDArray[np.float32] = np.empty((0, self._limits.vocab_size), np.float32)
        self._memory = _SequenceMemory(self._context)

    @property
    def limits(self) -> BackendLimits:
        """As llama.cpp made them: it rounds cells up and may cap the batch."""
        return self._limits

    @property
    def end_tokens(self) -> frozenset[TokenId]:
        """Every token that llama.cpp takes for the end of a generation."""
        return self._end_tokens

    def apply(self, op: KvOp) -> bool:
        """Change the KV memory and look whether it did; a drop is tried twice."""
        match op:
            case DropSequence(sequence_id):
                return self._memory.trim(sequence_id, 0) or self._memory.trim(sequence_id, 0)
            case TrimSequence(sequence_id, length):
                return self._memory.trim(sequence_id, length)
            case _:
                assert_never(op)

    def positions(self, sequence_id: SequenceId) -> tuple[int, int] | None:
        """Lowest and highest position in KV, or None for an empty sequence."""
        return self._memory.positions(sequence_id)

    def decode(self, rows: Sequence[Row]) -> NDArray[np.float32]:
        """Compute rows in one decode call.

        Returns:
            float32[num_logit_rows, vocab_size], a view over llama.cpp's own buffer.

        Raises:
            KvExhausted: no place, memory is unchanged; DecodeInterrupted, DecodeError: the positions of these rows
                may be in memory or not.
            InvariantViolation: more rows than a batch holds.
        """
        try:
            filled = self._batch.fill(rows)
        except ValueError as problem:  # llama.cpp itself would end the process
            raise InvariantViolation(str(problem)) from problem
        shape = (filled.num_logit_rows, self._limits.vocab_size)
        if filled.num_rows == 0:
            return np.empty(shape, np.float32)
        self._flag.clear()
        code: int = self._decode(self._context.handle, self._batch.struct)
        if code != 0:
            raise _failure(code, filled.num_rows)
        if filled.num_logit_rows == 0:
            return np.empty(shape, np.float32)
        address: int = self._get_logits(self._context.handle)
        if (address, shape) != self._seen:  # steady decoding finds the same rows at the same place
            self._seen, self._logits = (address, shape), _view(address, shape)
        return self._logits

    def sampler(self, request: Request) -> LlamaSampler:
        """A fresh chain that has seen the request's prompt."""
        return LlamaSampler(self._sampler_library, request, self._end_tokens)

    def interrupt(self) -> None:
        """Make a running decode call return early; from any thread. The next call starts clean."""
        self._flag.set()

    def close(self) -> None:
        """Free the context; samplers made by this backend must be closed before."""
        self._context.close()


def _view(address: int, shape: tuple[int, int]) -> NDArray[np.float32]:
    """An array over memory that llama.cpp owns."""
    num_rows, vocab_size = shape
    memory = (ctypes.c_float * (num_rows * vocab_size)).from_address(address)
    return np.ctypeslib.as_array(memory).reshape(shape)


class _SequenceMemory:
    """The KV memory of a context, one sequence at a time; every call keeps the GIL."""

    def __init__(self, context: OpenContext) -> None:
        short = context.library.short
        self._memory = context.memory
        self._num_sequences = context.limits.num_sequences
        self._remove: Any = short("llama_memory_seq_rm")
        self._lowest: Any = short("llama_memory_seq_pos_min")
        self._highest: Any = short("llama_memory_seq_pos_max")

    def positions(self, sequence_id: SequenceId) -> tuple[int, int] | None:
        """Lowest and highest position, or None."""
        self._check(sequence_id)
        lowest: int = self._lowest(self._memory, sequence_id)
        highest: int = self._highest(self._memory, sequence_id)
        return None if highest < 0 else (lowest, highest)

    def trim(self, sequence_id: SequenceId, length: int) -> bool:
        """Remove all positions from `length` on; whether they are gone."""
        self._check(sequence_id)
        removed: bool = self._remove(self._memory, sequence_id, length, -1)
        left = self.positions(sequence_id)
        return removed and (left is None or left[1] < length)

    def _check(self, sequence_id: SequenceId) -> None:
        # llama.cpp ends the process for an id that is too large, and means all sequences by -1
        if not 0 <= sequence_id < self._num_sequences:
            message = f"sequence id {sequence_id} is none of the {self._num_sequences} of this context"
            raise InvariantViolation(message)


def _failure(code: int, num_rows: int) -> DecodeError:
    """The error that a return code of `llama_decode` stands for."""
    if code == NO_PLACE:
        return KvExhausted(f"KV memory has no place for {num_rows} rows", code="kv_exhausted")
    if code == INTERRUPTED:
        return DecodeInterrupted("the decode call was interrupted", code="interrupted")
    reason = "a row is invalid: an unknown token, or a position out of order" if code == INVALID_BATCH else "it failed"
    return DecodeError(f"llama.cpp answered {code} to a decode call of {num_rows} rows: {reason}", code="decode_failed")
