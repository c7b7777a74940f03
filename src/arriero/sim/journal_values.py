"""From the messages and operations in a journal to those that a scheduler takes."""

from collections.abc import Callable
from typing import assert_never

from arriero.core.errors import BadJournal, ConfigError
from arriero.core.events import (
    CancelById,
    CancelByToken,
    CancelEverything,
    CancelTarget,
    CancelWaiting,
    CopySequence,
    DropSequence,
    ForgetSaved,
    KvOp,
    MoveSequence,
    RestoreSequence,
    SaveSequence,
    TrimSequence,
)
from arriero.core.ids import Epoch, RequestId, SavedKey, SequenceId
from arriero.core.option_kinds import Threads
from arriero.core.request import BlankTokens, Request
from arriero.costmodel.change import CostChange, GroupFactors
from arriero.record.journal_parts import (
    CancelEverythingRow,
    CancelRow,
    CancelWaitingRow,
    Copied,
    Dropped,
    Forgotten,
    MovedAway,
    OpRow,
    RecalibrateRow,
    Restored,
    Saved,
    SubmitRow,
    Trimmed,
)
from arriero.sim.synthetic_runs import END, SyntheticRuns


def request_from(row: SubmitRow, runs: SyntheticRuns) -> Request:
    """The submission, with a prompt of the recorded shape, which is kept unless nothing is known of it.

    Raises:
        BadJournal: the shape refers to a run that is not kept.
    """
    return Request(
        request_id=RequestId(row.request),
        prompt=BlankTokens(row.prompt.fresh) if row.blank else runs.prompt(row.number, row.prompt),
        max_tokens=row.max_tokens,
        arrival_at=row.arrival_at,
        epoch=Epoch(row.epoch),
        end_tokens=frozenset({END}) if row.has_end_tokens else frozenset(),
        min_tokens=row.min_tokens,
        expires_at=row.expires_at,
        preloaded=row.preloaded,
        cache_scope=None if row.scope is None else str(row.scope),
        priority=row.priority,
        deadline_at=row.deadline_at,
        start_by=row.start_by,
        tenant=None if row.tenant is None else str(row.tenant),
    )


def target_from(row: CancelRow | CancelWaitingRow | CancelEverythingRow) -> CancelTarget:
    """What was to be cancelled."""
    match row:
        case CancelRow(request=request, epoch=epoch, reason=reason):
            request_id = RequestId(request)
            if epoch is None:
                return CancelById(request_id, reason)
            return CancelByToken(request_id, Epoch(epoch), reason)
        case CancelWaitingRow():
            return CancelWaiting()
        case CancelEverythingRow(reason=reason):
            return CancelEverything(reason)
        case _:
            assert_never(row)


def change_from(row: RecalibrateRow) -> CostChange:
    """What became of the costs.

    Raises:
        BadJournal: a number is no factor.
    """
    try:
        return CostChange(
            threads=Threads(*row.threads),
            factors=tuple(GroupFactors(each.threads, each.fixed, each.rows, each.attention) for each in row.factors),
            host=row.host,
            spread=row.spread,
        )
    except ConfigError as error:
        raise BadJournal(f"{error}; restore the file", field="messages") from None


def op_from(row: OpRow, sequence: Callable[[int], SequenceId]) -> KvOp:  # noqa: PLR0911 - a table
    """A KV operation; `sequence` makes sequence ids of numbers, and refuses those that are none."""
    match row:
        case Dropped():
            return DropSequence(sequence(row.sequence))
        case Trimmed():
            return TrimSequence(sequence(row.sequence), row.length)
        case Copied():
            return CopySequence(sequence(row.source), sequence(row.sequence), row.length)
        case MovedAway():
            return MoveSequence(sequence(row.source), sequence(row.sequence))
        case Saved():
            return SaveSequence(sequence(row.sequence), SavedKey(row.key), row.length)
        case Restored():
            return RestoreSequence(sequence(row.sequence), SavedKey(row.key), row.length)
        case Forgotten():
            return ForgetSaved(SavedKey(row.key))
        case _:
            assert_never(row)
