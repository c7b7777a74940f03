"""Values of prefix reuse: its rules, what is kept, what it counts.

    run         computed tokens of one sequence that others may start from
    retained    a run on a sequence id whose request has ended
    saved       a run in the host store, under a key

A run is on one sequence id or under one key. Where the same text is in both places these are two runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from arriero.core.config import SessionReuse
from arriero.core.errors import ConfigError
from arriero.core.events import PrefixSource, ReuseVerdict
from arriero.core.ids import SavedKey, SequenceId, Time

WORTH_A_COPY: Final = 16
"""Tokens whose computing costs about as much as moving a sequence's bytes to another stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReuseRules:
    """What may be reused, and how much is kept for it.

    Attributes:
        per_session: the published rules: a run is continued by the next request of its scope, in its own slot; nothing
            is copied, and running sequences are found by nobody.
        partial: whether the beginning of a run counts; else only its whole text does.
        min_partial: a match that is shorter than its run must have so many tokens.
        regenerate: whether a prompt that some run holds whole is reused but for its last tokens; else it is not reused.
        keeps_answers: whether the tokens that were decoded are kept, or those of the prompt only.
        min_suffix: a prompt that is not reused whole leaves so many of its tokens to be computed.
        max_retained: retained runs at most; None: as many as there are ids.
        max_age: how long a run that nobody uses is kept, on the driver's time line; None: for ever.
        host_tokens: room of the host store, in tokens; 0: there is none.
        min_restored: the host store is asked where it has so many tokens more than the runs on sequence ids: bringing
            them back costs about as much as computing a few.
        follows: whether `foreseen` looks at prompts that are being computed.
    """

    per_session: bool = False
    partial: bool = True
    min_partial: int = 1
    regenerate: bool = True
    keeps_answers: bool = True
    min_suffix: int = 1
    max_retained: int | None = None
    max_age: Time | None = None
    host_tokens: int = 0
    min_restored: int = 16
    follows: bool = True

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        checks = (
            ("min_partial", self.min_partial, self.min_partial >= 1, "at least 1"),
            ("min_suffix", self.min_suffix, self.min_suffix >= 1, "at least 1"),
            ("max_retained", self.max_retained, self.max_retained is None or self.max_retained >= 0, "at least 0"),
            ("max_age", self.max_age, self.max_age is None or self.max_age > 0, "above 0, or None for no limit"),
            ("min_restored", self.min_restored, self.min_restored >= 1, "at least 1"),
            ("host_tokens", self.host_tokens, self.host_tokens >= 0, "at least 0"),
        )
        for name, value, good, rule in checks:
            if not good:
                message = f"{name} of the reuse rules must be {rule}, not {value!r}"
                raise ConfigError(message)


def least_match(session: SessionReuse, lcp_min_tokens: int, *, unified: bool) -> int:
    """How many tokens two prompts must have in common for one of them to start from the other's run."""
    match session:
        case SessionReuse.LCP:
            return lcp_min_tokens
        case SessionReuse.EXACT:
            return 1
        case SessionReuse.OFF:
            return 1 if unified else WORTH_A_COPY


class EvictionCause(StrEnum):
    """Why a run is kept no longer."""

    DEMAND = "demand"  # a request needed the sequence id
    COUNT = "count"
    AGE = "age"
    POOL = "pool"  # a request needed the cells
    HOST = "host"  # the host store was full
    SUPERSEDED = "superseded"  # another run in the same place begins with its whole text
    REFUSED = "refused"  # memory refused an operation on it
    ERASED = "erased"  # on demand
    TEARDOWN = "teardown"  # the end of everything; published records do not call it an eviction


@dataclass(frozen=True, slots=True, kw_only=True)
class RetainedRun:
    """One run that is kept, for people to look at.

    Attributes:
        sequence_id: where it lies, or None if the host store has it.
        key: its name in the host store, or None if it is on a sequence id.
        length: tokens.
        tick: when it was last used; larger is later.
        num_hits: how often a request started from it.
        is_on_disk: whether it came from an earlier life.
    """

    sequence_id: SequenceId | None
    key: SavedKey | None
    scope: str
    length: int
    tick: int
    num_hits: int
    is_on_disk: bool

    @property
    def is_saved(self) -> bool:
        """Whether it is in the host store."""
        return self.key is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFigures:
    """Totals under their published names; all 0 unless the rules are per session.

    A reuse whose trim was refused counts as refused only. Created equals evicted + both kinds of reuse + refused trims
    + those of `EvictionCause.TEARDOWN`, once all runs are cleared.
    """

    session_reuse_admitted_count: int = 0
    session_reuse_prefill_skipped_tokens: int = 0
    lcp_reuse_admitted_count: int = 0
    lcp_reuse_matched_tokens: int = 0
    lcp_reuse_trimmed_tokens: int = 0
    lcp_trim_refused: int = 0
    resident_slots_created_count: int = 0
    resident_slots_evicted_count: int = 0
    last_evicted_resident_lru: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReuseFigures:
    """Totals since the start and gauges of one moment, frozen.

    Attributes:
        lookups: requests that were started, by what the lookup said.
        hits: requests that started from a run, by where it was.
        cached_tokens: tokens that need not be computed, by where they were.
        evictions: runs that are kept no longer, by cause; those that the host store took over are among them.
        evicted_cells: their lengths, in tokens.
        saves: runs that the host store took.
        copies: sequences that were filled from another one.
        moves: sequences that changed their id.
        refused: operations of these that memory refused, drops aside.
        sessions: under the published names.
        retained_runs: runs on sequence ids that nobody runs on.
        retained_cells: cells that only these hold.
        shared_cells: cells that more than one sequence holds.
        host_runs: runs in the host store.
        host_tokens: their lengths.
    """

    lookups: Mapping[ReuseVerdict, int]
    hits: Mapping[PrefixSource, int]
    cached_tokens: Mapping[PrefixSource, int]
    evictions: Mapping[EvictionCause, int]
    evicted_cells: Mapping[EvictionCause, int]
    saves: int
    copies: int
    moves: int
    refused: int
    sessions: SessionFigures
    retained_runs: int
    retained_cells: int
    shared_cells: int
    host_runs: int
    host_tokens: int


@dataclass(frozen=True, slots=True)
class CachePicture:
    """Everything that is kept, for people to look at; no tokens.

    Attributes:
        figures: the counts.
        runs: the runs, the least recently used first, those on sequence ids before those in the host store.
        trees: of each scope, its name and the tree of the runs on sequence ids, those of running requests included, in
            the rows of `PrefixTrees.picture`.
        host_trees: the same of the runs in the host store.
    """

    figures: ReuseFigures
    runs: tuple[RetainedRun, ...]
    trees: tuple[tuple[str, tuple[object, ...]], ...]
    host_trees: tuple[tuple[str, tuple[object, ...]], ...]
