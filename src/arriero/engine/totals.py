"""Totals: what the actor counts, and whether it is worth publishing."""

from collections import Counter
from collections.abc import Iterable

from arriero.core.events import Admitted, Event, Finished, Moved, Preempted, TokenEmitted
from arriero.core.request import CancelReason, FinishReason
from arriero.engine.executor import ExecutorCounts
from arriero.engine.observer import EngineTotals


class Totals:
    """Counters by the field names of `EngineTotals`.

    Attributes:
        has_news: more than tokens was added since the figures were published.
    """

    def __init__(self) -> None:
        """Start at zero, with nothing published."""
        self._counts: Counter[str] = Counter()
        self.has_news = True

    def add(self, name: str, amount: int = 1) -> None:
        """Count something that is no event."""
        self._counts[name] += amount

    def count(self, events: Iterable[Event]) -> None:
        """Count events."""
        counts = self._counts
        for event in events:
            if isinstance(event, TokenEmitted):
                counts["emitted_tokens"] += 1
                continue
            self.has_news = True
            match event:
                case Admitted(resumed=False):
                    counts["admitted"] += event.step > 0
                    counts["prefix_hits"] += event.num_cached > 0
                    counts["cached_tokens"] += event.num_cached
                case Moved():
                    counts["moves"] += 1
                case Preempted(num_computed=num_computed, swapped=swapped):
                    counts["preemptions"] += 1
                    counts["repeated_rows"] += 0 if swapped else num_computed
                case Finished():
                    counts["resolved"] += 1
                    counts[_ending(event)] += 1
                case _:
                    pass

    def read(self, executed: ExecutorCounts) -> EngineTotals:
        """Frozen, with what the executor counted."""
        return EngineTotals(
            **self._counts,
            decode_calls=executed.decode_calls,
            decode_failures=executed.decode_failures,
            interrupted_calls=executed.interrupted_calls,
            overdue_calls=executed.overdue_calls,
        )


def _ending(event: Finished) -> str:
    """The total that counts this end."""
    match event.reason:
        case FinishReason.STOP | FinishReason.LENGTH:
            return "completed"
        case FinishReason.CANCELLED if event.cancel_reason is CancelReason.STOP:
            return "completed"
        case FinishReason.CANCELLED:
            return "queued_cancelled" if event.sequence_id is None else "cancelled"
        case FinishReason.ABORTED:
            return "aborted"
        case FinishReason.FAILED:
            return "failed"
