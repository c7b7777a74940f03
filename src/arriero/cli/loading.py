"""From a configuration to something that computes: a backend, its vocabulary, its chat template.

The process entry loads and closes; engines only borrow.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import PurePath
from typing import Final, Protocol

from arriero.backend.protocol import Backend, ReuseSupport
from arriero.backend.synthetic import SyntheticBackend, SyntheticOptions
from arriero.cli.machine import available_cores
from arriero.core.config import BackendKind, KvLayout, PlacementKind, ServeConfig, SessionReuse
from arriero.core.ids import TokenId
from arriero.core.option_kinds import Threads
from arriero.engine.options import EngineOptions
from arriero.engine.placement import Dedicated, Placement, Shared
from arriero.kv.reuse import ReuseRules, least_match
from arriero.scheduler.draft import PrefillBudget
from arriero.tokens.chat_template import ChatTemplate
from arriero.tokens.vocabulary import ByteVocabulary, Vocabulary

# A small model on a small CPU, so that a demonstration without a model feels like one with it.
SYNTHETIC_STEP_S: Final = 0.004
SYNTHETIC_ROW_S: Final = 0.000_5
PRINTABLE: Final = tuple(TokenId(byte) for byte in range(32, 127))


class Store(Protocol):
    """Runs kept outside the context, as who runs the server sees them; from any thread."""

    @property
    def num_bytes(self) -> int:
        """In memory."""
        ...

    def flush(self, timeout_s: float | None = None) -> bool:
        """Wait until everything is on disk, at most so long; whether it is."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """What computes, and what it is.

    Attributes:
        name: what clients call it.
        library: what computes, with its version.
        facts: what a person wants to know about it, as words and figures.
        close: frees everything; once, after every engine on it has ended.
        store: where runs are kept outside the context, or None.
    """

    name: str
    backend: Backend
    vocabulary: Vocabulary
    template: ChatTemplate
    library: str
    facts: dict[str, str]
    close: Callable[[], None]
    store: Store | None = None


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


def engine_options(config: ServeConfig, backend: Backend) -> EngineOptions:
    """How the engine is to behave on this backend."""
    return EngineOptions(
        backlog=config.backlog,
        budget=PrefillBudget(config.prefill_rows_per_seq, config.prefill_rows_per_step),
        exact=config.exact,
        check=config.check,
        retained=config.retained_ids,
        reuse=None if no_reuse(config, backend.reuse_support) else reuse_rules(config, backend.reuse_support),
    )


def no_reuse(config: ServeConfig, support: ReuseSupport) -> str | None:
    """Why no prefix is reused, or None if prefixes are."""
    if not config.reuse:
        return "off"
    if support.trim and support.copy:
        return None
    return f"unsupported: {support.reason or 'the memory of this model cannot be trimmed or copied'}"


def reuse_rules(config: ServeConfig, support: ReuseSupport) -> ReuseRules:
    """Which prefixes are kept, found and used again."""
    session = config.session_reuse
    keeps_runs = support.save and support.bytes_per_token > 0
    return ReuseRules(
        per_session=session is not SessionReuse.OFF,
        partial=session is not SessionReuse.EXACT,
        min_partial=least_match(session, config.lcp_min_tokens, unified=config.kv is KvLayout.UNIFIED),
        regenerate=config.reuse_regenerate,
        # what was decoded differs in its last bits from the same text prefilled, and so does a prompt's only row
        keeps_answers=not config.exact,
        min_suffix=2 if config.exact else 1,
        max_age=int(config.retained_ttl_s * 1e6) or None,
        host_tokens=(config.host_mib << 20) // support.bytes_per_token if keeps_runs else 0,
        follows=session is SessionReuse.OFF,
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
            num_sequences=config.sequence_ids,
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
