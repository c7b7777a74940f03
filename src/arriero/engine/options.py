"""EngineOptions: how an engine behaves; what it can take is decided by its backend."""

from dataclasses import dataclass
from typing import Final

from arriero.backend.protocol import BackendLimits, ReuseSupport
from arriero.core.errors import ConfigError
from arriero.kv.reuse import ReuseRules
from arriero.scheduler.draft import UNMETERED, PrefillBudget

_MIN_EXACT_ROWS: Final = 3
"""A prompt of three rows can be cut into chunks none of which is one row alone only if a chunk may hold three."""

_MIN_EXACT_SUFFIX: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """How an engine behaves; what it can take is decided by its backend.

    Attributes:
        backlog: requests that may wait, beside those that run; None: no bound.
        budget: prompt rows of a step.
        exact: the composition under which a request's output does not depend on its company.
        keep_alive: sleep when idle; else the engine ends when nothing is left to do.
        check: verify every invariant after every step, and bystanders' positions around every clearing.
        headroom_per_sequence: cells that must stay free for each running request when another one starts.
        stream_high_water: cancel a request whose consumer lags so many tokens; None: never.
        retained: sequence ids of the backend on which nobody runs, so that runs of ended requests may lie there; so
            many fewer requests run at once.
        reuse: which prefixes are kept, found and used again; None: none. Followers wait for a prefix that is being
            computed, unless the rules are per session: then continuations start first.
        moves: whether a running request moves to a lower sequence id where that closes a hole; only where each
            sequence has a stream of its own. None: as prefixes are reused, or not.
        published_pools: hand out slots as the published prototype does, reusing slots of completed requests (True)
            or not (False), so that its figures can be compared; None: the lowest free one.
    """

    backlog: int | None = None
    budget: PrefillBudget = UNMETERED
    exact: bool = False
    keep_alive: bool = True
    check: bool = False
    headroom_per_sequence: int = 8
    stream_high_water: int | None = None
    published_pools: bool | None = None
    retained: int = 0
    reuse: ReuseRules | None = None
    moves: bool | None = None


def num_running(limits: BackendLimits, options: EngineOptions) -> int:
    """Requests that run at once, at most."""
    return limits.num_sequences - options.retained


def closes_holes(limits: BackendLimits, options: EngineOptions) -> bool:
    """Whether running requests move to lower sequence ids."""
    moves = options.reuse is not None if options.moves is None else options.moves
    return moves and not limits.unified


def check_options(limits: BackendLimits, support: ReuseSupport, options: EngineOptions) -> None:
    """Refuse options that this backend cannot serve.

    Raises:
        ConfigError: names the flag and the remedy.
    """
    most = num_running(limits, options)
    rules = (
        (options.retained >= 0, "--retained must be at least 0"),
        (most >= 1, "--retained leaves no sequence id for a request that runs; lower it or raise --sequences"),
        (most <= limits.num_rows, "--sequences exceeds --batch: every running request needs a row"),
        (options.backlog is None or options.backlog >= 0, "--backlog must be at least 0"),
        (_is_cap(options.budget.per_sequence), "--prefill-rows-per-seq must be at least 0"),
        (_is_cap(options.budget.per_step), "--prefill-rows-per-step must be at least 0"),
        *_exact_rules(limits, options),
        *_reuse_rules(limits, support, options),
    )
    for holds, rule in rules:
        if not holds:
            raise ConfigError(rule)


def _exact_rules(limits: BackendLimits, options: EngineOptions) -> tuple[tuple[bool, str], ...]:
    if not options.exact:
        return ()
    reuse = options.reuse
    return (
        (limits.micro_batch >= _MIN_EXACT_ROWS, "exact mode needs --micro-batch 3 or more"),
        (not limits.unified, "exact mode needs --kv separate"),
        (
            all(cap is None or cap >= _MIN_EXACT_ROWS for cap in _caps(options.budget)),
            "exact mode needs prefill caps of 3 rows or more, or none",
        ),
        (
            reuse is None or (not reuse.keeps_answers and reuse.min_suffix >= _MIN_EXACT_SUFFIX),
            "exact mode needs reuse rules with keeps_answers=False and min_suffix=2: it reuses prefilled KV only",
        ),
    )


def _reuse_rules(limits: BackendLimits, support: ReuseSupport, options: EngineOptions) -> tuple[tuple[bool, str], ...]:
    can_change = support.trim and support.copy
    why = support.reason or "its memory cannot be trimmed and copied"
    return (
        (options.reuse is None or can_change, f"this model's prefixes cannot be reused ({why}); use --no-reuse"),
        (
            options.reuse is None or not options.reuse.host_tokens or support.save,
            "reuse rules with room for saved runs need a host store; give the backend one, or set host_tokens=0",
        ),
        (
            not closes_holes(limits, options) or support.copy,
            f"sequences cannot be moved ({why}); set moves=False",
        ),
    )


def _caps(budget: PrefillBudget) -> tuple[int | None, int | None]:
    return budget.per_sequence, budget.per_step


def _is_cap(rows: int | None) -> bool:
    return rows is None or rows >= 1
