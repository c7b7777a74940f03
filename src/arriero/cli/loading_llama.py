"""A model file and llama.cpp; apart from the rest, so that nothing else needs the binding."""

import logging
from collections.abc import Generator
from contextlib import contextmanager

from arriero.backend.context import ContextOptions
from arriero.backend.library import BINDING_VERSION, LOGGER, process_start, process_stop
from arriero.backend.llama_cpp import LlamaCppBackend
from arriero.backend.llama_model import LlamaModel
from arriero.backend.models import resolve_model
from arriero.backend.vocabulary import LlamaVocabulary
from arriero.cli.loading import LoadedModel, model_name, settle_threads
from arriero.core.config import KvLayout, ServeConfig
from arriero.tokens.chat_template import ChatTemplate


def load_llama(config: ServeConfig) -> LoadedModel:
    """Start llama.cpp, load the model file, make a context.

    Raises:
        ConfigError: see `load_model`.
    """
    process_start()
    path = resolve_model(config.model)
    with _complaints_kept():
        model = LlamaModel(path, num_gpu_layers=config.n_gpu_layers)
    threads = settle_threads(config)
    backend = LlamaCppBackend(
        model,
        ContextOptions(
            ctx_size=config.ctx_size,
            num_sequences=config.sequences,
            num_rows=config.batch,
            micro_batch=config.micro_batch,
            num_threads=threads.decode,
            num_threads_batch=threads.prefill,
            unified=config.kv is KvLayout.UNIFIED,
            flash_attention=config.flash_attn,
        ),
    )
    vocabulary = LlamaVocabulary(model)
    can = model.capabilities
    facts = {
        "file": str(path),
        "architecture": can.description.partition(" ")[0],
        "parameters": f"{can.num_parameters / 1e6:,.1f} million",
        "weights": f"{can.weight_bytes / 2**20:,.1f} MiB, {can.weight_format}",
        "trained for": f"{can.trained_context:,} tokens of context",
    }

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
    )


@contextmanager
def _complaints_kept() -> Generator[None]:
    """Keep what llama.cpp says about a file out of the log: the error that names the flag repeats the reason."""
    before, LOGGER.propagate = LOGGER.propagate, LOGGER.isEnabledFor(logging.DEBUG)
    try:
        yield
    finally:
        LOGGER.propagate = before
