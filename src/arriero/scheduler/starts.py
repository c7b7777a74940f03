"""Starts: to whom of the waiting a slot is offered, in the order of the policy, and who rather waits.

    InOrder      the first of the order, until one does not fit
    Following    the same, but who would compute what a running prompt computes now waits for it, and lets others pass
    ReuseFirst   continuations of a conversation first, within bounds

What was not taken in a step is offered again in the next one.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from arriero.core.plan import Deferral
from arriero.kv.protocol import PrefixHit
from arriero.scheduler.draft import StepDraft
from arriero.scheduler.progress import Progress
from arriero.scheduler.waiting import Offers, Rank

MIN_ROWS: Final = 32
"""Prompt rows that must be saved before a request begins to wait for another one's prefix: it starts some steps later
for it, and what a step costs beside its rows is worth about ten of them."""

MAX_FOLLOWERS: Final = 64
"""Requests that are found to wait for a prefix in one step; those behind them are not looked at, as each look costs a
search in the tree, in every step."""

MAX_OVERTAKES: Final = 8


class Starts(Protocol):
    """Offers waiting requests a slot; their prompt rows are the planner's matter."""

    def start(self, draft: StepDraft, waiting: Offers) -> None:
        """Start whoever is to start in this step."""
        ...


class InOrder:
    """From the head of the queue until one does not fit."""

    def start(self, draft: StepDraft, waiting: Offers) -> None:
        """Start the head, and the next one, and so on."""
        while (head := waiting.head()) is not None and draft.start(head) is None:
            pass


class Following:
    """As `InOrder`, but a prefix that a running prompt is computing is waited for instead of computed twice.

    A follower waits only as long as a request that holds a slot has this stretch of its prompt still to compute, and
    such a request gets on in every step or ends. So nobody waits for somebody who waits, and when the leader is
    cancelled, fails or loses its slot, the first follower starts in the next step, from what was computed until then,
    and leads. Those behind a follower are still offered: they are other prompts, or followers too.

    Who has begun to wait waits until nothing is left to be saved: the rest of the prefix comes with the leader's next
    chunk, and each follower would compute it again.

    A follower lends its leader its place in the order, if that is the better one. Else an urgent request would wait
    until all those have their rows who are more urgent than its leader.

    Keeps between steps who waits.
    """

    def __init__(self, *, min_rows: int = MIN_ROWS, max_followers: int = MAX_FOLLOWERS) -> None:
        """Begin to wait where so many rows are saved; look at so many followers in a step."""
        self._min_rows = min_rows
        self._max_followers = max_followers
        self._followers: frozenset[Rank] = frozenset()  # of the last step

    def start(self, draft: StepDraft, waiting: Offers) -> None:
        """Start from the head on, and pass over those who wait for a prefix."""
        followers: list[Rank] = []
        for progress in waiting:
            if (closed := draft.closed_to_all()) is not None:
                draft.defer(progress, closed)
                return  # nobody who waited has started
            hit = draft.lookup(progress)
            num_saved = draft.foreseen(progress) - hit.num_tokens
            if num_saved >= self._min_rows or (num_saved > 0 and progress.rank in self._followers):
                draft.defer(progress, Deferral.PREFIX)
                draft.lend(progress)
                followers.append(progress.rank)
                if len(followers) == self._max_followers:
                    break
            elif draft.start(progress, hit) is not None:
                break
        if followers or self._followers:
            self._followers = frozenset(followers)


class ReuseFirst:
    """Published order of sessions: whoever continues a retained run starts first, then the others in their order.

    A waiting request is overtaken at most so many times; once one has been, nobody behind it starts before it. The
    published rule watches the head of the queue only, which is the same unless a request comes back to the head after
    it was preempted.

    Keeps the counts of those who wait between steps.
    """

    def __init__(self, max_overtakes: int = MAX_OVERTAKES) -> None:
        """`max_overtakes` is at least 0."""
        self._max_overtakes = max_overtakes
        self._counts: dict[Rank, int] = {}  # of those who wait; who is missing was never overtaken
        self._in_order = InOrder()

    def start(self, draft: StepDraft, waiting: Offers) -> None:
        """Start those with a hit, then from the head on."""
        self._forget_gone(waiting)
        self._start_continuations(draft, waiting)
        self._in_order.start(draft, waiting)

    def _start_continuations(self, draft: StepDraft, waiting: Offers) -> None:
        passed: list[Rank] = []
        for progress in waiting:
            if draft.closed_to_all() is not None:
                return
            hit = draft.lookup(progress)
            if hit.num_tokens and self._start(draft, progress, hit, passed):
                numbers = [self._overtaken_again(rank) for rank in passed]
            else:
                passed.append(progress.rank)
                numbers = [self._counts.get(progress.rank, 0)]
            if max(numbers, default=-1) >= self._max_overtakes:
                return

    def _start(self, draft: StepDraft, progress: Progress, hit: PrefixHit, passed: Sequence[Rank]) -> bool:
        """Start a continuation before those that were passed over; whether it did."""
        return (draft.overtake(progress, hit) if passed else draft.start(progress, hit)) is None

    def _overtaken_again(self, rank: Rank) -> int:
        """Count it; returns how often by now."""
        self._counts[rank] = number = self._counts.get(rank, 0) + 1
        return number

    def _forget_gone(self, waiting: Offers) -> None:
        """Keep the counts of those who wait only."""
        if self._counts:
            ranks = {progress.rank for progress in waiting}
            self._counts = {rank: count for rank, count in self._counts.items() if rank in ranks}
