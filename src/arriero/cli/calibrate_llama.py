"""Contexts of one model, one for each number of threads; apart from the rest, as only this needs the binding."""

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Final

from arriero.backend.attention_choice import choose_attention
from arriero.backend.attention_trials import BOUNDED, CHAT
from arriero.backend.host_store import HostStoreOptions
from arriero.backend.library import BINDING_VERSION, process_start, process_stop
from arriero.backend.llama_cpp import LlamaCppBackend
from arriero.backend.llama_model import LlamaModel
from arriero.backend.models import resolve_model
from arriero.backend.protocol import Backend
from arriero.cli.calibrate_backends import Opened
from arriero.cli.loading import model_name
from arriero.cli.loading_llama import context_options, fingerprint_of_model
from arriero.cli.progress import Progress
from arriero.core.config import ServeConfig

FILLING_BYTES: Final = 4 << 30
"""Room for the fillings of one sequence that are kept outside the context; they take what they need."""


@contextmanager
def open_backends(config: ServeConfig, counts: Sequence[int]) -> Generator[Opened]:
    """Load the model once and make the contexts.

    Raises:
        ConfigError: the model cannot be read, the binding does not fit, or memory does not suffice.
    """
    process_start()
    with ExitStack() as stack:
        stack.callback(process_stop)
        with Progress(f"loading {model_name(config.model)}"):
            model = LlamaModel(resolve_model(config.model), num_gpu_layers=config.n_gpu_layers)
        stack.callback(model.close)
        trial = CHAT if config.itl_target is None else BOUNDED
        options = choose_attention(model, context_options(config), trial).options
        store = HostStoreOptions(max_bytes=FILLING_BYTES)
        backends: dict[int, Backend] = {}
        for number in counts:
            with_threads = replace(options, num_threads=number, num_threads_batch=number)
            backends[number] = LlamaCppBackend(model, with_threads, store)
            stack.callback(backends[number].close)
        yield Opened(
            name=model_name(config.model),
            backends=backends,
            library=f"llama-cpp-python {BINDING_VERSION}",
            fingerprint=fingerprint_of_model(model, config, options.flash_attention),
        )
