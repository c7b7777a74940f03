"""EngineOptions: how an engine behaves; what it can take is decided by its backend."""

from dataclasses import dataclass, replace
from typing import Final

from arriero.backend.protocol import BackendLimits, ReuseSupport
from arriero.core.choices import PolicyWord
from arriero.core.errors import ConfigError
from arriero.costmodel.calibrated import CalibratedCost
from arriero.kv.reuse import ReuseRules
from arriero.scheduler.backlog import BacklogLimits
from arriero.scheduler.draft import UNMETERED, PrefillBudget
from arriero.scheduler.policy_spec import FCFS, PolicySpec
from arriero.scheduler.preemption import SwapRule
from arriero.scheduler.step_target import StepTarget

_MIN_EXACT_ROWS: Final = 3
"""A prompt of three rows can be cut into chunks none of which is one row alone only if a chunk may hold three."""

_MIN_EXACT_SUFFIX: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """How an engine behaves; what it can take is decided by its backend.

    Attributes:
        backlog: requests that may wait, beside those that run; None: no bound.
        backlog_tokens: prompt tokens that may wait; None: no bound.
        key_requests, key_tokens: what one tenant may have in flight, in requests and in prompt tokens; None: no bound.
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
        cost: what a step takes here: steps are predicted, and the prediction follows the machine. None: no profile.
        itl_target_ms: how long a step may take that gives somebody a token; prompt rows are cut to it. None: no bound.
        interrupt_after_ms: a cancel ends the decode call that computes for its request, if that would go on for longer;
            None: never.
        adapts_threads: whether the number of threads follows each step, and yields to a busy neighbour.
        stuck_after_s: work pending and no step for so long is no health.
        swap: whether the KV of a request that yields is kept in the host store until it runs again; None: it is
            computed again.
        swap_tokens: room for that, in tokens.
        displaces: whether a request takes the slot of a running one that goes after it; only under policies with ranks.
        policy: in which order requests start and get rows, and who yields.
    """

    backlog: int | None = None
    backlog_tokens: int | None = None
    key_requests: int | None = None
    key_tokens: int | None = None
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
    cost: CalibratedCost | None = None
    itl_target_ms: float | None = None
    interrupt_after_ms: float | None = None
    adapts_threads: bool = False
    stuck_after_s: float = 60.0
    swap: SwapRule | None = None
    swap_tokens: int = 0
    displaces: bool = False
    policy: PolicySpec = FCFS


def num_running(limits: BackendLimits, options: EngineOptions) -> int:
    """Requests that run at once, at most."""
    return limits.num_sequences - options.retained


def door_limits(limits: BackendLimits, options: EngineOptions) -> BacklogLimits:
    """Who is let in."""
    return BacklogLimits(
        sequences=num_running(limits, options),
        waiting=options.backlog,
        waiting_tokens=options.backlog_tokens,
        tenant_requests=options.key_requests,
        tenant_tokens=options.key_tokens,
    )


def step_budget(options: EngineOptions) -> PrefillBudget:
    """What prompts may take of a step, in rows and in time."""
    if options.itl_target_ms is None or options.cost is None:
        return options.budget
    target = StepTarget(limit=round(options.itl_target_ms * 1000), cost=options.cost)
    return replace(options.budget, within=target)


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
        (_is_cap(options.backlog_tokens), "--backlog-tokens must be at least 0"),
        (_is_cap(options.key_requests), "--key-requests must be at least 0"),
        (_is_cap(options.key_tokens), "--key-tokens must be at least 0"),
        (_is_cap(options.budget.per_sequence), "--prefill-rows-per-seq must be at least 0"),
        (_is_cap(options.budget.per_step), "--prefill-rows-per-step must be at least 0"),
        *_exact_rules(limits, options),
        *_cost_rules(options),
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
            options.budget.within is None or options.budget.within.least_rows >= _MIN_EXACT_ROWS,
            "exact mode needs an ITL target with least_rows of 3 or more",
        ),
        (
            reuse is None or (not reuse.keeps_answers and reuse.min_suffix >= _MIN_EXACT_SUFFIX),
            "exact mode needs reuse rules with keeps_answers=False and min_suffix=2: it reuses prefilled KV only",
        ),
    )


def _cost_rules(options: EngineOptions) -> tuple[tuple[bool, str], ...]:
    has_cost, target, bound = options.cost is not None, options.itl_target_ms, options.interrupt_after_ms
    needs = "needs a cost profile; make one with `arriero calibrate`"
    return (
        (has_cost or target is None, f"--itl-target {needs}"),
        (target is None or target > 0, "--itl-target must be above 0 milliseconds"),
        (has_cost or not options.adapts_threads, f"--adapt-threads {needs}"),
        (bound is None or bound >= 0, "--interrupt-after must be at least 0 milliseconds"),
        (options.stuck_after_s >= 0, "--stuck-after must be at least 0 seconds"),
    )


def _reuse_rules(limits: BackendLimits, support: ReuseSupport, options: EngineOptions) -> tuple[tuple[bool, str], ...]:
    can_change = support.trim and support.copy
    why = support.reason or "its memory cannot be trimmed and copied"
    return (
        (options.reuse is None or can_change, f"this model's prefixes cannot be reused ({why}); use --no-reuse"),
        (
            options.reuse is not None or options.policy.word != PolicyWord.LONGEST_MATCH,
            "--policy longest-match goes by reused prefixes; use another policy, or leave out --no-reuse",
        ),
        (
            options.reuse is None or not options.reuse.host_tokens or support.save,
            "reuse rules with room for saved runs need a host store; give the backend one, or set host_tokens=0",
        ),
        (
            not closes_holes(limits, options) or support.copy,
            f"sequences cannot be moved ({why}); set moves=False",
        ),
        (options.swap_tokens >= 0, "swap_tokens must be at least 0"),
        (
            options.swap is None or support.save,
            "--preempt: swapping needs a host store; give the backend one, or set swap=None",
        ),
    )


def _caps(budget: PrefillBudget) -> tuple[int | None, int | None]:
    return budget.per_sequence, budget.per_step


def _is_cap(rows: int | None) -> bool:
    return rows is None or rows >= 1
