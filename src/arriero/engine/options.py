"""EngineOptions: how an engine behaves; what it can take is decided by its backend."""

from dataclasses import dataclass
from typing import Final

from arriero.backend.protocol import BackendLimits
from arriero.core.errors import ConfigError
from arriero.scheduler.draft import UNMETERED, PrefillBudget

_MIN_EXACT_ROWS: Final = 3
"""A prompt of three rows can be cut into chunks none of which is one row alone only if a chunk may hold three."""


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


def check_options(limits: BackendLimits, options: EngineOptions) -> None:
    """Refuse options that this backend cannot serve.

    Raises:
        ConfigError: names the flag and the remedy.
    """
    rules = (
        (limits.num_sequences <= limits.num_rows, "--sequences exceeds --batch: every running request needs a row"),
        (options.backlog is None or options.backlog >= 0, "--backlog must be at least 0"),
        (_is_cap(options.budget.per_sequence), "--prefill-rows-per-seq must be at least 0"),
        (_is_cap(options.budget.per_step), "--prefill-rows-per-step must be at least 0"),
        (not options.exact or limits.micro_batch >= _MIN_EXACT_ROWS, "exact mode needs --micro-batch 3 or more"),
        (not options.exact or not limits.unified, "exact mode needs --kv separate"),
        (
            not options.exact or all(cap is None or cap >= _MIN_EXACT_ROWS for cap in _caps(options.budget)),
            "exact mode needs prefill caps of 3 rows or more, or none",
        ),
    )
    for holds, rule in rules:
        if not holds:
            raise ConfigError(rule)


def _caps(budget: PrefillBudget) -> tuple[int | None, int | None]:
    return budget.per_sequence, budget.per_step


def _is_cap(rows: int | None) -> bool:
    return rows is None or rows >= 1
