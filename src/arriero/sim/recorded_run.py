"""RecordedRun: what a journal says of one run, in the form in which it can be run again in another way.

    requests    as they were submitted, with prompts of the recorded shape
    answers     as long as they were; a client that gave up does so again, as long after its arrival
    lives       what really became of them, as a client at the engine's own clock would have noted it
    setup       of the scheduler that decided

Who was rejected is left out: it asked for what could never be, or for what another server might have taken, and a
journal does not say which.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from arriero.core.errors import BadJournal
from arriero.core.ids import RequestId, Time, TokenId
from arriero.core.request import BlankTokens, CancelReason, FinishReason, Request
from arriero.costmodel.passes import Stretch
from arriero.metrics.client_life import ClientLife
from arriero.record.journal_parts import (
    FinishedRow,
    PreemptedRow,
    QueuedRow,
    RejectedRow,
    SubmitRow,
    TokenRow,
)
from arriero.record.journal_reader import read_journal
from arriero.record.journal_schema import EndRecord, GapRecord, JournalRecord, StartRecord, StepRecord, TimeLine
from arriero.record.journal_setup import Setup
from arriero.sim.asked import Asked
from arriero.sim.journal_values import request_from
from arriero.sim.own_answers import UNKNOWN
from arriero.sim.synthetic_runs import END, SyntheticRuns
from arriero.sim.whatif_lives import Moments, ending_of, life_of

_GAVE_UP: Final = frozenset({CancelReason.USER, CancelReason.DISCONNECT})


class RecordedStep(NamedTuple):
    """One step with rows; what a cost can be fitted on.

    Attributes:
        took_us: from its begin to its end.
        rows: as they were planned.
        prefill_rows, decode_rows, context_tokens: of its shape.
    """

    took_us: float
    rows: tuple[Stretch, ...]
    prefill_rows: int
    decode_rows: int
    context_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """One run of a journal.

    Attributes:
        setup: of its scheduler.
        asked: by arrival, the first at 0.
        lives: of these, in the same order; moments count from the first arrival.
        steps: those with rows; equal ones that a simulator took in one stand here one by one.
        num_preemptions: how often a running request lost its place.
        num_rejected: who is left out.
        is_measured: whether an engine ran it; a simulator spends every step inside the decode call, to the microsecond.
    """

    setup: Setup
    asked: tuple[Asked, ...]
    lives: tuple[ClientLife, ...]
    steps: tuple[RecordedStep, ...]
    num_preemptions: int
    num_rejected: int
    is_measured: bool

    @property
    def busy_us(self) -> float:
        """In steps with rows."""
        return sum(step.took_us for step in self.steps)


def read_recorded_run(path: Path) -> RecordedRun:
    """The run of a journal.

    Raises:
        BadJournal: it is damaged, has a gap, holds several runs or no request, or is not in whole microseconds.
    """
    reading: _Reading | None = None
    for number, record in read_journal(path):
        try:
            reading = _follow(reading, record)
        except BadJournal as error:
            raise BadJournal(f"line {number}: {error}", file=str(path), line=number, field=error.field) from None
    assert reading is not None, "an empty journal is refused by the reader"
    found = reading.run()
    if not found.asked:
        raise BadJournal("nobody asked for anything in this run; name another journal", file=str(path))
    return found


def _follow(reading: "_Reading | None", record: JournalRecord) -> "_Reading":
    match record:
        case StartRecord() if reading is None:
            return _Reading(record)
        case StartRecord():
            raise BadJournal("another run begins here; cut the file, one run is asked for at a time")
        case GapRecord(dropped=dropped):
            raise BadJournal(f"{dropped} records are missing here, so arrivals are missing too")
        case _:
            assert reading is not None, "the reader lets nothing come before a start"
            reading.follow(record)
            return reading


class _Recorded:
    """One request, while the journal is read."""

    __slots__ = ("cancel_after", "moments", "reason", "request", "run")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.moments = Moments()
        self.moments.sent_at = int(request.arrival_at)
        self.run: tuple[TokenId, ...] = () if isinstance(request.prompt, BlankTokens) else tuple(request.prompt)
        self.reason: FinishReason | None = None
        self.cancel_after: int | None = None


class _Reading:
    """One run, while it is read."""

    def __init__(self, start: StartRecord) -> None:
        if start.time_line is not TimeLine.MICROSECONDS:
            raise BadJournal(f"its times are {start.time_line}; only whole microseconds can be simulated again")
        self._setup = start.setup
        self._runs = SyntheticRuns(start.kept_runs, start.kept_tokens)
        for number, row in enumerate(start.adopted, start=1):
            self._runs.prompt(number, row.shape)
        self._requests: dict[int, _Recorded] = {}  # by the number of the submission
        self._alive: dict[int, _Recorded] = {}  # by the id that its caller gave it
        self._steps: list[RecordedStep] = []
        self._ended_at: Time = 0
        self._num_preemptions = self._num_rejected = 0
        self._is_measured = False

    def follow(self, record: StepRecord | EndRecord) -> None:
        """Take the next record."""
        self._ended_at = record.ended_at
        if isinstance(record, EndRecord):
            self._take_events(record, record.ended_at, deque())
            return
        arrivals: deque[int] = deque()
        for message in record.messages:
            if isinstance(message, SubmitRow):
                self._requests[message.number] = _Recorded(request_from(message, self._runs))
                arrivals.append(message.number)
        for row in record.answers:
            if (recorded := self._requests.get(row.number)) is not None:
                recorded.run = self._runs.answered(recorded.run, row)
        at = record.began_at if record.committed_at is None else record.committed_at
        ended = self._take_events(record, at, arrivals)
        self._take_rows(record, ended)

    def run(self) -> RecordedRun:
        """Everything that was read."""
        ordered = sorted(self._requests.items(), key=lambda item: (item[1].request.arrival_at, item[0]))
        first = int(ordered[0][1].request.arrival_at) if ordered else 0
        asked = tuple(
            _asked(RequestId(place), number, recorded, first)
            for place, (number, recorded) in enumerate(ordered, start=1)
        )
        ended_at = int(self._ended_at) - first
        lives = tuple(
            life_of(each, _counted_from(recorded.moments, first), ended_at)
            for each, (_, recorded) in zip(asked, ordered, strict=True)
        )
        return RecordedRun(
            setup=self._setup,
            asked=asked,
            lives=lives,
            steps=tuple(self._steps),
            num_preemptions=self._num_preemptions,
            num_rejected=self._num_rejected,
            is_measured=self._is_measured,
        )

    def _take_events(self, record: StepRecord | EndRecord, at: Time, arrivals: deque[int]) -> dict[int, _Recorded]:
        """Take them in their order; those that ended, by the id that their caller gave them."""
        ended: dict[int, _Recorded] = {}
        for event in record.events:
            match event:
                case QueuedRow(request=request_id):
                    self._alive[request_id] = self._requests[arrivals.popleft()]
                case RejectedRow():
                    del self._requests[arrivals.popleft()]
                    self._num_rejected += 1
                case TokenRow() if event.request in self._alive:
                    self._alive[event.request].moments.token_at.append(int(at))
                case PreemptedRow():
                    self._num_preemptions += 1
                case FinishedRow() if event.request in self._alive:
                    ended[event.request] = self._alive.pop(event.request)
                    _finish(ended[event.request], event, int(at))
                case _:
                    pass
        return ended

    def _take_rows(self, record: StepRecord, ended: dict[int, _Recorded]) -> None:
        """Note the step, the first rows of requests, and the tokens that a simulator counted without telling them."""
        if record.outcome is None or record.committed_at is None:
            return
        self._is_measured |= record.decode_time != record.ended_at - record.began_at
        times, shape = record.outcome.times, record.plan.shape
        took = (record.ended_at - record.began_at) / times
        rows = tuple(Stretch(row.sequence, row.start, row.length, row.wants_logits) for row in record.plan.rows)
        step = RecordedStep(took, rows, shape.prefill_rows, shape.decode_rows, shape.context_tokens)
        self._steps.extend(step for _ in range(times))
        ends = list(_equal_ends(record, times)) if record.outcome.came == "counted" else []
        for row in record.plan.rows:
            recorded = self._alive.get(row.request) or ended.get(row.request)
            if recorded is None:
                continue
            if recorded.moments.cached is None:
                recorded.moments.cached = row.start
            if row.wants_logits:
                recorded.moments.token_at.extend(ends)


def _finish(recorded: _Recorded, event: FinishedRow, at: int) -> None:
    outcome, error = ending_of(event.reason, event.cancel_reason)
    recorded.reason = event.reason
    moments = recorded.moments
    moments.closed_at, moments.outcome, moments.error = at, outcome, error
    if event.cancel_reason in _GAVE_UP:
        recorded.cancel_after = max(0, at - int(recorded.request.arrival_at))


def _equal_ends(record: StepRecord, times: int) -> Iterator[int]:
    """When each of the equal steps of a record was over."""
    assert record.committed_at is not None, "it has rows"
    for number in range(1, times + 1):
        yield round(record.began_at + (record.committed_at - record.began_at) * number / times)


def _counted_from(moments: Moments, first: int) -> Moments:
    found = Moments()
    found.sent_at = None if moments.sent_at is None else moments.sent_at - first
    found.closed_at = None if moments.closed_at is None else moments.closed_at - first
    found.token_at.extend(at - first for at in moments.token_at)
    found.outcome, found.error, found.cached = moments.outcome, moments.error, moments.cached
    return found


def _asked(request_id: RequestId, number: int, recorded: _Recorded, first: int) -> Asked:
    """As it can be asked again: its answer is as long as it was, or as long as it may be where nobody knows."""
    request, num_told = recorded.request, len(recorded.moments.token_at)
    said = recorded.run[len(request.prompt) :][:num_told]
    answer: tuple[TokenId, ...] = ()
    if recorded.reason is FinishReason.STOP:
        answer = (*said, *(UNKNOWN for _ in range(num_told - len(said))), END)
    elif not isinstance(request.prompt, BlankTokens):
        answer = said
    is_short = recorded.reason is FinishReason.LENGTH
    again = replace(
        request,
        request_id=request_id,
        arrival_at=int(request.arrival_at) - first,
        max_tokens=max(1, num_told) if is_short else request.max_tokens,
        min_tokens=0,
        end_tokens=frozenset({END}) if recorded.reason is FinishReason.STOP else frozenset(),
        expires_at=None if request.expires_at is None else request.expires_at - first,
        start_by=None if request.start_by is None else request.start_by - first,
        deadline_at=None if request.deadline_at is None else request.deadline_at - first,
        preloaded=False,
    )
    return Asked(name=f"journal-{number:06d}", request=again, answer=answer, cancel_after_us=recorded.cancel_after)
