"""JournalLives: requests put together from the records of a journal.

A request begins with its submission and the `queued` or `rejected` that answers it, in their order. A token comes at
the commit of its step: as an event where the engine told it, from the rows where a simulator only counted it, then once
for each of the equal steps of a record. Eight bytes a token.
"""

import hashlib
from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from arriero.core.request import CancelReason, FinishReason
from arriero.metrics.latency import Life
from arriero.metrics.served import Outcome
from arriero.record.journal_parts import (
    AdmittedRow,
    EventRow,
    FinishedRow,
    OutcomeRow,
    PlannedRow,
    PreemptedRow,
    QueuedRow,
    RejectedRow,
    SubmitRow,
    TokenRow,
)
from arriero.record.journal_schema import StepRecord
from arriero.report.columns import FAILED, Asked, RequestColumns, RequestTable
from arriero.report.journal_times import StepTimes


@dataclass(slots=True)
class _Request:
    """One request, while the journal goes on; times in microseconds."""

    asked: SubmitRow
    arrival_at: float
    started_at: float | None = None
    token_at: "array[int]" = field(default_factory=lambda: array("q"))
    ended_at: float | None = None
    outcome: str = Outcome.UNFINISHED.value
    cached: int = 0
    preemptions: int = 0
    recomputed: int = 0
    lost: int = 0  # computed positions that the last preemption took, until it starts again

    @property
    def prompt_tokens(self) -> int:
        return self.asked.prompt.common + self.asked.prompt.fresh

    @property
    def num_tokens(self) -> int:
        return self.prompt_tokens + len(self.token_at)


class JournalLives:
    """Requests by the order of their submission."""

    def __init__(self, at: Callable[[float], float]) -> None:
        """Start from nothing; `at` puts a time of the journal on the line of the view."""
        self._at = at
        self._requests: list[_Request] = []
        self._alive: dict[int, _Request] = {}  # by the id that its caller gave it
        self._num_known: dict[int, int] = {}  # of those admitted in the latest step

    def add(self, record: StepRecord, times: StepTimes) -> None:
        """Take one record."""
        asked = deque(message for message in record.messages if isinstance(message, SubmitRow))
        self._num_known = {}
        touched: dict[int, _Request] = {}  # by events of this step, ends included
        for event in record.events:
            match event:
                case QueuedRow(request=request_id):
                    self._alive[request_id] = self._ask(asked.popleft())
                case RejectedRow():
                    rejected = self._ask(asked.popleft())
                    rejected.outcome, rejected.ended_at = Outcome.REJECTED.value, times.began_at
                case AdmittedRow(request=request_id) if request_id in self._alive:
                    self._num_known[request_id] = self._alive[request_id].num_tokens
                case TokenRow() | PreemptedRow() | FinishedRow():
                    self._follow(event, times.committed_at, touched)
                case _:
                    pass
        if record.outcome is not None:
            self._compute(record, record.outcome, times, touched)

    def end(self, events: tuple[EventRow, ...], now: float) -> None:
        """Take what happened after the last step."""
        for event in events:
            if isinstance(event, TokenRow | PreemptedRow | FinishedRow):
                self._follow(event, now, {})

    def num_known(self, request_id: int) -> int:
        """Tokens of prompt and answer when the latest step began; 0 for a request whose beginning is in a gap."""
        return self._num_known.get(request_id, 0)

    def columns(self) -> RequestColumns:
        """All of them."""
        table = RequestTable()
        for request in self._requests:
            table.add(_asked(request))
        return table.columns()

    def workload_sha256(self) -> str:
        """Of who asked for how much and when, from the first one on: equal for runs that were asked the same."""
        digest = hashlib.sha256()
        first = min((request.arrival_at for request in self._requests), default=0.0)
        for request in self._requests:
            digest.update(
                f"{request.arrival_at - first:.0f} {request.prompt_tokens} {request.asked.max_tokens}\n".encode()
            )
        return digest.hexdigest()

    def _compute(self, record: StepRecord, outcome: OutcomeRow, times: StepTimes, touched: dict[int, _Request]) -> None:
        """Take the rows; a simulator counted their tokens without telling them."""
        put_back = {event.request for event in record.events if isinstance(event, PreemptedRow)}
        for row in record.plan.rows:
            request = self._alive.get(row.request) or touched.get(row.request)
            if request is None:
                continue
            _start(request, row, times.began_at, loses=row.request in put_back)
            if outcome.came == "counted" and row.wants_logits:
                request.token_at.extend(times.computed_at)

    def _ask(self, row: SubmitRow) -> _Request:
        request = _Request(row, self._at(row.arrival_at))
        self._requests.append(request)
        return request

    def _follow(self, event: TokenRow | PreemptedRow | FinishedRow, now: float, touched: dict[int, _Request]) -> None:
        request = self._alive.get(event.request)
        if request is None:  # its beginning is in a gap
            return
        touched[event.request] = request
        match event:
            case TokenRow():
                request.token_at.append(round(now))
            case PreemptedRow(num_computed=num_computed):
                request.preemptions += 1
                request.lost = num_computed
            case FinishedRow():
                request.outcome = _outcome(event)
                request.ended_at = now
                del self._alive[event.request]


def _start(request: _Request, row: PlannedRow, began_at: float, *, loses: bool) -> None:
    """Note where rows begin, the first time and after a preemption; `loses` if that comes in this very step."""
    if request.started_at is None:
        request.started_at = began_at
        request.cached = min(row.start, request.prompt_tokens)
    if request.lost and not loses:
        request.recomputed += max(0, request.lost - row.start)
        request.lost = 0


def _outcome(event: FinishedRow) -> str:
    match event.reason:
        case FinishReason.STOP | FinishReason.LENGTH:
            return Outcome.FINISHED.value
        case FinishReason.CANCELLED:  # to its caller, an answer that a stop string ended is whole
            is_whole = event.cancel_reason is CancelReason.STOP
            return (Outcome.FINISHED if is_whole else Outcome.CANCELLED).value
        case FinishReason.ABORTED | FinishReason.FAILED:
            return FAILED


def _asked(request: _Request) -> Asked:
    times = request.token_at
    is_whole = request.outcome == Outcome.FINISHED
    last = times[-1] if times else request.ended_at
    return Asked(
        life=Life(
            request.arrival_at,
            request.started_at,
            times[0] if times else None,
            last if is_whole else None,
            len(times),
        ),
        outcome=request.outcome,
        token_at=times,
        prompt_tokens=request.prompt_tokens,
        cached_tokens=request.cached,
        preemptions=request.preemptions,
        recomputed_tokens=request.recomputed,
        looked_up=request.asked.scope is not None,
        ended_at=request.ended_at,
    )
