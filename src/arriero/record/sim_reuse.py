"""ReuseTotals: what a simulated run reused, for its summary row."""

from collections.abc import Mapping
from typing import Any

import msgspec

from arriero.kv.reuse import EvictionCause, ReuseFigures
from arriero.record.strict import Count, Name


class ReuseTotals(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Totals of one run; the words are those of a server's metrics.

    Attributes:
        lookups: requests that were started, by what the lookup said; one that was preempted counts again.
        hits: starts from a run, by where it was.
        cached_tokens: prompt rows that were saved, by where they came from.
        evictions: runs that had to go, by cause; what the host store took over is among them.
        saves, copies, moves: sequences that the host store took, that were filled from another one, that moved.
        prefill_rows: prompt rows that were computed; after a preemption they count again.
    """

    cached_tokens: dict[Name, Count]
    copies: Count
    evictions: dict[Name, Count]
    hits: dict[Name, Count]
    lookups: dict[Name, Count]
    moves: Count
    prefill_rows: Count
    saves: Count

    @property
    def num_evictions(self) -> int:
        """Runs that had to go while requests were served."""
        return sum(number for cause, number in self.evictions.items() if cause != EvictionCause.TEARDOWN)

    def as_json(self) -> dict[str, Any]:
        """For the summary row."""
        values: dict[str, Any] = msgspec.to_builtins(self)
        return values


def reuse_totals(figures: ReuseFigures, prefill_rows: int) -> ReuseTotals:
    """From the manager's figures at the end of a run; what never happened is left out."""
    return ReuseTotals(
        cached_tokens=_words(figures.cached_tokens),
        copies=figures.copies,
        evictions=_words(figures.evictions),
        hits=_words(figures.hits),
        lookups=_words(figures.lookups),
        moves=figures.moves,
        prefill_rows=prefill_rows,
        saves=figures.saves,
    )


def _words(counts: Mapping[Any, int]) -> dict[str, int]:
    return {str(word): number for word, number in counts.items() if number}
