"""Backends: one loaded model, and a fresh context of any shape for each run."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from arriero.backend.canonical_rows import open_canonical
from arriero.backend.context import ContextOptions
from arriero.backend.host_store import HostStoreOptions
from arriero.backend.library import process_start, process_stop
from arriero.backend.llama_cpp import LlamaCppBackend
from arriero.backend.llama_model import LlamaModel
from arriero.backend.models import resolve_model
from arriero.backend.protocol import Backend
from arriero.backend.synthetic import SyntheticBackend, SyntheticOptions
from arriero.backend.synthetic_memory import SyntheticStore
from arriero.backend.vocabulary import LlamaVocabulary
from arriero.core.config import BackendKind, FlashAttention, KvLayout, ServeConfig
from arriero.engine.exact_check import ExactShapes, open_exact
from arriero.tokens.vocabulary import NUM_BYTES, ByteVocabulary, Vocabulary

STREAM_CELLS: Final = 256
"""llama.cpp rounds the cells of a separate stream up to a multiple of this."""

STORE_BYTES: Final = 1 << 30
"""Room of a host store: the rules of reuse, which count tokens, bound it long before."""

PROOF_SEQUENCES: Final = 12
PROOF_CELLS: Final = 768


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a run asks of a backend.

    Attributes:
        num_sequences: slots.
        positions: what one sequence must be able to hold, at least.
        num_rows: rows of one decode call; None takes the configured batch.
        preloaded_rows: prompt rows that come in one batch; where the configured one is too small, it is enlarged.
        exact: memory in which a request's bits need not depend on its company.
        as_configured: layout, attention and size exactly as configured, whatever that means for the tokens.
        threads: compute threads, where several contexts compute at once; None takes the configured ones.
        layout: the KV layout; None takes the configured one. Exact memory is separate in any case.
        cells: of one sequence, exactly so many before rounding; None: its share of the configured context, at least
            `positions`.
        host_tokens: room of a host store, in tokens; 0: there is none.
    """

    num_sequences: int
    positions: int
    num_rows: int | None = None
    preloaded_rows: int = 0
    exact: bool = False
    as_configured: bool = False
    threads: int | None = None
    layout: KvLayout | None = None
    cells: int | None = None
    host_tokens: int = 0

    def is_unified(self, config: ServeConfig) -> bool:
        """Whether all sequences share one pool."""
        return not self.exact and (config.kv if self.layout is None else self.layout) is KvLayout.UNIFIED


class Backends(Protocol):
    """Makes backends over one model."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The model's tokens."""
        ...

    def make(self, shape: Shape) -> Backend:
        """A fresh backend, whose owner closes it."""
        ...


class LlamaBackends:
    """Contexts of one loaded model, which must outlive them."""

    def __init__(self, model: LlamaModel, config: ServeConfig) -> None:
        """`config` gives threads, batch, layout, and the context's share of one sequence."""
        self._model = model
        self._config = config
        self._vocabulary = LlamaVocabulary(model)
        self._multiple: int | None = None

    @property
    def vocabulary(self) -> LlamaVocabulary:
        """The model's tokens."""
        return self._vocabulary

    def make(self, shape: Shape) -> Backend:
        """A fresh context; flash attention is off unless it is asked for, since it makes tokens depend on company.

        Exact memory computes the multiple of rows with which this model's weights pass the self-test.
        """
        store = HostStoreOptions(max_bytes=STORE_BYTES, exact=shape.exact) if shape.host_tokens else None
        options = self._options(shape)
        if shape.exact:
            return open_canonical(self._model, options, self._proven_multiple(), store)
        return LlamaCppBackend(self._model, options, store)

    def _options(self, shape: Shape) -> ContextOptions:
        config, threads = self._config, self._config.threads
        flash = config.flash_attn
        if shape.exact or (flash is FlashAttention.AUTO and not shape.as_configured):
            flash = FlashAttention.OFF
        return ContextOptions(
            ctx_size=config.ctx_size if shape.as_configured else _cells(shape, config) * shape.num_sequences,
            num_sequences=shape.num_sequences,
            num_rows=_rows(shape, config),
            micro_batch=config.micro_batch,
            num_threads=shape.threads or (None if threads is None else threads.decode),
            num_threads_batch=shape.threads or (None if threads is None else threads.prefill),
            unified=shape.is_unified(config),
            flash_attention=flash,
        )

    def _proven_multiple(self) -> int:
        """Proven once for the model, on a context of its own."""
        if self._multiple is None:
            options = self._options(Shape(num_sequences=PROOF_SEQUENCES, positions=1, cells=PROOF_CELLS, exact=True))
            store = HostStoreOptions(max_bytes=STORE_BYTES, exact=True)
            proven = open_exact(lambda rows: open_canonical(self._model, options, rows, store), ExactShapes())
            proven.backend.close()
            self._multiple = proven.multiple
        return self._multiple


class SyntheticBackends:
    """Backends without a model, which say bytes and never end by themselves."""

    def __init__(self, config: ServeConfig, *, step_s: float = 0.0) -> None:
        """`step_s` is how long each decode call takes."""
        self._config = config
        self._step_s = step_s
        self._vocabulary = ByteVocabulary()

    @property
    def vocabulary(self) -> ByteVocabulary:
        """One token a byte."""
        return self._vocabulary

    def make(self, shape: Shape) -> SyntheticBackend:
        """A fresh one."""
        config = self._config
        num_cells = config.ctx_size if shape.as_configured else _cells(shape, config) * shape.num_sequences
        options = SyntheticOptions(
            num_sequences=shape.num_sequences,
            num_rows=_rows(shape, config),
            micro_batch=config.micro_batch,
            num_cells=num_cells,
            unified=shape.is_unified(config),
            vocab_size=self._vocabulary.size,
            end_tokens=self._vocabulary.end_tokens,
            speaks=tuple(range(NUM_BYTES)),
            base_s=self._step_s,
        )
        return SyntheticBackend(options, store=SyntheticStore() if shape.host_tokens else None)


def _cells(shape: Shape, config: ServeConfig) -> int:
    """Cells of one sequence: its share of the configured context, or what the run needs if that is more."""
    cells = max(shape.positions, config.ctx_size // config.sequences) if shape.cells is None else shape.cells
    return -(-cells // STREAM_CELLS) * STREAM_CELLS


def _rows(shape: Shape, config: ServeConfig) -> int:
    return max(config.batch, shape.preloaded_rows) if shape.num_rows is None else shape.num_rows


@contextmanager
def open_backends(config: ServeConfig) -> Generator[Backends]:
    """Load what the configuration names, once, for as many backends as are asked for.

    Raises:
        ConfigError: the model cannot be read, or the binding does not fit.
    """
    if config.backend is BackendKind.SYNTHETIC:
        yield SyntheticBackends(config)
        return
    process_start()
    try:
        model = LlamaModel(resolve_model(config.model), num_gpu_layers=config.n_gpu_layers)
        try:
            yield LlamaBackends(model, config)
        finally:
            model.close()
    finally:
        process_stop()
