"""ReuseCounts: what happened to runs, counted under the names of `ReuseFigures`."""

from dataclasses import dataclass, field, replace

from arriero.core.events import AdmissionSource, CopySequence, KvOp, PrefixSource, ReuseVerdict
from arriero.kv.reuse import EvictionCause, ReuseFigures, SessionFigures
from arriero.prefix.cache import RunKey

_KEPT_BY_NOBODY = frozenset({EvictionCause.ERASED, EvictionCause.TEARDOWN, EvictionCause.REFUSED})
"""Ends of runs that published records do not call evictions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A run was used by a request that has just started.

    Attributes:
        op: what was ordered for it; memory may refuse it. None where the whole run is taken over in place.
        run: which run, on a sequence id or in the host store.
        prefix: where it was.
        num_tokens: how many of its tokens.
        num_trimmed: how many of them were cut off; 0 unless it was taken over.
        source: how the sequence id was had.
    """

    op: KvOp | None
    run: RunKey
    prefix: PrefixSource
    num_tokens: int
    num_trimmed: int
    source: AdmissionSource


@dataclass(slots=True)
class ReuseCounts:
    """Totals.

    Attributes:
        last: what `figures` said last, unless a total has changed since.
    """

    lookups: dict[ReuseVerdict, int]
    hits: dict[PrefixSource, int]
    cached_tokens: dict[PrefixSource, int]
    evictions: dict[EvictionCause, int]
    evicted_cells: dict[EvictionCause, int]
    saves: int = 0
    copies: int = 0
    moves: int = 0
    refused: int = 0
    sessions: SessionFigures = field(default_factory=SessionFigures)
    last: ReuseFigures | None = None

    def looked_up(self, verdict: ReuseVerdict) -> None:
        """A request has started after a lookup."""
        self.lookups[verdict] += 1
        self.last = None

    def used(self, use: Use, sign: int = 1) -> None:
        """A run is used; with -1 it turns out that it could not be."""
        self.last = None
        self.hits[use.prefix] += sign
        self.cached_tokens[use.prefix] += sign * use.num_tokens
        self.copies += sign * isinstance(use.op, CopySequence)
        old = self.sessions
        if use.source is AdmissionSource.SESSION_REUSE:
            self.sessions = replace(
                old,
                session_reuse_admitted_count=old.session_reuse_admitted_count + sign,
                session_reuse_prefill_skipped_tokens=old.session_reuse_prefill_skipped_tokens + sign * use.num_tokens,
            )
        elif use.source is AdmissionSource.SESSION_REUSE_LCP:
            self.sessions = replace(
                old,
                lcp_reuse_admitted_count=old.lcp_reuse_admitted_count + sign,
                lcp_reuse_matched_tokens=old.lcp_reuse_matched_tokens + sign * use.num_tokens,
                lcp_reuse_trimmed_tokens=old.lcp_reuse_trimmed_tokens + sign * use.num_trimmed,
                lcp_trim_refused=old.lcp_trim_refused + (sign < 0),
            )

    def saved(self) -> None:
        """The host store was told to take a run."""
        self.last = None
        self.saves += 1

    def moved(self) -> None:
        """A sequence was told to change its id."""
        self.last = None
        self.moves += 1

    def was_refused(self) -> None:
        """Memory did not do one of these."""
        self.last = None
        self.refused += 1

    def created(self, *, per_session: bool) -> None:
        """A run is retained."""
        self.last = None
        if per_session:
            number = self.sessions.resident_slots_created_count + 1
            self.sessions = replace(self.sessions, resident_slots_created_count=number)

    def evicted(self, cause: EvictionCause, length: int, resident_lru: int | None = None) -> None:
        """A run is kept no longer; `resident_lru` is its tick if it was kept for a session."""
        self.last = None
        self.evictions[cause] += 1
        self.evicted_cells[cause] += length
        if resident_lru is not None and cause not in _KEPT_BY_NOBODY:
            number = self.sessions.resident_slots_evicted_count + 1
            self.sessions = replace(
                self.sessions, resident_slots_evicted_count=number, last_evicted_resident_lru=resident_lru
            )

    def figures(self, *, retained: tuple[int, int, int], host: tuple[int, int]) -> ReuseFigures:
        """Frozen, the same object as long as nothing changes.

        `retained` is runs, cells that only they hold and cells with several holders, `host` is runs and tokens.
        """
        last = self.last
        if last is None or _gauges(last) != (*retained, *host):
            last = self.last = self._figures(retained, host)
        return last

    def _figures(self, retained: tuple[int, int, int], host: tuple[int, int]) -> ReuseFigures:
        return ReuseFigures(
            lookups=self.lookups.copy(),
            hits=self.hits.copy(),
            cached_tokens=self.cached_tokens.copy(),
            evictions=self.evictions.copy(),
            evicted_cells=self.evicted_cells.copy(),
            saves=self.saves,
            copies=self.copies,
            moves=self.moves,
            refused=self.refused,
            sessions=self.sessions,
            retained_runs=retained[0],
            retained_cells=retained[1],
            shared_cells=retained[2],
            host_runs=host[0],
            host_tokens=host[1],
        )


def _gauges(figures: ReuseFigures) -> tuple[int, int, int, int, int]:
    return (
        figures.retained_runs,
        figures.retained_cells,
        figures.shared_cells,
        figures.host_runs,
        figures.host_tokens,
    )


def no_counts() -> ReuseCounts:
    """Everything at 0."""
    return ReuseCounts(
        dict.fromkeys(ReuseVerdict, 0),
        dict.fromkeys(PrefixSource, 0),
        dict.fromkeys(PrefixSource, 0),
        dict.fromkeys(EvictionCause, 0),
        dict.fromkeys(EvictionCause, 0),
    )
