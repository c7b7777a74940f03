"""From a configuration to something that computes: a backend, its vocabulary, its chat template.

The process entry loads and closes; engines only borrow.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import PurePath
from typing import Final, Protocol

from arriero.backend.protocol import Backend, ReuseSupport
from arriero.backend.synthetic import SyntheticBackend, SyntheticOptions
from arriero.backend.synthetic_memory import BYTES_PER_TOKEN, SyntheticStore
from arriero.cli.cost_profiles import UsedProfile, find_profile, kept_folder, use_profile
from arriero.cli.fingerprints import formula_fingerprint
from arriero.cli.machine import available_cores
from arriero.core.config import BackendKind, KvLayout, PlacementKind, ServeConfig, SessionReuse
from arriero.core.ids import TokenId
from arriero.core.option_kinds import Threads
from arriero.costmodel.calibrated import CalibratedCost
from arriero.engine.options import EngineOptions
from arriero.engine.placement import Dedicated, Placement, Shared
from arriero.engine.swapping import swap_rule
from arriero.kv.reuse import ReuseRules, least_match
from arriero.scheduler.draft import PrefillBudget
from arriero.scheduler.policy_spec import PolicySpec
from arriero.sim.user_policy import policy_spec
from arriero.tokens.chat_template import ChatTemplate
from arriero.tokens.vocabulary import ByteVocabulary, Vocabulary

# A small model on a small CPU, so that a demonstration without a model feels like one with it.
SYNTHETIC_STEP_S: Final = 0.004
SYNTHETIC_ROW_S: Final = 0.000_5
SYNTHETIC: Final = "synthetic"
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
        threads: that compute, as far as they do not follow the steps.
        close: frees everything; once, after every engine on it has ended.
        store: where runs are kept outside the context, or None.
        profile: what steps cost here, or None.
    """

    name: str
    backend: Backend
    vocabulary: Vocabulary
    template: ChatTemplate
    library: str
    facts: dict[str, str]
    threads: Threads
    close: Callable[[], None]
    store: Store | None = None
    profile: UsedProfile | None = None

    @property
    def cost(self) -> CalibratedCost | None:
        """What steps cost here, or None."""
        return None if self.profile is None else self.profile.cost


def settle_threads(config: ServeConfig) -> Threads:
    """The thread counts that are used: those given, else the cores that the process or the pinned engine may use."""
    cores = len(set(config.engine_cpus)) or available_cores()
    return config.threads or Threads(cores, cores)


def load_model(config: ServeConfig, advised: Threads | None = None) -> LoadedModel:
    """Load what the configuration names.

    Args:
        config: what holds.
        advised: thread counts to take where the configuration names none, of a recommendation; None: all cores.

    Raises:
        ConfigError: the model cannot be read, the binding does not fit, or memory does not suffice.
    """
    policy_of(config)  # what is wrong with it is told before a model is loaded
    if config.backend is BackendKind.SYNTHETIC:
        return _load_synthetic(config)
    loaded: LoadedModel = import_module("arriero.cli.loading_llama").load_llama(config, advised)
    return loaded


def engine_options(config: ServeConfig, backend: Backend, cost: CalibratedCost | None = None) -> EngineOptions:
    """How the engine is to behave on this backend, where steps cost so much; None: that is not known."""
    return EngineOptions(
        backlog=config.backlog,
        backlog_tokens=config.backlog_tokens,
        key_requests=config.key_requests,
        key_tokens=config.key_tokens,
        budget=PrefillBudget(config.prefill_rows_per_seq, config.prefill_rows_per_step),
        exact=config.exact,
        check=config.check,
        retained=config.retained_ids,
        reuse=None if no_reuse(config, backend.reuse_support) else reuse_rules(config, backend.reuse_support),
        swap=swap_rule(config.preempt, backend.reuse_support, exact=config.exact, cost=cost),
        swap_tokens=swap_tokens(config, backend.reuse_support),
        displaces=config.displace,
        policy=policy_of(config),
        cost=cost,
        itl_target_ms=config.itl_target,
        interrupt_after_ms=config.interrupt_after,
        adapts_threads=adapts_threads(config, cost),
        stuck_after_s=config.stuck_after,
    )


def adapts_threads(config: ServeConfig, cost: CalibratedCost | None) -> bool:
    """Whether the number of threads follows the steps: if it was asked for, or there is something to choose from.

    Exact mode asks for it, since it has to be proven there that the number changes no bit.
    """
    if config.adapt_threads is None:
        return cost is not None and len(cost.passes) > 1 and not config.exact
    return config.adapt_threads


def policy_of(config: ServeConfig) -> PolicySpec:
    """In which order requests start and get rows.

    Raises:
        ConfigError: it is a class of somebody's own, and cannot be had.
    """
    return policy_spec(config.policy, int(config.ageing * 1_000_000))


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
    # a formula computes a prompt as fast as it would bring it back; its store is there for swaps only
    keeps_runs = support.save and support.bytes_per_token > 0 and config.backend is not BackendKind.SYNTHETIC
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


def swap_tokens(config: ServeConfig, support: ReuseSupport) -> int:
    """Tokens of preempted requests that are kept outside the context, at most."""
    can_keep = support.save and support.bytes_per_token > 0
    return (config.swap_mib << 20) // support.bytes_per_token if can_keep else 0


def placement_of(config: ServeConfig) -> Placement:
    """Where the engine is to run."""
    return Shared() if config.placement is PlacementKind.SHARED else Dedicated(config.engine_cpus)


def model_name(reference: str) -> str:
    """The name that a reference suggests: a file's name without folders and suffix."""
    return PurePath(reference.rpartition("/")[2]).name.removesuffix(".gguf") or reference


def formula_options(config: ServeConfig, *, num_sequences: int) -> SyntheticOptions:
    """What `--backend synthetic` pretends to be: a context of the given shape that says printable characters."""
    vocabulary = ByteVocabulary()
    return SyntheticOptions(
        num_sequences=num_sequences,
        num_rows=config.batch,
        micro_batch=config.micro_batch,
        num_cells=config.ctx_size,
        unified=config.kv is KvLayout.UNIFIED,
        vocab_size=vocabulary.size,
        end_tokens=vocabulary.end_tokens,
        speaks=(*PRINTABLE, min(vocabulary.end_tokens)),
        base_s=SYNTHETIC_STEP_S,
        per_row_s=SYNTHETIC_ROW_S,
    )


def _load_synthetic(config: ServeConfig) -> LoadedModel:
    found = find_profile(config, SYNTHETIC, [formula_fingerprint(config)], kept_folder(os.environ))
    vocabulary = ByteVocabulary()
    backend = SyntheticBackend(
        formula_options(config, num_sequences=config.sequence_ids),
        store=SyntheticStore((config.swap_mib << 20) // BYTES_PER_TOKEN) if config.swap_mib else None,
    )
    return LoadedModel(
        name=config.alias or SYNTHETIC,
        backend=backend,
        vocabulary=vocabulary,
        template=ChatTemplate(vocabulary.chat_template, vocabulary),
        library="none",
        facts={"kind": "a formula that says printable characters; no model"},
        threads=settle_threads(config),
        close=backend.close,
        profile=use_profile(found, config, settle_threads(config), backend.limits),
    )
