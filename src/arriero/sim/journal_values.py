"""From the messages in a journal to those that a scheduler takes."""

from typing import assert_never

from arriero.core.events import CancelById, CancelByToken, CancelEverything, CancelTarget, CancelWaiting
from arriero.core.ids import Epoch, RequestId
from arriero.core.request import BlankTokens, Request
from arriero.record.journal_parts import CancelEverythingRow, CancelRow, CancelWaitingRow, SubmitRow
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
