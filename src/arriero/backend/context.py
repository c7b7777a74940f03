"""A llama.cpp context: the options it is made from, and the limits that it then really has.

llama.cpp rounds: each separate stream holds a multiple of 256 cells, a pool too, and a batch is never larger than the
context. So limits are read back after the context was made, never computed here.
"""

import os
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from arriero.backend.graph_hooks import GraphHooks
from arriero.backend.interrupt import InterruptFlag
from arriero.backend.library import Library
from arriero.backend.llama_model import LlamaModel
from arriero.backend.protocol import BackendLimits
from arriero.backend.work_buffer import align_work_buffers
from arriero.core.config import FlashAttention, KvType
from arriero.core.errors import ConfigError
from arriero.core.option_kinds import Threads

GGML_TYPES: Final = MappingProxyType({KvType.F32: 0, KvType.F16: 1, KvType.Q4_0: 2, KvType.Q8_0: 8, KvType.BF16: 30})
QUANTISED: Final = (KvType.Q4_0, KvType.Q8_0)


class CopyChoice(StrEnum):
    """How a sequence is copied where each has a stream of its own; a pool only marks cells."""

    STATE = "state"  # through host memory, what is in use
    STREAM = "stream"  # inside llama.cpp, the whole stream


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextOptions:
    """How a context is made.

    Attributes:
        ctx_size: cells in all, over all sequences; llama.cpp rounds up.
        num_sequences: sequence ids.
        num_rows: rows of one decode call.
        micro_batch: rows computed together; at most `num_rows` of them are used.
        num_threads: for micro-batches of one row; None takes every CPU that this process may use.
        num_threads_batch: for all others; None takes `num_threads`.
        unified: one pool of cells for all sequences, or one stream for each.
        flash_attention: fused attention.
        kv_type: how keys and values are stored.
        copy: how sequences are copied without `unified`.
        num_outputs: rows of logits in one decode call; None takes one for each sequence.
        align_work: the CPU backend's work buffer begins at a page, in this context and all later ones of the process.
    """

    ctx_size: int = 4096
    num_sequences: int = 4
    num_rows: int = 1024
    micro_batch: int = 512
    num_threads: int | None = None
    num_threads_batch: int | None = None
    unified: bool = False
    flash_attention: FlashAttention = FlashAttention.AUTO
    kv_type: KvType = KvType.F16
    copy: CopyChoice = CopyChoice.STATE
    num_outputs: int | None = None
    align_work: bool = True


@dataclass(frozen=True, slots=True)
class OpenContext:
    """A context that was made, with what belongs to it; plain numbers are llama.cpp's pointers."""

    library: Library
    handle: int
    memory: int
    limits: BackendLimits

    def set_threads(self, threads: Threads) -> None:
        """Let the next decode call be computed by so many; between two calls."""
        self.library.short("llama_set_n_threads")(self.handle, threads.decode, threads.prefill)

    def close(self) -> None:
        """Free it; once."""
        self.library.long("llama_free")(self.handle)


def open_context(
    model: LlamaModel, options: ContextOptions, flag: InterruptFlag, hooks: GraphHooks | None = None
) -> OpenContext:
    """Make a context that `flag` can interrupt, or whose graphs `hooks` watch; they must live as long.

    Raises:
        ConfigError: see `check_options`; or llama.cpp refuses, for want of memory as a rule.
    """
    library = model.library
    max_sequences: int = library.short("llama_max_parallel_sequences")()
    check_options(options, max_sequences=max_sequences, trained_context=model.capabilities.trained_context)
    if options.align_work:
        align_work_buffers()
    structs = library.structs
    parameters = library.long("llama_context_default_params")()
    parameters.n_ctx = options.ctx_size
    parameters.n_seq_max = options.num_sequences
    parameters.n_batch = options.num_rows
    parameters.n_ubatch = min(options.micro_batch, options.num_rows)
    # a row of logits for each sequence; llama.cpp's own default, one for each token, takes much memory
    parameters.n_outputs_max = options.num_outputs or options.num_sequences
    parameters.n_threads = options.num_threads or available_cpus()
    parameters.n_threads_batch = options.num_threads_batch or parameters.n_threads
    parameters.kv_unified = options.unified
    parameters.flash_attn_type = {
        FlashAttention.AUTO: structs.LLAMA_FLASH_ATTN_TYPE_AUTO,
        FlashAttention.ON: structs.LLAMA_FLASH_ATTN_TYPE_ENABLED,
        FlashAttention.OFF: structs.LLAMA_FLASH_ATTN_TYPE_DISABLED,
    }[options.flash_attention]
    parameters.type_k = parameters.type_v = GGML_TYPES[options.kv_type]
    parameters.abort_callback = flag.callback(structs.ggml_abort_callback)
    parameters.abort_callback_data = flag.data
    if hooks is not None:
        hooks.install(parameters, structs)
    handle: int | None = library.long("llama_init_from_model")(model.handle, parameters)
    if handle is None:
        message = (
            f"llama.cpp cannot make a context of --ctx-size {options.ctx_size} for --sequences "
            f"{options.num_sequences}: memory may not suffice; lower --ctx-size, --batch or --micro-batch"
        )
        raise ConfigError(message)
    limits = _read_limits(model, handle, options)
    return OpenContext(library, handle, library.short("llama_get_memory")(handle), limits)


def check_options(options: ContextOptions, *, max_sequences: int, trained_context: int) -> None:
    """Refuse what cannot work, naming the flag and the remedy.

    Raises:
        ConfigError: for the first rule that is broken.
    """
    num_sequences, num_rows, cells = options.num_sequences, options.num_rows, options.ctx_size
    threads = (options.num_threads, options.num_threads_batch)
    too_many = f"--sequences {num_sequences} is more than the {max_sequences} that one context can hold; lower it"
    too_few_rows = f"--sequences {num_sequences} is more than --batch {num_rows}: lower --sequences or raise --batch"
    too_few_cells = (
        f"--ctx-size {cells} is too small: not one token for each of --sequences {num_sequences}; "
        "raise --ctx-size or lower --sequences"
    )
    too_many_cells = (
        f"--ctx-size {cells} is more than the {trained_context} tokens that the model was trained for, for each of "
        f"--sequences {num_sequences}: the rest could never be used; lower --ctx-size"
    )
    no_fused = (
        f"--kv-type {options.kv_type} needs flash attention: take --flash-attn on or auto, or --kv-type {KvType.F16}"
    )
    rules: Final = (
        (num_sequences >= 1, f"--sequences must be at least 1, not {num_sequences}"),
        (num_sequences <= max_sequences, too_many),
        (num_rows >= 1, f"--batch must be at least 1, not {num_rows}"),
        (options.micro_batch >= 1, f"--micro-batch must be at least 1, not {options.micro_batch}"),
        (num_sequences <= num_rows, too_few_rows),
        (cells >= num_sequences, too_few_cells),
        (cells <= num_sequences * trained_context, too_many_cells),
        (all(each is None or each >= 1 for each in threads), "--threads must be at least 1"),
        (options.kv_type not in QUANTISED or options.flash_attention is not FlashAttention.OFF, no_fused),
    )
    for good, message in rules:
        if not good:
            raise ConfigError(message)


def available_cpus() -> int:
    """CPUs that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _read_limits(model: LlamaModel, handle: int, options: ContextOptions) -> BackendLimits:
    short = model.library.short
    has_tiles = options.flash_attention is not FlashAttention.OFF and options.kv_type not in QUANTISED
    stream: int = short("llama_n_ctx_seq")(handle)
    return BackendLimits(
        num_sequences=short("llama_n_seq_max")(handle),
        num_rows=short("llama_n_batch")(handle),
        micro_batch=short("llama_n_ubatch")(handle),
        num_cells=short("llama_n_ctx")(handle),
        # beyond what it was trained for a model talks nonsense
        sequence_limit=min(stream, model.capabilities.trained_context),
        unified=options.unified,
        vocab_size=model.capabilities.vocab_size,
        tiled_heads=model.capabilities.num_heads if has_tiles else 0,
    )
