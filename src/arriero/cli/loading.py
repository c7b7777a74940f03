"""From a configuration to something that computes: a backend, its vocabulary, its chat template.

The process entry loads and closes; engines only borrow.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import PurePath
from typing import Final

from arriero.backend.protocol import Backend
from arriero.backend.synthetic import SyntheticBackend, SyntheticOptions
from arriero.cli.machine import available_cores
from arriero.core.config import BackendKind, KvLayout, PlacementKind, ServeConfig
from arriero.core.ids import TokenId
from arriero.core.option_kinds import Threads
from arriero.engine.options import EngineOptions
from arriero.engine.placement import Dedicated, Placement, Shared
from arriero.scheduler.draft import PrefillBudget
from arriero.tokens.chat_template import ChatTemplate
from arriero.tokens.vocabulary import ByteVocabulary, Vocabulary

# A small model on a small CPU, so that a demonstration without a model feels like one with it.
SYNTHETIC_STEP_S: Final = 0.004
SYNTHETIC_ROW_S: Final = 0.000_5
PRINTABLE: Final = tuple(TokenId(byte) for byte in range(32, 127))


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """What computes, and what it is.

    Attributes:
        name: what clients call it.
        library: what computes, with its version.
        facts: what a person wants to know about it, as words and figures.
        close: frees everything; once, after every engine on it has ended.
    """

    name: str
    backend: Backend
    vocabulary: Vocabulary
    template: ChatTemplate
    library: str
    facts: dict[str, str]
    close: Callable[[], None]


def settle_threads(config: ServeConfig) -> Threads:
    """The thread counts that are used: those given, else the cores that the process or the pinned engine may use."""
    cores = len(set(config.engine_cpus)) or available_cores()
    return config.threads or Threads(cores, cores)


def load_model(config: ServeConfig) -> LoadedModel:
    """Load what the configuration names.

    Raises:
        ConfigError: the model cannot be read, the binding does not fit, or memory does not suffice.
    """
    if config.backend is BackendKind.SYNTHETIC:
        return _load_synthetic(config)
    loaded: LoadedModel = import_module("arriero.cli.loading_llama").load_llama(config)
    return loaded


def engine_options(config: ServeConfig) -> EngineOptions:
    """How the engine is to behave."""
    return EngineOptions(
        backlog=config.backlog,
        budget=PrefillBudget(config.prefill_rows_per_seq, config.prefill_rows_per_step),
        exact=config.exact,
        check=config.check,
    )


def placement_of(config: ServeConfig) -> Placement:
    """Where the engine is to run."""
    return Shared() if config.placement is PlacementKind.SHARED else Dedicated(config.engine_cpus)


def model_name(reference: str) -> str:
    """The name that a reference suggests: a file's name without folders and suffix."""
    return PurePath(reference.rpartition("/")[2]).name.removesuffix(".gguf") or reference


def _load_synthetic(config: ServeConfig) -> LoadedModel:
    vocabulary = ByteVocabulary()
    ends = vocabulary.end_tokens
    backend = SyntheticBackend(
        SyntheticOptions(
            num_sequences=config.sequences,
            num_rows=config.batch,
            micro_batch=config.micro_batch,
            num_cells=config.ctx_size,
            unified=config.kv is KvLayout.UNIFIED,
            vocab_size=vocabulary.size,
            end_tokens=ends,
            speaks=(*PRINTABLE, min(ends)),
            base_s=SYNTHETIC_STEP_S,
            per_row_s=SYNTHETIC_ROW_S,
        )
    )
    return LoadedModel(
        name=config.alias or "synthetic",
        backend=backend,
        vocabulary=vocabulary,
        template=ChatTemplate(vocabulary.chat_template, vocabulary),
        library="none",
        facts={"kind": "a formula that says printable characters; no model"},
        close=backend.close,
    )
