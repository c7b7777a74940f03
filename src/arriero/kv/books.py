"""Books: the parts that everything about sequences and runs is written into."""

from dataclasses import dataclass

from arriero.core.events import KvOp
from arriero.kv.host_books import HostBooks
from arriero.kv.ledger import Ledger
from arriero.kv.reuse import ReuseRules
from arriero.kv.reuse_counts import ReuseCounts, no_counts
from arriero.kv.runs import Runs
from arriero.kv.sequence_ids import SequenceIds
from arriero.kv.served_ids import ServedIds
from arriero.kv.swapped import SwappedRuns


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """One set for each manager; whoever changes one of them changes the others with it.

    Attributes:
        rules: None: nothing is ever found or kept for others.
        ops: what has to reach the memory, in order.
    """

    rules: ReuseRules | None
    ids: ServedIds
    ledger: Ledger
    runs: Runs
    host: HostBooks
    swapped: SwappedRuns
    counts: ReuseCounts
    ops: list[KvOp]

    @property
    def per_session(self) -> bool:
        """Whether the published rules of sessions hold."""
        return self.rules is not None and self.rules.per_session


def new_books(rules: ReuseRules | None, ledger: Ledger, ids: SequenceIds, swap_tokens: int = 0) -> Books:
    """A set in which nothing is written yet; `swap_tokens` is the room for what preempted requests computed."""
    ops: list[KvOp] = []
    counts = no_counts()
    host = HostBooks(0 if rules is None else rules.host_tokens, ops, counts, swap_room=swap_tokens)
    return Books(
        rules=rules,
        ids=ServedIds(ids),
        ledger=ledger,
        runs=Runs(rules, host),
        host=host,
        swapped=SwappedRuns(host, ledger, ops),
        counts=counts,
        ops=ops,
    )
