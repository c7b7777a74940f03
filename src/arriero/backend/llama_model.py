"""LlamaModel: weights and vocabulary of one GGUF file, read-only once loaded.

The process entry loads it, hands it to a backend and to a vocabulary, and closes it after both.
"""

import ctypes
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from arriero.backend.library import LOGGER, Library, load_library
from arriero.core.errors import ModelUnreadable

GGUF_MAGIC: Final = b"GGUF"
MAX_DESCRIPTION: Final = 256
ATTENTION: Final = "attention over all positions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a model is and can do, read when it was loaded.

    Attributes:
        description: llama.cpp's words for architecture, size and weight format.
        num_parameters: weights in all.
        weight_bytes: size of all tensors.
        weight_format: the file's main format, as llama.cpp names it.
        trained_context: tokens of context that it was trained for.
        vocab_size: length of a row of logits.
        num_layers: transformer blocks.
        num_heads: of attention, in each of them.
        trims: whether a tail of a sequence can be taken out of memory again (no recurrent or sliding-window parts).
        memory: the kind of its memory, in words.
    """

    description: str
    num_parameters: int
    weight_bytes: int
    weight_format: str
    trained_context: int
    vocab_size: int
    num_layers: int
    num_heads: int
    trims: bool
    memory: str


class LlamaModel:
    """One loaded file. Reading its vocabulary is allowed from any thread."""

    def __init__(self, path: Path, *, num_gpu_layers: int = 0, mmap: bool | None = None) -> None:
        """Load a file; takes as long as reading it.

        Args:
            path: of a GGUF file.
            num_gpu_layers: below 0 puts all layers there.
            mmap: map the file, or read it; None leaves it to llama.cpp.

        Raises:
            ModelUnreadable: missing, no GGUF, truncated, or of a kind that this llama.cpp does not know.
            BindingMismatch: see `load_library`.
        """
        check_file(path)
        self.path = path
        self.library: Library = load_library()
        self.num_gpu_layers = num_gpu_layers
        self.handle = self._load(num_gpu_layers, mmap)
        self.vocab: int = self.library.short("llama_model_get_vocab")(self.handle)
        self.capabilities = self._read_capabilities()

    def metadata(self, key: str) -> str | None:
        """One value of the file's metadata as text, or None."""
        read = self.library.short("llama_model_meta_val_str")
        size: int = read(self.handle, key.encode(), None, 0)
        if size < 0:
            return None
        buffer = ctypes.create_string_buffer(size + 1)
        read(self.handle, key.encode(), buffer, size + 1)
        return buffer.value.decode(errors="replace")

    def close(self) -> None:
        """Free the weights, after every context and every use of the vocabulary; once."""
        self.library.long("llama_model_free")(self.handle)

    def _load(self, num_gpu_layers: int, mmap: bool | None) -> int:  # noqa: FBT001 - see `__init__`
        parameters = self.library.long("llama_model_default_params")()
        parameters.n_gpu_layers = num_gpu_layers
        if mmap is not None:
            structs = self.library.structs
            parameters.load_mode = structs.LLAMA_LOAD_MODE_MMAP if mmap else structs.LLAMA_LOAD_MODE_NONE
        complaints = _Complaints()
        LOGGER.addHandler(complaints)
        try:
            handle: int | None = self.library.long("llama_model_load_from_file")(str(self.path).encode(), parameters)
        finally:
            LOGGER.removeHandler(complaints)
        if handle is None:
            message = (
                f"--model {self.path}: llama.cpp cannot read this file ({complaints.first or 'no reason given'}); "
                "it may be truncated or damaged: compare its size with the original, or fetch it again"
            )
            raise ModelUnreadable(message)
        return handle

    def _read_capabilities(self) -> Capabilities:
        short = self.library.short
        text = ctypes.create_string_buffer(MAX_DESCRIPTION)
        short("llama_model_desc")(self.handle, text, MAX_DESCRIPTION)
        file_type: int = short("llama_model_ftype")(self.handle)
        format_name: bytes | None = short("llama_ftype_name")(file_type)
        memory = memory_kind(
            recurrent=short("llama_model_is_recurrent")(self.handle),
            hybrid=short("llama_model_is_hybrid")(self.handle),
            window=short("llama_model_n_swa")(self.handle),
        )
        return Capabilities(
            description=text.value.decode(errors="replace"),
            num_parameters=short("llama_model_n_params")(self.handle),
            weight_bytes=short("llama_model_size")(self.handle),
            weight_format=(format_name or b"unknown").decode(),
            trained_context=short("llama_model_n_ctx_train")(self.handle),
            vocab_size=short("llama_vocab_n_tokens")(self.vocab),
            num_layers=short("llama_model_n_layer")(self.handle),
            num_heads=short("llama_model_n_head")(self.handle),
            trims=memory == ATTENTION,
            memory=memory,
        )


def memory_kind(*, recurrent: bool, hybrid: bool, window: int) -> str:
    """What a model remembers of the past, in words."""
    if hybrid:
        return "attention and recurrent layers"
    if recurrent:
        return "recurrent layers"
    return f"a sliding window of {window} positions" if window else ATTENTION


def check_file(path: Path) -> None:
    """Look at the file before llama.cpp does, so that the usual mistakes get a sentence of their own.

    Raises:
        ModelUnreadable: no such file, not allowed to read it, or it does not begin like a GGUF file.
    """
    try:
        with path.open("rb") as file:
            magic = file.read(len(GGUF_MAGIC))
    except FileNotFoundError as problem:
        message = f"--model {path}: there is no such file; give the path of a GGUF file, or smollm2-135m"
        raise ModelUnreadable(message) from problem
    except OSError as problem:
        message = f"--model {path}: cannot be read ({problem.strerror}); give the path of a readable GGUF file"
        raise ModelUnreadable(message) from problem
    if magic != GGUF_MAGIC:
        message = f"--model {path}: this is no GGUF file (it begins with {magic!r}); convert the model to GGUF first"
        raise ModelUnreadable(message)


class _Complaints(logging.Handler):
    """Keeps the first error that llama.cpp logs while it loads."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.first: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message of the first record."""
        if self.first is None:
            self.first = record.getMessage()
