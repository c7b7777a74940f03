"""From the scheduler's values to the parts of a journal's records; the numbers stay, the tokens go."""

from typing import TypeAlias, assert_never

from arriero.core.events import (
    Admitted,
    CancelById,
    CancelByToken,
    CancelEverything,
    CancelIgnored,
    CancelObserved,
    CancelTarget,
    CancelWaiting,
    CopySequence,
    DropSequence,
    Event,
    Finished,
    ForgetSaved,
    KvOp,
    Moved,
    MoveSequence,
    Preempted,
    Queued,
    Rejected,
    RestoreSequence,
    SaveSequence,
    TokenEmitted,
    TrimSequence,
)
from arriero.core.ids import SequenceId
from arriero.core.plan import (
    BatchPlan,
    Counted,
    Failed,
    Interrupted,
    NoRoom,
    Row,
    Sampled,
    SequenceFailure,
    SimulatedOutcome,
)
from arriero.core.request import BlankTokens, Request
from arriero.costmodel.change import CostChange
from arriero.record.journal_parts import (
    AdmittedRow,
    CancelEverythingRow,
    CancelIgnoredRow,
    CancelObservedRow,
    CancelRow,
    CancelWaitingRow,
    Copied,
    Dropped,
    EventRow,
    FactorsRow,
    FailureRow,
    FinishedRow,
    Forgotten,
    MovedAway,
    MovedRow,
    OpRow,
    OutcomeRow,
    PlannedRow,
    PlanRow,
    PreemptedRow,
    PromptShape,
    QueuedRow,
    RecalibrateRow,
    RejectedRow,
    Restored,
    Saved,
    ShapeRow,
    SubmitRow,
    SwappedInRow,
    SwappedOutRow,
    TokenRow,
    Trimmed,
)

CancelMessageRow: TypeAlias = CancelRow | CancelWaitingRow | CancelEverythingRow


def submit_row(
    request: Request, number: int, shape: PromptShape, scope: int | None, tenant: int | None = None
) -> SubmitRow:
    """A submission; `scope` and `tenant` are the numbers of its cache scope and of its tenant."""
    return SubmitRow(
        number=number,
        request=request.request_id,
        epoch=request.epoch,
        prompt=shape,
        max_tokens=request.max_tokens,
        min_tokens=request.min_tokens,
        has_end_tokens=bool(request.end_tokens),
        arrival_at=request.arrival_at,
        expires_at=request.expires_at,
        preloaded=request.preloaded,
        scope=scope,
        blank=isinstance(request.prompt, BlankTokens),
        priority=request.priority,
        deadline_at=request.deadline_at,
        start_by=request.start_by,
        tenant=tenant,
    )


def cancel_row(target: CancelTarget) -> CancelMessageRow:
    """A cancel of any kind."""
    match target:
        case CancelById(request_id, reason):
            return CancelRow(request=request_id, epoch=None, reason=reason)
        case CancelByToken(request_id, epoch, reason):
            return CancelRow(request=request_id, epoch=epoch, reason=reason)
        case CancelWaiting():
            return CancelWaitingRow()
        case CancelEverything(reason):
            return CancelEverythingRow(reason=reason)
        case _:
            assert_never(target)


def recalibrate_row(change: CostChange) -> RecalibrateRow:
    """A change of costs."""
    return RecalibrateRow(
        threads=(change.threads.decode, change.threads.prefill),
        factors=tuple(
            FactorsRow(each.threads, float(each.fixed), float(each.rows), float(each.attention))
            for each in change.factors
        ),
        host=float(change.host),
        spread=float(change.spread),
    )


def plan_row(plan: BatchPlan) -> PlanRow:
    """A plan; its events are written with the others."""
    shape = plan.shape
    return PlanRow(
        step=plan.step,
        rows=tuple(map(_planned_row, plan.rows)),
        shape=ShapeRow(
            shape.decode_rows, shape.prefill_rows, shape.prefill_chunks, shape.context_tokens, shape.num_running
        ),
        caps_hit=plan.caps_hit,
        deferrals=dict(plan.deferrals),
        num_waiting=plan.num_waiting,
        wake_at=plan.wake_at,
        followers=plan.followers,
    )


def outcome_row(plan: BatchPlan, outcome: SimulatedOutcome) -> OutcomeRow:
    """What a plan came to."""
    if isinstance(outcome, Counted):
        return OutcomeRow(came="counted", ends=(), failures=(), refused=(), times=outcome.times)
    refused = tuple(map(op_row, outcome.refused))
    match outcome:
        case Sampled(tokens=tokens, failures=failures):
            return OutcomeRow(
                came="sampled", ends=_ends(plan, tokens), failures=_failure_rows(failures), refused=refused
            )
        case Failed(failures=failures):
            return OutcomeRow(came="failed", ends=(), failures=_failure_rows(failures), refused=refused)
        case NoRoom():
            return OutcomeRow(came="no_room", ends=(), failures=(), refused=refused)
        case Interrupted():
            return OutcomeRow(came="interrupted", ends=(), failures=(), refused=refused)
        case _:
            assert_never(outcome)


def op_row(op: KvOp) -> OpRow:  # noqa: PLR0911 - a table
    """A KV operation, without tokens."""
    match op:
        case DropSequence(sequence_id):
            return Dropped(sequence_id)
        case TrimSequence(sequence_id, length):
            return Trimmed(sequence_id, length)
        case CopySequence(source, sequence_id, length):
            return Copied(source, sequence_id, length)
        case MoveSequence(source, sequence_id):
            return MovedAway(source, sequence_id)
        case SaveSequence(sequence_id, key, length):
            return Saved(sequence_id, key, length)
        case RestoreSequence(sequence_id, key, length):
            return Restored(sequence_id, key, length)
        case ForgetSaved(key):
            return Forgotten(key)
        case _:
            assert_never(op)


def event_rows(events: tuple[Event, ...]) -> tuple[EventRow, ...]:
    """Events, in their order."""
    return tuple(map(_event_row, events))


def _planned_row(row: Row) -> PlannedRow:
    return PlannedRow(row.sequence_id, row.request.request_id, row.start, row.num_rows, row.wants_logits)


def _ends(plan: BatchPlan, tokens: dict[SequenceId, int]) -> tuple[SequenceId, ...]:
    return tuple(
        row.sequence_id
        for row in plan.rows
        if row.sequence_id in tokens and tokens[row.sequence_id] in row.request.end_tokens
    )


def _failure_rows(failures: tuple[SequenceFailure, ...]) -> tuple[FailureRow, ...]:
    return tuple(FailureRow(failure.sequence_id, failure.code) for failure in failures)


def _event_row(event: Event) -> EventRow:
    match event:
        case TokenEmitted():
            return TokenRow(event.request_id, event.sequence_id, event.index)
        case Queued() | Rejected() | Admitted():
            return _arrival_row(event)
        case CancelObserved() | CancelIgnored() | Preempted() | Moved():
            return _interference_row(event)
        case Finished():
            return _finished_row(event)
        case _:
            return op_row(event)


def _arrival_row(event: Queued | Rejected | Admitted) -> EventRow:
    request_id = event.request.request_id
    match event:
        case Queued(position=position):
            return QueuedRow(request_id, position)
        case Rejected(error=error):
            return RejectedRow(request_id, type(error).__name__)
        case Admitted():
            return _admitted_row(event)
        case _:
            assert_never(event)


def _admitted_row(event: Admitted) -> AdmittedRow:
    fields = (
        event.request.request_id,
        event.sequence_id,
        event.source,
        event.previous_request_id,
        event.resumed,
        event.num_cached,
        event.prefix,
        event.verdict,
        event.num_matched,
    )
    return SwappedInRow(*fields, event.num_swapped_in) if event.num_swapped_in else AdmittedRow(*fields)


def _interference_row(event: CancelObserved | CancelIgnored | Preempted | Moved) -> EventRow:
    request_id = event.request_id
    match event:
        case CancelObserved():
            return CancelObservedRow(request_id, event.sequence_id, event.state, event.reason, event.num_decoded)
        case CancelIgnored():
            return CancelIgnoredRow(request_id, event.epoch, event.cause)
        case Preempted():
            kind = SwappedOutRow if event.swapped else PreemptedRow
            return kind(request_id, event.sequence_id, event.cause, event.num_computed)
        case Moved():
            return MovedRow(request_id, event.sequence_id, event.to)
        case _:
            assert_never(event)


def _finished_row(event: Finished) -> FinishedRow:
    return FinishedRow(
        event.request.request_id,
        event.reason,
        event.sequence_id,
        event.num_decoded,
        event.num_computed,
        event.state,
        event.cancel_reason,
        None if event.error is None else event.error.code,
    )
