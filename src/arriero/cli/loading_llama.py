"""A model file and llama.cpp; apart from the rest, so that nothing else needs the binding."""

import logging
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from arriero.backend.attention_choice import AttentionChoice, choose_attention, is_open, settled
from arriero.backend.canonical_rows import CanonicalRows, open_canonical
from arriero.backend.context import ContextOptions
from arriero.backend.cpu_features import features_of_build
from arriero.backend.fingerprint import sample_digest
from arriero.backend.host_store import HostStoreOptions
from arriero.backend.library import BINDING_VERSION, LOGGER, Library, process_start, process_stop
from arriero.backend.llama_cpp import LlamaCppBackend
from arriero.backend.llama_model import LlamaModel
from arriero.backend.models import resolve_model
from arriero.backend.protocol import Backend
from arriero.backend.vocabulary import LlamaVocabulary
from arriero.cli.cost_profiles import FoundProfile, find_profile, kept_folder, use_profile
from arriero.cli.fingerprints import ATTENTION, context_words, machine_words
from arriero.cli.loading import LoadedModel, model_name, settle_threads
from arriero.core.config import FlashAttention, KvLayout, ServeConfig
from arriero.core.option_kinds import Threads
from arriero.engine.exact_check import ExactShapes, open_exact
from arriero.record.cost_profile import Fingerprint
from arriero.tokens.chat_template import ChatTemplate

logger = logging.getLogger(__name__)


def load_llama(config: ServeConfig, advised: Threads | None = None) -> LoadedModel:
    """Start llama.cpp, load the model file, make a context; in exact mode prove that it is exact.

    Args:
        config: what holds.
        advised: see `load_model`.

    Raises:
        ConfigError: see `load_model`.
    """
    process_start()
    path = resolve_model(config.model)
    with _complaints_kept():
        model = LlamaModel(path, num_gpu_layers=config.n_gpu_layers)
    config, (choice, found) = settle_advised(model, config, advised)
    options, store = choice.options, store_options(config)
    facts = _facts(path, model, choice)
    if config.exact:
        shapes = exact_shapes(config, found)
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
        threads=settle_threads(config),
        close=close,
        store=backend.store if isinstance(backend, LlamaCppBackend | CanonicalRows) else None,
        profile=use_profile(found, config, settle_threads(config), backend.limits),
    )


class SettledContext(NamedTuple):
    """What was open before the model was loaded.

    Attributes:
        choice: the options to open a context with.
        found: the cost profile that holds for it, or None.
    """

    choice: AttentionChoice
    found: FoundProfile | None


def settle_context(model: LlamaModel, config: ServeConfig) -> SettledContext:
    """Which attention computes, and which cost profile holds for it.

    Where attention is open, a profile says for which one its costs are, so nothing has to be tried.

    Raises:
        ConfigError, DataError: see `find_profile`.
    """
    asked = context_options(config)
    # saved runs fit one way of attention only, and what is tried may come out differently at the next start
    is_tried = is_open(model, asked) and config.cache_dir is None
    kinds = [asked.flash_attention]
    if is_tried:
        kinds = [FlashAttention.ON, FlashAttention.OFF]
    elif is_open(model, asked):
        kinds.append(FlashAttention.ON)  # as llama.cpp itself settles it on a CPU
    candidates = [fingerprint_of_model(model, config, kind) for kind in kinds]
    found = find_profile(config, model_name(config.model), candidates, kept_folder(os.environ))
    if not is_tried:
        return SettledContext(AttentionChoice(asked), found)
    if found is None:
        return SettledContext(choose_attention(model, asked), None)
    attention = FlashAttention(found.fingerprint.context[ATTENTION])
    return SettledContext(AttentionChoice(settled(asked, attention)), found)


class SettledStart(NamedTuple):
    """The configuration with the thread counts that it takes, and the context for it."""

    config: ServeConfig
    context: SettledContext


def settle_advised(model: LlamaModel, config: ServeConfig, advised: Threads | None) -> SettledStart:
    """Take advised thread counts where none are given, unless a cost profile would be lost by it.

    A profile predicts only numbers of threads that it was calibrated for, and a server that has one needs it more.

    Raises:
        ConfigError, DataError: see `find_profile`.
    """
    if advised is None or config.threads is not None:
        return SettledStart(config, settle_context(model, config))
    taken = replace(config, threads=advised)
    settled_context = settle_context(model, taken)
    found = settled_context.found
    if found is None or {advised.decode, advised.prefill} <= {each.threads for each in found.profile.passes}:
        return SettledStart(taken, settled_context)
    logger.warning("the recommended %s threads are not used: the cost profile %s has none of them", advised, found.path)
    return SettledStart(config, settle_context(model, config))


def machine_of(library: Library) -> dict[str, str]:
    """What makes this machine with this build as fast as it is."""
    return {
        **machine_words(),
        "library": f"llama-cpp-python {BINDING_VERSION}",
        "instruction sets": " ".join(sorted(features_of_build(library.system_info()))),
    }


def fingerprint_of_model(model: LlamaModel, config: ServeConfig, attention: FlashAttention) -> Fingerprint:
    """What has to be equal for the costs of a model to hold; reads about 2 MiB of its file."""
    can = model.capabilities
    return Fingerprint(
        machine=machine_of(model.library),
        model={
            "description": can.description,
            "parameters": str(can.num_parameters),
            "weights": f"{can.weight_format}, {can.weight_bytes} bytes, {sample_digest(model.path)}",
        },
        context=context_words(config, attention),
    )


def exact_shapes(config: ServeConfig, found: FoundProfile | None) -> ExactShapes:
    """What exact mode has to be proven for; other numbers of threads only where they will come."""
    caps = (config.prefill_rows_per_seq, config.prefill_rows_per_step)
    threads = settle_threads(config)
    most = max(threads.decode, threads.prefill)
    numbers = [] if found is None or not config.adapt_threads else [each.threads for each in found.profile.passes]
    return ExactShapes(
        caps=caps,
        reuses=config.reuse or config.swap_mib > 0,
        threads=tuple(sorted(number for number in numbers if number <= most)),
    )


def _facts(path: Path, model: LlamaModel, choice: AttentionChoice) -> dict[str, str]:
    can = model.capabilities
    facts = {
        "file": str(path),
        "architecture": can.description.partition(" ")[0],
        "parameters": f"{can.num_parameters / 1e6:,.1f} million",
        "weights": f"{can.weight_bytes / 2**20:,.1f} MiB, {can.weight_format}",
        "trained for": f"{can.trained_context:,} tokens of context",
    }
    if choice.fused_s is not None and choice.unfused_s is not None:
        word = "fused" if choice.options.flash_attention is FlashAttention.ON else "unfused"
        facts["attention"] = f"{word}; tried here: {choice.fused_s:.1f} s fused, {choice.unfused_s:.1f} s unfused"
    return facts


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
        align_work=config.align_work,
    )


def store_options(config: ServeConfig) -> HostStoreOptions | None:
    """The store outside the context that a configuration asks for; None: what has to leave is lost.

    Where no runs are kept there, it has room for what preempted requests have computed, and takes it when they come.
    """
    room_mib = max(config.host_mib, config.swap_mib)
    if not room_mib:
        return None
    directory = None if config.cache_dir is None else Path(config.cache_dir)
    return HostStoreOptions(max_bytes=room_mib << 20, directory=directory, exact=config.exact)


@contextmanager
def _complaints_kept() -> Generator[None]:
    """Keep what llama.cpp says about a file out of the log: the error that names the flag repeats the reason."""
    before, LOGGER.propagate = LOGGER.propagate, LOGGER.isEnabledFor(logging.DEBUG)
    try:
        yield
    finally:
        LOGGER.propagate = before
