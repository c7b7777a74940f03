"""From a journal to a workload: what came when, with prompts of the same shape.

It stands here because a workload and a record do not know each other.

Prompts are exact tokens, made up, which share beginnings as far as the recorded ones did; those of which a simulation
knew the length only, stay so. A prompt that went on after an earlier answer shares that answer only with other prompts:
a workload does not say what a model will answer.
"""

from pathlib import Path
from typing import Any, Final

from arriero.core.errors import BadJournal
from arriero.core.ids import Time, TokenId
from arriero.record.journal_parts import FinishedRow, QueuedRow, RejectedRow, SubmitRow
from arriero.record.journal_reader import read_journal
from arriero.record.journal_schema import EndRecord, GapRecord, JournalRecord, StartRecord, StepRecord, TimeLine
from arriero.sim.synthetic_runs import SyntheticRuns
from arriero.workload.notes import Notes, as_metadata
from arriero.workload.records import WorkloadClass, WorkloadRecord, numbered
from arriero.workload.tokens import PackedTokens

KEY: Final = "journal"
"""Where the metadata of a record say what the journal knows beyond a workload."""


def import_journal(path: Path) -> list[WorkloadRecord]:
    """The requests of a journal of one run, by arrival; those that the scheduler rejected are left out.

    Who goes first is kept: priority and tenant among the notes, `deadline_us` from the arrival on.
    Under `metadata.journal` each has `request` (its id then), and if it came to an end, `reason`, `num_decoded`,
    and for a cancel `cancel_reason` and `cancelled_after_us`, from its arrival to the boundary that acted on it.

    Raises:
        BadJournal: it is damaged, has a gap, holds several runs, or is not in whole microseconds.
    """
    importer: _Import | None = None
    for number, record in read_journal(path):
        try:
            importer = _follow(importer, record)
        except BadJournal as error:
            raise BadJournal(f"line {number}: {error}", file=str(path), line=number, field=error.field) from None
    assert importer is not None, "an empty journal is refused by the reader"
    return importer.records()


def _follow(importer: "_Import | None", record: JournalRecord) -> "_Import":
    match record:
        case StartRecord() if importer is None:
            return _Import(record)
        case StartRecord():
            raise BadJournal("another run begins here; cut the file, a workload is made of one run")
        case GapRecord(dropped=dropped):
            raise BadJournal(f"{dropped} records are missing here, so arrivals are missing too")
        case StepRecord() | EndRecord():
            assert importer is not None, "the reader lets nothing come before a start"
            if isinstance(record, StepRecord):
                importer.step(record)
            return importer


class _Import:
    """One run, while it is read."""

    def __init__(self, start: StartRecord) -> None:
        if start.time_line is not TimeLine.MICROSECONDS:
            raise BadJournal(f"its times are {start.time_line}; only whole microseconds make a workload")
        self._runs = SyntheticRuns(start.kept_runs, start.kept_tokens)
        # by number; no tokens where only the length is known
        self._asked: dict[int, tuple[SubmitRow, tuple[TokenId, ...] | None]] = {}
        self._ends: dict[int, dict[str, Any]] = {}  # by number
        self._described: dict[int, tuple[TokenId, ...]] = {}  # by number of those alive: prompt and answer so far
        self._alive: dict[int, int] = {}  # request id -> number
        for number, row in enumerate(start.adopted, start=1):
            self._runs.prompt(number, row.shape)

    def step(self, record: StepRecord) -> None:
        """Take the arrivals and the ends of a step."""
        arrivals: list[SubmitRow] = []
        for message in record.messages:
            if isinstance(message, SubmitRow):
                arrivals.append(message)
                prompt = None if message.blank else self._runs.prompt(message.number, message.prompt)
                self._asked[message.number] = (message, prompt)
                self._described[message.number] = prompt or ()
        for row in record.answers:
            if row.number in self._described:
                self._described[row.number] = self._runs.answered(self._described[row.number], row)
        arrivals.reverse()  # the next one is the last
        for event in record.events:
            match event:
                case QueuedRow(request=request):
                    self._alive[request] = arrivals.pop().number
                case RejectedRow():
                    number = arrivals.pop().number
                    del self._asked[number], self._described[number]
                case FinishedRow() if event.request in self._alive:
                    self._finish(event, record.began_at)
                case _:
                    pass

    def records(self) -> list[WorkloadRecord]:
        """All requests, by arrival, counted from the first one."""
        first = min((row.arrival_at for row, _ in self._asked.values()), default=0)
        return numbered(self._record(row, prompt, first) for row, prompt in self._asked.values())

    def _finish(self, event: FinishedRow, at: Time) -> None:
        number = self._alive.pop(event.request)
        row, _ = self._asked[number]
        del self._described[number]
        end: dict[str, Any] = {"reason": event.reason.value, "num_decoded": event.num_decoded}
        if event.cancel_reason is not None:
            end |= {"cancel_reason": event.cancel_reason.value, "cancelled_after_us": int(at - row.arrival_at)}
        self._ends[number] = end

    def _record(self, row: SubmitRow, prompt: tuple[TokenId, ...] | None, first: Time) -> WorkloadRecord:
        return WorkloadRecord(
            request_id=f"journal-{row.number:06d}",
            arrival_time_us=int(row.arrival_at - first),
            prompt_token_count=row.prompt.common + row.prompt.fresh,
            max_new_tokens=row.max_tokens,
            workload_class=WorkloadClass.MIXED,
            prompt_tokens=None if prompt is None else PackedTokens(prompt),
            deadline_us=None if row.deadline_at is None else max(0, int(row.deadline_at - row.arrival_at)),
            metadata={
                **(as_metadata(_notes(row)) or {}),
                KEY: {"request": row.request, **self._ends.get(row.number, {})},
            },
        )


def _notes(row: SubmitRow) -> Notes:
    return Notes(priority=row.priority, tenant=None if row.tenant is None else f"tenant-{row.tenant}")
