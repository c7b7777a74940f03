"""Contexts: one model, and a fresh backend of any shape for each run of an experiment; on the synthetic backend too.

settings   [model] of a definition
open_model(settings) → source; source.make(shape) → backend, whose owner closes it
"""

import hashlib
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Protocol

import msgspec
from msgspec import Meta

from arriero.backend.attention_choice import choose_attention
from arriero.backend.context import ContextOptions
from arriero.backend.library import BINDING_VERSION, process_start, process_stop
from arriero.backend.llama_cpp import LlamaCppBackend
from arriero.backend.llama_model import LlamaModel
from arriero.backend.models import resolve_model
from arriero.backend.protocol import Backend
from arriero.backend.synthetic import SyntheticBackend, SyntheticOptions
from arriero.backend.vocabulary import LlamaVocabulary
from arriero.core.config import FlashAttention
from arriero.core.ids import Time, TokenId
from arriero.engine.actor import monotonic_us
from arriero.record.strict import Name, Positive
from arriero.tokens.vocabulary import NUM_BYTES, ByteVocabulary, Vocabulary

STREAM_CELLS: Final = 256
"""llama.cpp rounds the cells of a separate stream up to a multiple of this."""

STORY: Final = (
    "Before noon the muleteer had counted his animals three times, and three times there were nine. The tenth had "
    "found a field of clover behind the mill, where nobody would look for it before the bell at its neck began to ring."
)

_HALF_BYTES: Final = 2  # KV is kept in 16 bits
_CHUNK_BYTES: Final = 1 << 20

Seconds = Annotated[float, Meta(ge=0, le=60)]


class ModelSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What computes.

    Attributes:
        backend: llama.cpp, or the formula that needs no model.
        reference: the model, for llama.cpp only.
        flash_attention: off by default, since it makes tokens depend on company.
        micro_batch: rows that llama.cpp computes together.
        call_s, row_s: what a decode call of the synthetic backend takes, and each of its rows.
        virtual_time: the synthetic backend moves a clock of its own instead of waiting; for one backend at a time.
    """

    backend: Literal["llama", "synthetic"] = "llama"
    reference: Name = "smollm2-135m"
    flash_attention: Literal["auto", "on", "off"] = "off"
    micro_batch: Positive = 512
    call_s: Seconds = 0.0
    row_s: Seconds = 0.0
    virtual_time: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextShape:
    """What a run asks of one context.

    Attributes:
        num_sequences: sequence ids.
        positions: what one sequence must be able to hold; rounded up as llama.cpp does.
        num_rows: rows of one decode call.
        threads: compute threads; None takes every CPU.
        unified: one pool of cells, or a stream for each sequence.
    """

    num_sequences: int
    positions: int
    num_rows: int = 512
    threads: int | None = None
    unified: bool = False

    @property
    def cells(self) -> int:
        """Cells in all."""
        return -(-self.positions // STREAM_CELLS) * STREAM_CELLS * self.num_sequences


class ModelSource(Protocol):
    """One loaded model."""

    @property
    def vocabulary(self) -> Vocabulary:
        """Its tokens."""
        ...

    @property
    def cell_bytes(self) -> int | None:
        """Bytes of KV memory for one position of one sequence; None if there is no such memory."""
        ...

    @property
    def clock(self) -> Callable[[], Time]:
        """What time it is where this source's backends compute; whole microseconds."""
        ...

    def facts(self) -> dict[str, Any]:
        """What it is, as JSON can hold it; no absolute path."""
        ...

    def make(self, shape: ContextShape) -> Backend:
        """A fresh backend, whose owner closes it before the source."""
        ...


class LlamaSource:
    """Contexts of one loaded model, which must outlive them."""

    def __init__(self, model: LlamaModel, settings: ModelSettings) -> None:
        """The model stays its owner's."""
        self._model = model
        self._settings = settings
        self.vocabulary = LlamaVocabulary(model)
        self.clock: Callable[[], Time] = monotonic_us

    @property
    def cell_bytes(self) -> int | None:
        """From the model's shape: keys and values of all layers, 16 bits each; None if the file does not say it."""
        read = self._model.metadata
        family = read("general.architecture")
        heads, kv_heads, width = (
            _whole(read(f"{family}.{name}"))
            for name in ("attention.head_count", "attention.head_count_kv", "embedding_length")
        )
        if not heads or not width:
            return None
        key = _whole(read(f"{family}.attention.key_length")) or width // heads
        value = _whole(read(f"{family}.attention.value_length")) or width // heads
        return self._model.capabilities.num_layers * (kv_heads or heads) * (key + value) * _HALF_BYTES

    def facts(self) -> dict[str, Any]:
        """The file by name, size and hash, and the binding."""
        can = self._model.capabilities
        return {
            "backend": "llama",
            "model_file": self._model.path.name,
            "model_bytes": self._model.path.stat().st_size,
            "model_sha256": file_sha256(self._model.path),
            "model": can.description,
            "weight_format": can.weight_format,
            "flash_attention": self._settings.flash_attention,
            "library": f"llama-cpp-python {BINDING_VERSION}",
            "kv_bytes_per_cell": self.cell_bytes,
        }

    def make(self, shape: ContextShape) -> LlamaCppBackend:
        """A fresh context."""
        options = ContextOptions(
            ctx_size=shape.cells,
            num_sequences=shape.num_sequences,
            num_rows=shape.num_rows,
            micro_batch=self._settings.micro_batch,
            num_threads=shape.threads,
            unified=shape.unified,
            flash_attention=FlashAttention(self._settings.flash_attention),
        )
        return LlamaCppBackend(self._model, choose_attention(self._model, options).options)  # as a server does


class SyntheticSource:
    """Backends without a model, which say bytes and never end by themselves."""

    def __init__(self, settings: ModelSettings) -> None:
        """With `virtual_time` all of its backends share one clock."""
        self._settings = settings
        self._virtual = VirtualClock() if settings.virtual_time else None
        self.vocabulary = ByteVocabulary()
        self.cell_bytes: int | None = None
        self.clock: Callable[[], Time] = self._virtual or monotonic_us

    def facts(self) -> dict[str, Any]:
        """That there is no model."""
        settings = self._settings
        return {
            "backend": "synthetic",
            "call_s": settings.call_s,
            "row_s": settings.row_s,
            "virtual_time": settings.virtual_time,
        }

    def make(self, shape: ContextShape) -> SyntheticBackend:
        """A fresh one."""
        options = SyntheticOptions(
            num_sequences=shape.num_sequences,
            num_rows=shape.num_rows,
            micro_batch=self._settings.micro_batch,
            num_cells=shape.cells,
            unified=shape.unified,
            vocab_size=self.vocabulary.size,
            end_tokens=self.vocabulary.end_tokens,
            speaks=tuple(range(NUM_BYTES)),
            base_s=self._settings.call_s,
            per_row_s=self._settings.row_s,
        )
        return SyntheticBackend(options, pause=threading.Event.wait if self._virtual is None else self._virtual.pause)


class VirtualClock:
    """A clock that only the pauses of a backend move; one backend computes at a time."""

    def __init__(self) -> None:
        """Start at 0."""
        self._now = 0

    def __call__(self) -> int:
        """Whole microseconds."""
        return self._now

    def pause(self, stop: threading.Event, seconds: float) -> bool:
        """Let time pass; whether the call was told to stop."""
        self._now += round(seconds * 1_000_000)
        return stop.is_set()


@contextmanager
def open_model(settings: ModelSettings) -> Generator[ModelSource]:
    """Load what the settings name, once, for as many contexts as are asked for.

    Raises:
        ConfigError: the model cannot be read, or the binding does not fit.
    """
    if settings.backend == "synthetic":
        yield SyntheticSource(settings)
        return
    process_start()
    try:
        model = LlamaModel(resolve_model(settings.reference))
        try:
            yield LlamaSource(model, settings)
        finally:
            model.close()
    finally:
        process_stop()


def story_tokens(vocabulary: Vocabulary, length: int, start: int = 0) -> tuple[TokenId, ...]:
    """A prompt of exactly so many tokens; another `start` gives another content."""
    story = vocabulary.encode(STORY, add_special=False, parse_special=False)
    return tuple(story[(start + i) % len(story)] for i in range(length))


def file_sha256(path: Path) -> str:
    """The hash of a file's bytes, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None
