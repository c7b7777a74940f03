"""The requests of a journal, explained: its records told to the `Explainer` that explains those of a server.

A journal says less than the engine knows, so two things are put together from it:

    a row of one token that wants logits    is a decode row if the plan has as many of these as decode rows; else if its
                                            request has got a token since it started
    an event that has no time               belongs to the commit if only a commit can cause it; where memory had no
                                            room, the last request that was put back for it is the commit's, too
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from arriero.core.events import PreemptionCause
from arriero.core.request import FinishReason
from arriero.costmodel.calibrated import CalibratedCost
from arriero.metrics.explain import Explainer
from arriero.metrics.explain_events import PassRows, StepMoments, run_rows
from arriero.metrics.explain_origins import Origins
from arriero.metrics.explain_parts import Basis, Ending, Explanation, State
from arriero.metrics.explain_shares import Shares, Work
from arriero.record.cost_parts import cost_from
from arriero.record.explain_cost import calibrated_time
from arriero.record.journal_parts import (
    AdmittedRow,
    Copied,
    Dropped,
    EventRow,
    FinishedRow,
    Forgotten,
    MovedAway,
    OutcomeRow,
    PlannedRow,
    PlanRow,
    PreemptedRow,
    QueuedRow,
    RejectedRow,
    Restored,
    Saved,
    SubmitRow,
    SwappedInRow,
    TokenRow,
)
from arriero.record.journal_reader import read_journal
from arriero.record.journal_schema import EndRecord, GapRecord, JournalRecord, StartRecord, StepRecord, TimeLine

_US: Final = MappingProxyType({TimeLine.MICROSECONDS: 1, TimeLine.MILLISECONDS: 1_000})
_COMPUTED: Final = frozenset({"sampled", "counted"})
_BY_ITSELF: Final = frozenset({FinishReason.STOP, FinishReason.LENGTH})


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedRun:
    """One run of a journal.

    Attributes:
        name: of the file, and the number of the run in it.
        evidence: MEASURED or SIMULATED.
        requests: in the order in which they ended, then those that did not.
        basis: how steps were divided.
        num_lost: requests that were alive where records are missing, so that nothing can be said of them.
    """

    name: str
    evidence: str
    requests: tuple[Explanation, ...]
    basis: Basis
    num_lost: int


def explain_journal(path: Path, cost: CalibratedCost | None = None) -> list[ExplainedRun]:
    """Every run of a file, in its order.

    Args:
        path: of the journal.
        cost: divides steps among their rows; None: the one of the run's own setup, if it has one.

    Raises:
        BadJournal: it is damaged; names file and line.
    """
    runs: list[JournalFold] = []
    for line in read_journal(path):
        if isinstance(line.record, StartRecord):
            runs.append(JournalFold(line.record.time_line, shares_of(line.record, cost)))
        else:
            runs[-1].follow(line.record)
    names = [path.stem] if len(runs) == 1 else [f"{path.stem} #{number}" for number in range(1, len(runs) + 1)]
    return [run.explained(name) for name, run in zip(names, runs, strict=True)]


def shares_of(start: StartRecord, cost: CalibratedCost | None = None) -> Shares:
    """How the steps of a run are divided; `cost` as in `explain_journal`."""
    own = start.setup.limits.cost
    if cost is None and own is not None:
        cost = cost_from(own)
    return Shares(None if cost is None else calibrated_time(cost))


class JournalFold:
    """One run, while its records come."""

    def __init__(self, time_line: TimeLine, shares: Shares) -> None:
        """Its start record has come."""
        self._basis = shares.basis
        self._ended: list[Explanation] = []
        self._explainer = Explainer(self._ended.append, shares)
        self._us = _US[time_line]
        self._decoding: set[int] = set()  # requests that have got a token since they started
        self._is_measured = False
        self._num_lost = 0

    def follow(self, record: JournalRecord) -> None:
        """Take the next record of the run."""
        match record:
            case StepRecord():
                self._step(record)
            case GapRecord():
                self._num_lost += self._explainer.lose_track()
                self._decoding.clear()
            case EndRecord():
                self._end(record)
            case StartRecord():
                raise AssertionError("a start begins another run")

    def explained(self, name: str) -> ExplainedRun:
        """Everything; no record comes after it."""
        self._explainer.cut()
        return ExplainedRun(
            name=name,
            evidence="MEASURED" if self._is_measured else "SIMULATED",
            requests=tuple(self._ended),
            basis=self._basis,
            num_lost=self._num_lost,
        )

    def _step(self, record: StepRecord) -> None:
        began_at, moments = self._at(record.began_at), self._moments(record)
        self._explainer.idle(began_at)
        asked = deque(message for message in record.messages if isinstance(message, SubmitRow))
        first = len(record.events)
        if record.outcome is not None:
            first = _first_of_commit(record.events, record.outcome)
            self._is_measured |= record.decode_time != record.ended_at - record.began_at
        for event in record.events[:first]:
            self._tell(event, asked)
        if record.outcome is not None:
            run_rows(self._explainer, self._rows(record.plan, record.outcome), moments)
        for event in record.events[first:]:
            self._tell(event, asked)

    def _end(self, record: EndRecord) -> None:
        if record.crashed is not None:
            return  # in the middle of a step that has no record, so what it did is not known
        if record.given_up_at is not None and any(isinstance(event, FinishedRow) for event in record.events):
            self._explainer.idle(self._at(record.given_up_at))
        for event in record.events:
            self._tell(event, deque())

    def _at(self, time: float) -> int:
        return round(time * self._us)

    def _moments(self, record: StepRecord) -> StepMoments:
        """Equal steps that are one record took equal time."""
        began_at, ended_at = record.began_at, record.began_at if record.committed_at is None else record.committed_at
        times = 1 if record.outcome is None else record.outcome.times
        first_end = self._at(began_at + (ended_at - began_at) / times) if times > 1 else None
        return StepMoments(self._at(began_at), self._at(ended_at), self._at(record.decode_time), times, first_end)

    def _rows(self, plan: PlanRow, outcome: OutcomeRow) -> PassRows:
        maybe = [row for row in plan.rows if row.length == 1 and row.wants_logits]
        if len(maybe) != plan.shape.decode_rows:
            maybe = [row for row in maybe if row.request in self._decoding]
        decoding = frozenset(row.request for row in maybe)
        is_counted = outcome.came == "counted"
        counted = [row.request for row in plan.rows if row.wants_logits] if is_counted else ()
        self._decoding.update(counted)
        return PassRows(
            decoding=decoding,
            rows=tuple(_work(row, decoding) for row in plan.rows) if plan.shape.prefill_chunks else (),
            counted=counted,
            is_redone=outcome.came not in _COMPUTED,
            followers=plan.followers,
        )

    def _tell(self, event: EventRow, asked: "deque[SubmitRow]") -> None:
        explainer = self._explainer
        match event:
            case TokenRow(request=request):
                self._decoding.add(request)
                explainer.token(request)
            case QueuedRow(request=request):
                came = asked.popleft()
                explainer.came(request, self._at(came.arrival_at), came.prompt.common + came.prompt.fresh)
            case RejectedRow(request=request, error=error):
                came = asked.popleft()
                explainer.refused(request, self._at(came.arrival_at), came.prompt.common + came.prompt.fresh, error)
            case AdmittedRow(request=request, sequence=sequence, num_cached=num_cached):
                self._decoding.discard(request)
                swapped = event.num_swapped_in if isinstance(event, SwappedInRow) else 0
                explainer.started(request, sequence, num_cached + swapped)
            case PreemptedRow(request=request, sequence=sequence, num_computed=num_computed):
                explainer.put_back(request, sequence, num_computed)
            case FinishedRow(request=request):
                explainer.ended(request, _ending(event))
            case _:
                _tell_memory(explainer.origins, event)


def _tell_memory(origins: Origins, event: EventRow) -> None:
    match event:
        case Copied(source=source, sequence=sequence):
            origins.copied(source, sequence)
        case MovedAway(source=source, sequence=sequence):
            origins.moved(source, sequence)
        case Saved(sequence=sequence, key=key):
            origins.saved(sequence, key)
        case Restored(sequence=sequence, key=key):
            origins.restored(sequence, key)
        case Forgotten(key=key):
            origins.forgotten(key)
        case Dropped(sequence=sequence):
            origins.dropped(sequence)
        case _:
            pass


def _first_of_commit(events: Sequence[EventRow], outcome: OutcomeRow) -> int:
    """The place of the first event that only the commit of this outcome can have caused; their number without one."""
    yielded = _yielded(events) if outcome.came == "no_room" else None
    for place, event in enumerate(events):
        if place == yielded or _is_of_commit(event):
            return place
    return len(events)


def _is_of_commit(event: EventRow) -> bool:
    match event:
        case TokenRow():
            return True
        case FinishedRow(reason=reason, sequence=sequence):
            return reason in _BY_ITSELF or (reason is FinishReason.FAILED and sequence is not None)
        case PreemptedRow(cause=cause):
            return cause is PreemptionCause.REFUSED
        case _:
            return False


def _yielded(events: Sequence[EventRow]) -> int | None:
    """Who had to go since memory was fuller than the books said: the last one, unless a request failed for it."""
    if any(isinstance(event, FinishedRow) and event.error == "kv_no_room" for event in events):
        return None
    places = (
        place
        for place, event in enumerate(events)
        if isinstance(event, PreemptedRow) and event.cause is PreemptionCause.NO_ROOM
    )
    return max(places, default=None)


def _work(row: PlannedRow, decoding: frozenset[int]) -> Work:
    is_decode = row.request in decoding
    return Work(row.request, row.sequence, row.start, row.length, row.wants_logits, is_decode)


def _ending(event: FinishedRow) -> Ending:
    reason = None if event.cancel_reason is None else event.cancel_reason.value
    return Ending(State(event.reason.value), event.error if reason is None else reason)
