"""A model file and llama.cpp; apart from the rest, so that nothing else needs the binding."""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from arriero.backend.attention_choice import AttentionChoice, choose_attention
from arriero.backend.canonical_rows import CanonicalRows, open_canonical
from arriero.backend.context import ContextOptions
from arriero.backend.host_store import HostStoreOptions
from arriero.backend.library import BINDING_VERSION, LOGGER, process_start, process_stop
from arriero.backend.llama_cpp import LlamaCppBackend
from arriero.backend.llama_model import LlamaModel
from arriero.backend.models import resolve_model
from arriero.backend.protocol import Backend
from arriero.backend.vocabulary import LlamaVocabulary
from arriero.cli.loading import LoadedModel, model_name, settle_threads
from arriero.core.config import FlashAttention, KvLayout, ServeConfig
from arriero.engine.exact_check import ExactShapes, open_exact
from arriero.tokens.chat_template import ChatTemplate


def load_llama(config: ServeConfig) -> LoadedModel:
    """Start llama.cpp, load the model file, make a context; in exact mode prove that it is exact.

    Raises:
        ConfigError: see `load_model`.
    """
    process_start()
    path = resolve_model(config.model)
    with _complaints_kept():
        model = LlamaModel(path, num_gpu_layers=config.n_gpu_layers)
    asked, store = context_options(config), store_options(config)
    # saved runs fit one way of attention only, and what is tried may come out differently at the next start
    choice = choose_attention(model, asked) if config.cache_dir is None else AttentionChoice(asked)
    options = choice.options
    can = model.capabilities
    facts = {
        "file": str(path),
        "architecture": can.description.partition(" ")[0],
        "parameters": f"{can.num_parameters / 1e6:,.1f} million",
        "weights": f"{can.weight_bytes / 2**20:,.1f} MiB, {can.weight_format}",
        "trained for": f"{can.trained_context:,} tokens of context",
    }
    if choice.fused_s is not None and choice.unfused_s is not None:
        word = "fused" if options.flash_attention is FlashAttention.ON else "unfused"
        facts["attention"] = f"{word}; tried here: {choice.fused_s:.1f} s fused, {choice.unfused_s:.1f} s unfused"
    if config.exact:
        shapes = ExactShapes(caps=(config.prefill_rows_per_seq, config.prefill_rows_per_step), reuses=config.reuse)
        exact = open_exact(lambda multiple: open_canonical(model, options, multiple, store), shapes)
        backend: Backend = exact.backend
        rows = "" if exact.multiple == 1 else f", with rows in multiples of {exact.multiple}"
        facts["exact mode"] = f"proven for {exact.proof.num_shapes} shapes{rows}"
    else:
        backend = LlamaCppBackend(model, options, store)
    vocabulary = LlamaVocabulary(model)

    def close() -> None:
        backend.close()
        model.close()
        process_stop()

    return LoadedModel(
        name=config.alias or model_name(config.model),
        backend=backend,
        vocabulary=vocabulary,
        template=ChatTemplate(vocabulary.chat_template, vocabulary),
        library=f"llama-cpp-python {BINDING_VERSION}",
        facts=facts,
        close=close,
        store=backend.store if isinstance(backend, LlamaCppBackend | CanonicalRows) else None,
    )


def context_options(config: ServeConfig) -> ContextOptions:
    """The context that a configuration asks for."""
    threads = settle_threads(config)
    return ContextOptions(
        ctx_size=config.ctx_size,
        num_sequences=config.sequence_ids,
        num_rows=config.batch,
        micro_batch=config.micro_batch,
        num_threads=threads.decode,
        num_threads_batch=threads.prefill,
        unified=config.kv is KvLayout.UNIFIED,
        flash_attention=config.flash_attn,
        kv_type=config.kv_type,
    )


def store_options(config: ServeConfig) -> HostStoreOptions | None:
    """The store outside the context that a configuration asks for; None: runs that have to leave are lost."""
    if not config.host_mib:
        return None
    directory = None if config.cache_dir is None else Path(config.cache_dir)
    return HostStoreOptions(max_bytes=config.host_mib << 20, directory=directory, exact=config.exact)


@contextmanager
def _complaints_kept() -> Generator[None]:
    """Keep what llama.cpp says about a file out of the log: the error that names the flag repeats the reason."""
    before, LOGGER.propagate = LOGGER.propagate, LOGGER.isEnabledFor(logging.DEBUG)
    try:
        yield
    finally:
        LOGGER.propagate = before
