"""Planners that never cut a prompt: it starts in the step that computes all of it, or it waits.

Candidates are visited in the policy's order. One that does not fit is passed over and those behind it are still tried,
so a long prompt may be overtaken for as long as shorter ones keep coming.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import merge
from operator import attrgetter

from arriero.core.errors import DataError
from arriero.core.ids import RequestId
from arriero.core.plan import Deferral
from arriero.core.request import RequestState
from arriero.scheduler.draft import StepDraft
from arriero.scheduler.planners import go_on
from arriero.scheduler.progress import Progress
from arriero.scheduler.waiting import Offers

_rank = attrgetter("rank")


class OversizedPrompt(DataError):
    """A whole prompt, without what the cache holds of it, is longer than a step: the run cannot go on.

    Attributes:
        request_id: whose prompt it is.
    """

    def __init__(self, message: str, request_id: RequestId) -> None:
        """Keep the request beside the message."""
        super().__init__(message, field="prompt_token_count")
        self.request_id = request_id


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptBounds:
    """What is known of all prompts of a run, so that long queues need not be gone through in vain.

    Attributes:
        fewest_rows: no prompt can start with fewer; 0 where a cache may hold all of one.
        oversized: whether any prompt is longer than a step. Each of these is looked at in every step, and ends the run
            if the cache does not hold enough of it.
    """

    fewest_rows: int = 0
    oversized: bool = False


NO_BOUNDS = PromptBounds()


class DecodesThenPrompts:
    """Every decoding request gets its row, then waiting ones start."""

    def __init__(self, bounds: PromptBounds = NO_BOUNDS) -> None:
        """`bounds` must hold for every request to come."""
        self._bounds = bounds

    def fill(self, draft: StepDraft, running: Sequence[Progress], waiting: Offers) -> None:
        """Decode rows, then whole prompts."""
        ordered = sorted(running, key=_rank) if len(running) > 1 else running
        others = [progress for progress in ordered if progress.state is not RequestState.DECODING]
        if others or not draft.decode_together(ordered):
            for progress in ordered:
                go_on(draft, progress)
        if waiting:
            _visit(draft, waiting, self._bounds, num_running=0, num_waiting=len(waiting))


class ArrivalOrder:
    """Decode rows and whole prompts in one order, the policy's."""

    def __init__(self, bounds: PromptBounds = NO_BOUNDS) -> None:
        """`bounds` must hold for every request to come."""
        self._bounds = bounds

    def fill(self, draft: StepDraft, running: Sequence[Progress], waiting: Offers) -> None:
        """Whoever is next by rank."""
        everybody = merge(sorted(running, key=_rank), waiting, key=_rank)
        _visit(draft, everybody, self._bounds, num_running=len(running), num_waiting=len(waiting))


def _visit(
    draft: StepDraft, candidates: Iterable[Progress], bounds: PromptBounds, *, num_running: int, num_waiting: int
) -> None:
    """Offer candidates, and go no further than somebody may still fit; `num_...` says how many of them there are."""
    needs_all = draft.names_deferred or bounds.oversized
    for progress in candidates:
        # A running request takes one row.
        reason = draft.lack(min(1, bounds.fewest_rows) if num_running else bounds.fewest_rows)
        if reason is None or needs_all:
            if progress.state is RequestState.WAITING:
                num_waiting -= 1
                reason = _start(draft, progress, bounds)
            else:
                num_running -= 1
                reason = go_on(draft, progress)
            # Slots are missing for all who wait alike; everything else is a matter of size.
            if reason is not Deferral.SLOTS or num_running or needs_all:
                continue
        draft.defer_all(reason, num_running + num_waiting)
        return


def _start(draft: StepDraft, progress: Progress, bounds: PromptBounds) -> Deferral | None:
    if bounds.oversized and progress.num_known > draft.num_rows:
        num_rows = progress.num_known - draft.lookup(progress).num_tokens
        if num_rows == progress.num_known or num_rows > draft.num_rows:
            message = (
                f"oversized unmatched prefill: request {progress.request.request_id} has {num_rows} prompt tokens to "
                f"compute, a step has {draft.num_rows}, and prompts are not cut; raise max_batched_tokens"
            )
            raise OversizedPrompt(message, progress.request.request_id)
    if progress.was_preempted and progress.num_known > draft.num_rows:
        # Its own answer made it longer than a step: then it is cut, as it could never go on otherwise.
        return draft.start(progress) or draft.prefill(progress)
    return draft.start_whole(progress)
