"""JournalLines: makes the lines of a journal, byte for byte in one way.

Keys are sorted, separators fixed, numbers printed by one encoder, and every line carries a check sum over itself and
the line before. So the same run gives the same bytes, and a line that was changed, cut or lost is noticed.

The live engine makes these lines on the writer's thread, the simulator where it likes; both make them here.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias
from zlib import crc32

import msgspec

from arriero.core.events import (
    CancelTarget,
    Event,
    Finished,
    Preempted,
    Queued,
    Rejected,
    RetainedAction,
    SavedRun,
    TokenEmitted,
)
from arriero.core.ids import RequestId, Time, TokenId
from arriero.core.plan import BatchPlan, SimulatedOutcome
from arriero.core.request import BlankTokens, Request
from arriero.core.version import VERSION
from arriero.costmodel.change import CostChange
from arriero.record.journal_parts import AdoptedRow, AnswerRow, MessageRow, PromptShape, RetainedRow
from arriero.record.journal_rows import cancel_row, event_rows, outcome_row, plan_row, recalibrate_row, submit_row
from arriero.record.journal_schema import (
    SCHEMA,
    EndRecord,
    GapRecord,
    JournalRecord,
    StartRecord,
    StepRecord,
    TimeLine,
)
from arriero.record.journal_setup import Setup
from arriero.record.runs import KEPT_RUNS, KEPT_TOKENS, RunIndex

WRITTEN_BY: Final = f"arriero {VERSION}"

JournalMessage: TypeAlias = Request | CancelTarget | RetainedAction | CostChange
"""What a pass took that may change decisions."""

_ENCODER: Final = msgspec.json.Encoder(order="sorted")


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalStep:
    """One pass of either loop, as both can say it; the fields are those of `journal_schema.StepRecord`."""

    messages: tuple[JournalMessage, ...]
    plan: BatchPlan
    outcome: SimulatedOutcome | None
    events: tuple[Event, ...]
    began_at: Time
    committed_at: Time | None
    ended_at: Time
    decode_time: Time


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEnd:
    """The end of either loop; the fields are those of `journal_schema.EndRecord`."""

    ended_at: Time
    given_up_at: Time | None = None
    crashed: str | None = None
    events: tuple[Event, ...] = ()


@dataclass(slots=True)
class _Run:
    """A request that is alive, and what it has said; so many tokens of both were described, the prompt first."""

    number: int
    prompt: Sequence[TokenId]
    answer: list[TokenId]
    num_described: int


class JournalLines:
    """From passes to lines; belongs to one thread, and keeps the latest runs of tokens to compare prompts with."""

    def __init__(self, *, max_runs: int = KEPT_RUNS, max_tokens: int = KEPT_TOKENS) -> None:
        """Both bounds are written into the start record, so that a reader keeps the same runs."""
        self._bounds = (max_runs, max_tokens)
        self._index = RunIndex(max_runs, max_tokens)
        self._last_crc = 0
        self._num_submitted = 0
        self._alive: dict[RequestId, _Run] = {}
        self._scopes: dict[str, int] = {}  # numbered in the order in which they came
        self._tenants: dict[str, int] = {}  # the same

    def start(self, setup: Setup, time_line: TimeLine, adopted: Sequence[SavedRun] = ()) -> bytes:
        """The first line; `adopted` is what the host store held."""
        max_runs, max_tokens = self._bounds
        return self._line(
            StartRecord(
                crc=0,
                schema=SCHEMA,
                written_by=WRITTEN_BY,
                time_line=time_line,
                setup=setup,
                kept_runs=max_runs,
                kept_tokens=max_tokens,
                adopted=tuple(map(self._adopted_row, adopted)),
            )
        )

    def step(self, step: JournalStep, *, missing: int = 0) -> list[bytes]:
        """The line of a pass, after a gap line if so many before it are missing.

        If it raises, no line was begun, and the next one can be made.
        """
        record = self._step_record(step)
        return [*self._missing(missing), self._line(record)]

    def end(self, end: JournalEnd, *, missing: int = 0) -> list[bytes]:
        """The last line, after a gap line if so many before it are missing."""
        record = EndRecord(
            crc=0,
            ended_at=end.ended_at,
            given_up_at=end.given_up_at,
            crashed=end.crashed,
            events=event_rows(end.events),
        )
        return [*self._missing(missing), self._line(record)]

    def gap(self, dropped: int) -> bytes:
        """The line that says how many records are missing; what was alive then is not known any more."""
        self._alive.clear()
        return self._line(GapRecord(crc=0, dropped=dropped))

    def _missing(self, missing: int) -> list[bytes]:
        return [self.gap(missing)] if missing else []

    def _step_record(self, step: JournalStep) -> StepRecord:
        arrivals: deque[_Run] = deque()
        messages = tuple(self._message_row(message, arrivals) for message in step.messages)
        answers = tuple(self._follow(step.events, arrivals))
        return StepRecord(
            crc=0,
            began_at=step.began_at,
            committed_at=step.committed_at,
            ended_at=step.ended_at,
            decode_time=step.decode_time,
            messages=messages,
            plan=plan_row(step.plan),
            outcome=None if step.outcome is None else outcome_row(step.plan, step.outcome),
            events=event_rows(step.events),
            answers=answers,
        )

    def _adopted_row(self, run: SavedRun) -> AdoptedRow:
        number = self._num_submitted = self._num_submitted + 1
        return AdoptedRow(run.key, self._scope_number(run.scope), self._index.add(number, run.tokens))

    def _message_row(self, message: JournalMessage, arrivals: deque[_Run]) -> MessageRow:
        if isinstance(message, RetainedAction):
            return RetainedRow(action=message)
        if isinstance(message, CostChange):
            return recalibrate_row(message)
        if not isinstance(message, Request):
            return cancel_row(message)
        number = self._num_submitted = self._num_submitted + 1
        arrivals.append(_Run(number, message.prompt, [], len(message.prompt)))
        prompt, scope = message.prompt, message.cache_scope
        # Of a blank prompt nothing is known, so it is no run: it would seem to share its beginning with every other.
        shape = (
            PromptShape(None, 0, len(prompt)) if isinstance(prompt, BlankTokens) else self._index.add(number, prompt)
        )
        tenant = None if message.tenant is None else self._tenants.setdefault(message.tenant, len(self._tenants))
        return submit_row(message, number, shape, None if scope is None else self._scope_number(scope), tenant)

    def _scope_number(self, scope: str) -> int:
        return self._scopes.setdefault(scope, len(self._scopes))

    def _follow(self, events: Iterable[Event], arrivals: deque[_Run]) -> Iterator[AnswerRow]:
        """Keep the runs up to date; each submission causes one `Queued` or `Rejected`, in their order."""
        for event in events:
            match event:
                case TokenEmitted(request_id=request_id, token=token):
                    if (run := self._alive.get(request_id)) is not None:
                        run.answer.append(token)
                case Queued(request=request):
                    self._alive[request.request_id] = arrivals.popleft()
                case Rejected():
                    arrivals.popleft()
                case Preempted(request_id=request_id):
                    yield from self._describe(self._alive.get(request_id))
                case Finished(request=request):
                    yield from self._describe(self._alive.pop(request.request_id, None))
                case _:
                    pass

    def _describe(self, run: _Run | None) -> Iterator[AnswerRow]:
        """What a request has said since it was described last, if anything."""
        if run is None or isinstance(run.prompt, BlankTokens):
            return
        tokens = (*run.prompt, *run.answer)
        if len(tokens) > run.num_described:
            shape = self._index.extend(run.number, tokens, run.num_described)
            run.num_described = len(tokens)
            yield AnswerRow(run.number, shape.earlier, shape.common, shape.fresh)

    def _line(self, record: JournalRecord) -> bytes:
        self._last_crc = chained_crc(record, self._last_crc if not isinstance(record, StartRecord) else 0)
        return _ENCODER.encode(msgspec.structs.replace(record, crc=self._last_crc))


def chained_crc(record: JournalRecord, last_crc: int) -> int:
    """The check sum of a record whose line follows one of check sum `last_crc`; its own counts as 0."""
    return crc32(_ENCODER.encode(msgspec.structs.replace(record, crc=0)), last_crc)


def encode_record(record: JournalRecord) -> bytes:
    """The one line, without its end, that says this record."""
    return _ENCODER.encode(record)
