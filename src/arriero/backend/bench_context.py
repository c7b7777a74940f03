"""BenchContext: one context, driven as llama-bench drives it.

Nothing of a server is here: no slots, no samplers. Batches are handed over as llama.cpp's simplest kind, tokens alone:
it places them behind what is in sequence 0 and computes logits for the last one. Answers may be those of several
sequences abreast, as a server has them.
Keys and values may have types of their own, and any type that llama.cpp stores them in.
"""

import ctypes
import logging
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arriero.backend.batch import LlamaBatch
from arriero.backend.library import LOGGER, Function, Library
from arriero.backend.llama_model import LlamaModel
from arriero.core.choices import FlashAttention
from arriero.core.errors import ConfigError, StepFailed
from arriero.metrics.kv_buffers import kv_bytes_of

SEQUENCE: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """How the context is made; llama-bench's own defaults where it has some.

    Attributes:
        num_cells: tokens that it holds; llama.cpp rounds up.
        batch: tokens of one decode call.
        micro_batch: tokens computed together.
        threads: for micro-batches of one token.
        batch_threads: for all others.
        kv_key: type of the keys, by ggml's name in lower case.
        kv_value: type of the values.
        flash_attention: fused attention.
        sequences: that `generate` answers abreast; each has an equal part of the cells.
    """

    num_cells: int
    batch: int
    micro_batch: int
    threads: int
    batch_threads: int
    kv_key: str = "f16"
    kv_value: str = "f16"
    flash_attention: FlashAttention = FlashAttention.AUTO
    sequences: int = 1


class BenchContext:
    """Used by one thread; the model must outlive it.

    Attributes:
        num_sequences: that `generate` answers abreast.
        kv_cache_bytes: as llama.cpp printed it while the memory was made, to 0.01 MiB; None if it printed nothing.
    """

    def __init__(self, model: LlamaModel, options: BenchOptions) -> None:
        """Allocate KV memory and buffers.

        Raises:
            ConfigError: llama.cpp refuses: for want of memory, or because these KV types need flash attention.
        """
        library = model.library
        self._batch_size = options.batch
        self.num_sequences = options.sequences
        self._abreast = LlamaBatch(library, options.sequences)
        with _kv_lines() as lines:
            self._handle = _open(model, options)
        self.kv_cache_bytes = kv_bytes_of(lines)
        self._vocab_size = model.capabilities.vocab_size
        self._memory: int = library.short("llama_get_memory")(self._handle)
        self._call = _Functions.of(library)
        self._state = _State(library, self._handle)

    def prefill(self, tokens: NDArray[np.int32]) -> None:
        """Compute tokens behind what is there, in batches, and wait for the end.

        Args:
            tokens: int32[num_tokens], contiguous.

        Raises:
            StepFailed: llama.cpp could not, for want of cells as a rule.
        """
        for start in range(0, len(tokens), self._batch_size):
            self._compute(tokens[start : start + self._batch_size])
        self._call.synchronise(self._handle)

    def generate(self, tokens: NDArray[np.int32]) -> None:
        """Compute given tokens one by one, each with its logits, as if they had been sampled in every sequence.

        Raises:
            StepFailed: llama.cpp could not.
        """
        start: int = 1 + self._call.last_position(self._memory, SEQUENCE)
        for place in range(len(tokens)):
            if self.num_sequences == 1:
                self._compute(tokens[place : place + 1])
            else:
                self._abreast.fill_abreast(int(tokens[place]), start + place, self.num_sequences)
                self._run(self._abreast.struct, self.num_sequences)
            self._call.synchronise(self._handle)

    def greedy(self, prompt: Sequence[int], num_tokens: int, ends: frozenset[int]) -> list[int]:
        """Answer a prompt with the most likely token each time, at most so many; an end token ends it and is left out.

        Raises:
            StepFailed: llama.cpp could not.
        """
        found: list[int] = []
        self.prefill(np.array(prompt, np.int32))
        while True:
            token = int(np.argmax(self._last_logits()))  # the lowest id of equals
            if token in ends:
                return found
            found.append(token)
            if len(found) == num_tokens:
                return found
            self.prefill(np.array([token], np.int32))

    def clear(self) -> None:
        """Forget every token."""
        self._call.clear(self._memory, False)  # noqa: FBT003 - llama.cpp's own argument: the numbers may stay

    def save(self) -> NDArray[np.uint8]:
        """What sequence 0 holds; uint8[num_bytes]."""
        return self._state.save()

    def restore(self, state: NDArray[np.uint8]) -> bool:
        """Put it back into every sequence, all of them empty; False if llama.cpp refuses, who is done stays filled."""
        return all(self._state.restore(state, sequence) for sequence in range(self.num_sequences))

    def close(self) -> None:
        """Free the context; once."""
        self._call.free(self._handle)

    def _compute(self, tokens: NDArray[np.int32]) -> None:
        kind = self._call.one.argtypes[0]
        self._run(self._call.one(ctypes.cast(tokens.ctypes.data, kind), len(tokens)), len(tokens))

    def _run(self, batch: Any, num_tokens: int) -> None:  # noqa: ANN401 - a ctypes structure
        code: int = self._call.decode(self._handle, batch)
        if code != 0:
            message = f"llama.cpp answered {code} to a decode call of {num_tokens} tokens; is the context too small?"
            raise StepFailed(message, code="decode_failed")

    def _last_logits(self) -> NDArray[np.float32]:
        """float32[vocab_size], a view that the next call overwrites."""
        address: int = self._call.logits(self._handle, -1)
        memory = (ctypes.c_float * self._vocab_size).from_address(address)
        return np.ctypeslib.as_array(memory)


class _Functions(NamedTuple):
    """What is called of llama.cpp."""

    free: Function
    clear: Function
    decode: Function
    one: Any  # whose argument types are read, too
    synchronise: Function
    last_position: Function
    logits: Function

    @classmethod
    def of(cls, library: Library) -> "_Functions":
        return cls(
            free=library.long("llama_free"),
            clear=library.short("llama_memory_clear"),
            decode=library.long("llama_decode"),
            one=library.short("llama_batch_get_one"),
            synchronise=library.long("llama_synchronize"),
            last_position=library.short("llama_memory_seq_pos_max"),
            logits=library.short("llama_get_logits_ith", returns=ctypes.c_void_p),
        )


class _State:
    """What a sequence of a context holds, as bytes."""

    def __init__(self, library: Library, handle: int) -> None:
        self._handle = handle
        self._size: Any = library.short("llama_state_seq_get_size")
        self._get: Any = library.long("llama_state_seq_get_data")
        self._set: Any = library.long("llama_state_seq_set_data")

    def save(self) -> NDArray[np.uint8]:
        state = np.empty(self._size(self._handle, SEQUENCE), np.uint8)
        self._get(self._handle, ctypes.cast(state.ctypes.data, self._get.argtypes[1]), state.nbytes, SEQUENCE)
        return state

    def restore(self, state: NDArray[np.uint8], sequence: int) -> bool:
        data = ctypes.cast(state.ctypes.data, self._set.argtypes[1])
        taken: int = self._set(self._handle, data, state.nbytes, sequence)
        return taken != 0


def _open(model: LlamaModel, options: BenchOptions) -> int:
    library = model.library
    structs = library.structs
    parameters = library.long("llama_context_default_params")()
    parameters.n_ctx = options.num_cells
    parameters.n_seq_max = options.sequences
    parameters.n_batch = options.batch
    parameters.n_ubatch = options.micro_batch
    parameters.n_threads = options.threads
    parameters.n_threads_batch = options.batch_threads
    parameters.type_k = getattr(structs, f"GGML_TYPE_{options.kv_key.upper()}")
    parameters.type_v = getattr(structs, f"GGML_TYPE_{options.kv_value.upper()}")
    parameters.flash_attn_type = {
        FlashAttention.AUTO: structs.LLAMA_FLASH_ATTN_TYPE_AUTO,
        FlashAttention.ON: structs.LLAMA_FLASH_ATTN_TYPE_ENABLED,
        FlashAttention.OFF: structs.LLAMA_FLASH_ATTN_TYPE_DISABLED,
    }[options.flash_attention]
    handle: int | None = library.long("llama_init_from_model")(model.handle, parameters)
    if handle is None:
        message = (
            f"llama.cpp cannot make a context of {options.num_cells} tokens with KV types {options.kv_key}/"
            f"{options.kv_value}: quantised values need flash attention on, and memory may not suffice"
        )
        raise ConfigError(message)
    return handle


@contextmanager
def _kv_lines() -> Generator[list[str]]:
    """Listen to llama.cpp's log for a while; `arriero.backend.library` must have been started for this process."""
    heard = _Heard()
    level = LOGGER.level
    LOGGER.addHandler(heard)
    LOGGER.setLevel(logging.DEBUG)  # it tells sizes at its own `info`, which is our debug
    try:
        yield heard.lines
    finally:
        LOGGER.setLevel(level)
        LOGGER.removeHandler(heard)


class _Heard(logging.Handler):
    """Keeps the lines that speak of KV memory."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        text = record.getMessage()
        if "KV buffer" in text:
            self.lines.append(text)
