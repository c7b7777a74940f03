"""The scheduler's own values, told to an `Explainer`: how live engine and simulator are explained."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from arriero.core.events import (
    Admitted,
    CopySequence,
    DropSequence,
    Event,
    Finished,
    ForgetSaved,
    MoveSequence,
    Preempted,
    Queued,
    Rejected,
    RestoreSequence,
    SaveSequence,
    TokenEmitted,
)
from arriero.core.plan import BatchPlan, Counted, DecodeRow, Row, Sampled, SimulatedOutcome
from arriero.metrics.explain import Explainer, Step
from arriero.metrics.explain_origins import Origins
from arriero.metrics.explain_parts import Ending, State
from arriero.metrics.explain_shares import Work


class StepMoments(NamedTuple):
    """One pass of a driver's loop, whole microseconds on the line of its events.

    Attributes:
        began_at: of messages and plan.
        ended_at: when the rows were taken over; as `began_at` without rows.
        compute: inside the decode calls.
        times: how many equal steps were taken in one.
        first_end: when the first of several was over.
    """

    began_at: int
    ended_at: int
    compute: int
    times: int = 1
    first_end: int | None = None


class PassRows(NamedTuple):
    """The rows of a pass, as an `Explainer` is told of them.

    Attributes:
        decoding: requests with a decode row.
        rows: all rows; may be left out where all are decode rows.
        counted: requests that got a token which no event tells.
        followers: requests that waited for a prefix that was being computed.
    """

    decoding: frozenset[int]
    rows: Sequence[Work]
    counted: Sequence[int] = ()
    is_redone: bool = False
    followers: Sequence[int] = ()


def follow_pass(
    explainer: Explainer,
    plan: BatchPlan,
    outcome: SimulatedOutcome | None,
    events: Iterable[Event],
    moments: StepMoments,
) -> None:
    """Tell one pass.

    Args:
        explainer: told every pass of the run before.
        plan: of the pass.
        outcome: None without rows.
        events: of messages, plan and commit, in order.
        moments: of the pass.
    """
    explainer.idle(moments.began_at)
    is_open = outcome is not None  # the rows have not been told yet
    for event in events:
        if is_open and _is_of_commit(event, moments.began_at):
            run_rows(explainer, _rows_of(plan, outcome), moments)
            is_open = False
        tell_event(explainer, event)
    if is_open:
        run_rows(explainer, _rows_of(plan, outcome), moments)


def run_rows(explainer: Explainer, rows: PassRows, moments: StepMoments) -> None:
    """Tell the rows of a pass. Of equal steps the first may come after other rows; those behind it are told as one."""
    began_at, ended_at, left = moments.began_at, moments.ended_at, moments.compute
    if moments.first_end is not None:
        part = left * (moments.first_end - began_at) // max(1, ended_at - began_at)
        explainer.computed(_step(rows, moments.first_end, part))
        explainer.tokens(rows.counted)
        left -= part
    explainer.computed(_step(rows, ended_at, left))
    explainer.tokens(rows.counted, moments.times if moments.first_end is None else moments.times - 1)


def tell_event(explainer: Explainer, event: Event) -> None:
    """Tell one event, at the moment at which the explainer is."""
    match event:
        case TokenEmitted(request_id=request_id):
            explainer.token(request_id)
        case Queued(request=request):
            explainer.came(request.request_id, int(request.arrival_at), len(request.prompt))
        case Rejected(request=request, error=error):
            name = type(error).__name__
            explainer.refused(request.request_id, int(request.arrival_at), len(request.prompt), name)
        case Admitted(request=request, sequence_id=sequence_id):
            explainer.started(request.request_id, sequence_id, event.num_cached + event.num_swapped_in)
        case Preempted(request_id=request_id, sequence_id=sequence_id, num_computed=num_computed):
            explainer.put_back(request_id, sequence_id, num_computed)
        case Finished(request=request):
            explainer.ended(request.request_id, ending_of(event))
        case _:
            _tell_memory(explainer.origins, event)


def ending_of(event: Finished) -> Ending:
    """How a request ended."""
    if event.cancel_reason is not None:
        return Ending(State(event.reason.value), event.cancel_reason.value)
    return Ending(State(event.reason.value), None if event.error is None else event.error.code)


def _tell_memory(origins: Origins, event: Event) -> None:
    match event:
        case CopySequence(source, sequence_id):
            origins.copied(source, sequence_id)
        case MoveSequence(source, sequence_id):
            origins.moved(source, sequence_id)
        case SaveSequence(sequence_id, key):
            origins.saved(sequence_id, key)
        case RestoreSequence(sequence_id, key):
            origins.restored(sequence_id, key)
        case ForgetSaved(key):
            origins.forgotten(key)
        case DropSequence(sequence_id):
            origins.dropped(sequence_id)
        case _:
            pass


def _is_of_commit(event: Event, began_at: int) -> bool:
    """Whether an event comes after the rows; what takes no time may count as coming before them."""
    match event:
        case TokenEmitted():
            return True
        case Finished(at=at) | Preempted(at=at):
            return at > began_at
        case _:
            return False


def _rows_of(plan: BatchPlan, outcome: SimulatedOutcome | None) -> PassRows:
    rows = plan.rows
    decoding = frozenset(row.request.request_id for row in rows if isinstance(row, DecodeRow))
    is_counted = isinstance(outcome, Counted)
    return PassRows(
        decoding=decoding,
        rows=tuple(map(_work, rows)) if plan.shape.prefill_chunks else (),
        counted=[row.request.request_id for row in rows if row.wants_logits] if is_counted else (),
        is_redone=not isinstance(outcome, Counted | Sampled),
        followers=plan.followers,
    )


def _work(row: Row) -> Work:
    is_decode = isinstance(row, DecodeRow)
    return Work(row.request.request_id, row.sequence_id, row.start, row.num_rows, row.wants_logits, is_decode)


def _step(rows: PassRows, ended_at: int, compute: int) -> Step:
    return Step(ended_at, compute, rows.decoding, rows.rows, rows.is_redone, rows.followers)
