"""Lives: requests from their submission to their one end, and whatever ends them: cancels, time-outs, failures.

A waiting request ends at once. A running one that is to be cancelled is marked, and ends when the next step is planned.
"""

from collections.abc import Iterator, Sequence
from typing import assert_never

from arriero.core.errors import StepFailed
from arriero.core.events import (
    CancelById,
    CancelByToken,
    CancelEverything,
    CancelObserved,
    CancelTarget,
    CancelWaiting,
    Queued,
)
from arriero.core.ids import RequestId, SequenceId, StepNumber, Time
from arriero.core.plan import Row, SequenceFailure
from arriero.core.request import CancelReason, FinishReason, Request
from arriero.scheduler.cancels import CancelLedger
from arriero.scheduler.deadlines import Deadlines
from arriero.scheduler.progress import Progress
from arriero.scheduler.slots import Slots


class Lives:
    """Requests alive, by id in the order of their submission.

    Attributes:
        cancels: early cancels, and the counts of all; the scheduler asks it before each submission.
    """

    def __init__(self, slots: Slots) -> None:
        """Start with nobody; events go where those of `slots` go."""
        self.cancels = CancelLedger()
        self._slots = slots
        self._alive: dict[RequestId, Progress] = {}
        self._num_marked = 0  # running requests whose cancel was not observed yet
        self._deadlines = Deadlines()

    def __len__(self) -> int:
        """How many are alive."""
        return len(self._alive)

    def __iter__(self) -> Iterator[Progress]:
        """In the order of submission."""
        return iter(self._alive.values())

    def __contains__(self, request_id: RequestId) -> bool:
        """Whether a request of this id is alive."""
        return request_id in self._alive

    def of(self, request: Request) -> Progress:
        """The progress of a request that is alive."""
        return self._alive[request.request_id]

    def of_rows(self, rows: Sequence[Row]) -> list[Progress]:
        """The progress behind each row of a plan."""
        alive = self._alive
        return [alive[row.request.request_id] for row in rows]

    def begin(self, progress: Progress, cancelled: CancelReason | None) -> None:
        """Let a request wait; with a reason, a cancel came before it, and it ends at once."""
        request = progress.request
        self._alive[request.request_id] = progress
        self._slots.events.append(Queued(request, len(self._slots.waiting)))
        self._slots.waiting.add(progress)
        self._deadlines.add(progress)
        if cancelled is not None:
            self._mark(progress, cancelled)

    def cancel(self, target: CancelTarget) -> None:
        """Ask for an end."""
        match target:
            case CancelById() | CancelByToken():
                self._cancel_one(target)
            case CancelWaiting():
                for progress in tuple(self._slots.waiting):
                    self.finish(progress, FinishReason.ABORTED)
                self._slots.events.extend(self.cancels.close())
            case CancelEverything(reason):
                for progress in tuple(self):
                    self._mark(progress, reason)
                self._slots.events.extend(self.cancels.close())
            case _:
                assert_never(target)

    def expire(self, now: Time) -> None:
        """End those whose time has come, or who have waited for long enough."""
        if not self._deadlines:
            return
        while (due := self._deadlines.take_due(now)) is not None:
            self._mark(due.progress, due.reason)

    def next_deadline(self) -> Time | None:
        """The earliest of those alive, or None."""
        return self._deadlines.next_at() if self._deadlines else None

    def observe_cancels(self, step: StepNumber, now: Time) -> None:
        """End the running requests that are marked, oldest admission first."""
        if not self._num_marked:
            return
        for progress in tuple(self._slots.running):
            if (reason := progress.cancel_reason) is not None:
                request_id, sequence_id = progress.request.request_id, progress.held_sequence
                state, decoded = progress.state, progress.num_decoded
                self._slots.events.append(CancelObserved(request_id, sequence_id, step, state, reason, decoded, now))
                self.finish(progress, FinishReason.CANCELLED, cancel_reason=reason)

    def holder(self, sequence_id: SequenceId) -> Progress | None:
        """Who runs on a sequence, or None."""
        return next((each for each in self._slots.running if each.sequence_id == sequence_id), None)

    def fail(self, failures: tuple[SequenceFailure, ...]) -> None:
        """End whoever runs on these sequences."""
        for failure in failures:
            progress = self.holder(failure.sequence_id)
            if progress is not None:
                error = StepFailed(failure.reason, code=failure.code)
                self.finish(progress, FinishReason.FAILED, error=error)

    def finish(
        self,
        progress: Progress,
        reason: FinishReason,
        *,
        cancel_reason: CancelReason | None = None,
        error: StepFailed | None = None,
    ) -> None:
        """End a request, waiting or running."""
        del self._alive[progress.request.request_id]
        if progress.cancel_reason is not None:
            self._num_marked -= 1
        self._deadlines.remove(progress)
        self._slots.finish(progress, reason, cancel_reason=cancel_reason, error=error)

    def _cancel_one(self, target: CancelById | CancelByToken) -> None:
        self.cancels.count(calls=1)
        progress = self._alive.get(target.request_id)
        if progress is None:
            ignored = self.cancels.keep(target)
        elif isinstance(target, CancelByToken) and target.epoch != progress.request.epoch:
            is_later = target.epoch > progress.request.epoch
            ignored = self.cancels.keep(target) if is_later else self.cancels.stale(target)
        elif progress.cancel_reason is not None:
            ignored = self.cancels.duplicate(target)
        else:
            self._mark(progress, target.reason)
            return
        if ignored is not None:
            self._slots.events.append(ignored)

    def _mark(self, progress: Progress, reason: CancelReason) -> None:
        """End a waiting request now and a running one when the next step is planned; the first reason stays."""
        if progress.sequence_id is None:
            self.cancels.count(queued=1)
            self.finish(progress, FinishReason.CANCELLED, cancel_reason=reason)
        elif progress.cancel_reason is None:
            progress.cancel_reason = reason
            self._num_marked += 1
            self.cancels.count(active_observed=1)
