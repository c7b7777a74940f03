"""LlamaCppBackend: one context of llama.cpp.

decode(rows)     decoder.py
apply(op)        sequence_ops.py, over the context's memory, a way to copy, and the host store
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from arriero.backend.context import ContextOptions, CopyChoice, OpenContext, open_context
from arriero.backend.copy_methods import CopyMethod, MarkedCells, StateCopy, StreamCopy
from arriero.backend.decoder import Decoder
from arriero.backend.fingerprint import fingerprint_of
from arriero.backend.host_store import HostStore, HostStoreOptions
from arriero.backend.interrupt import InterruptFlag
from arriero.backend.llama_model import LlamaModel
from arriero.backend.passing_thread import in_passing_thread
from arriero.backend.protocol import BackendLimits, ReuseSupport
from arriero.backend.reuse_probe import probe_reuse
from arriero.backend.run_folder import open_folder
from arriero.backend.sampler_chain import LlamaSampler, SamplerLibrary
from arriero.backend.sequence_memory import SequenceMemory
from arriero.backend.sequence_ops import SequenceOps
from arriero.backend.sequence_state import SequenceState
from arriero.backend.vocabulary import find_end_tokens
from arriero.core.events import KvOp, SavedRun
from arriero.core.ids import SequenceId, TokenId
from arriero.core.option_kinds import Threads
from arriero.core.plan import Row
from arriero.core.request import Request


class LlamaCppBackend:
    """A `Backend` over one `LlamaModel`, which must outlive it.

    Attributes:
        store: where runs are saved; None if none was asked for, or if this memory's sequences cannot go there.
    """

    def __init__(self, model: LlamaModel, options: ContextOptions, store: HostStoreOptions | None = None) -> None:
        """Allocate KV memory and buffers, and try what this memory can do.

        Raises:
            ConfigError: the options cannot work together, memory does not suffice, or the directory of the store
                belongs to another model or another KV memory.
        """
        self._flag = InterruptFlag()
        self._context: OpenContext = open_context(model, options, self._flag)
        self._memory = SequenceMemory(self._context)
        state = SequenceState(self._context)
        method = _copy_method(options, self._memory, state)
        self._decoder = Decoder(
            self._context, self._flag, waits_for_logits=bool(model.num_gpu_layers), reached=method.decoded
        )
        self._end_tokens = find_end_tokens(model)
        self._sampler_library = SamplerLibrary(model.library, self.limits.vocab_size, self.limits.sequence_limit)
        try:
            probed = in_passing_thread(
                lambda: probe_reuse(self._decoder, self._memory, state, method, self.limits, model.capabilities)
            )
            wanted = store if probed.save else None
            opened = open_store(
                model, options, wanted, longest=self.limits.sequence_limit, transposed=probed.transposed
            )
        except BaseException:
            self._context.close()
            raise
        self.store, self._saved_runs = opened
        self._reuse_support = probed.support(has_store=self.store is not None)
        self._ops = SequenceOps(self._memory, state, method, self.store)

    @property
    def limits(self) -> BackendLimits:
        """As llama.cpp made them: it rounds cells up and may cap the batch."""
        return self._context.limits

    @property
    def end_tokens(self) -> frozenset[TokenId]:
        """Every token that llama.cpp takes for the end of a generation."""
        return self._end_tokens

    @property
    def reuse_support(self) -> ReuseSupport:
        """What was tried when the backend was built."""
        return self._reuse_support

    def saved_runs(self) -> tuple[SavedRun, ...]:
        """What the store's directory held at the start."""
        return self._saved_runs

    def apply(self, op: KvOp) -> bool:
        """Change the KV memory and look whether it did; a drop is tried twice."""
        return self._ops.apply(op)

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
        return self._decoder.decode(rows)

    def sampler(self, request: Request) -> LlamaSampler:
        """A fresh chain that has seen the request's prompt."""
        return LlamaSampler(self._sampler_library, request, self._end_tokens)

    def set_threads(self, threads: Threads) -> None:
        """Compute with so many threads from the next decode call on.

        llama.cpp starts those that are missing within the next call, and lets go of those that are too many.
        """
        self._context.set_threads(threads)

    def interrupt(self) -> None:
        """Make a running decode call return early; from any thread. The next call starts clean."""
        self._flag.set()

    def close(self) -> None:
        """Wait until saved runs are on disk, and free the context; samplers must be closed before."""
        if self.store is not None:
            self.store.close()
        self._context.close()


def open_store(
    model: LlamaModel, options: ContextOptions, store: HostStoreOptions | None, *, longest: int, transposed: bool | None
) -> tuple[HostStore | None, tuple[SavedRun, ...]]:
    """The store that was asked for, and what it holds already: runs of at most `longest` tokens.

    Raises:
        ConfigError: its directory cannot be used; nothing is changed then.
    """
    if store is None:
        return None, ()
    if store.directory is None:
        return HostStore(store.max_bytes), ()
    fingerprint = fingerprint_of(model, options, values_transposed=transposed, exact=store.exact)
    folder = open_folder(store.directory, fingerprint)
    opened = HostStore(store.max_bytes, folder=folder, max_pending=store.max_pending)
    return opened, opened.adopt(folder.scan(longest))


def _copy_method(options: ContextOptions, memory: SequenceMemory, state: SequenceState) -> CopyMethod:
    if options.unified:
        return MarkedCells(memory)
    return StateCopy(memory, state) if options.copy is CopyChoice.STATE else StreamCopy(memory)
