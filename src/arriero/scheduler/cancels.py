"""CancelLedger: which cancels are waiting for their request, and how many came to nothing.

A cancel may overtake the submission that it means, because both come through one inbox from several threads. It is
then kept. A token names one submission by its epoch; epochs are drained in the order in which they were issued, so
a token whose epoch was seen already and is not alive has come too late and needs no keeping.
"""

from dataclasses import dataclass, replace

from arriero.core.events import CancelById, CancelByToken, CancelIgnored, IgnoreCause
from arriero.core.ids import NO_EPOCH, Epoch, RequestId
from arriero.core.request import CancelReason, Request

MAX_EARLY_IDS = 1024
"""Cancels by id kept for a submission to come; beyond it the oldest counts as unknown."""


@dataclass(frozen=True, slots=True)
class CancelCounts:
    """Totals since the start.

    Attributes:
        calls: cancels by id or token that reached the scheduler.
        duplicates: those whose target was to be cancelled already.
        stale_epoch: tokens of an earlier life of an id that lives again.
        active_observed: those that met a running request.
        queued: requests that were cancelled while they waited, or before they arrived.
        unknown: those that met nothing; early ones count when they are given up.
    """

    calls: int = 0
    duplicates: int = 0
    stale_epoch: int = 0
    active_observed: int = 0
    queued: int = 0
    unknown: int = 0


class CancelLedger:
    """Keeps early cancels and counts all of them."""

    def __init__(self) -> None:
        """Start with nothing kept."""
        self._early_ids: dict[RequestId, CancelReason] = {}
        self._early_tokens: dict[tuple[RequestId, Epoch], CancelReason] = {}
        self._last_epoch = NO_EPOCH
        self._counts = CancelCounts()

    @property
    def counts(self) -> CancelCounts:
        """Totals since the start."""
        return self._counts

    @property
    def num_early(self) -> int:
        """Cancels kept for a submission to come."""
        return len(self._early_ids) + len(self._early_tokens)

    def count(self, **more: int) -> None:
        """Add to the totals, by field name."""
        self._counts = replace(self._counts, **{name: getattr(self._counts, name) + n for name, n in more.items()})

    def duplicate(self, target: CancelById | CancelByToken) -> CancelIgnored:
        """Its target was to be cancelled already."""
        self.count(duplicates=1)
        return _ignored(target, IgnoreCause.DUPLICATE)

    def stale(self, target: CancelByToken) -> CancelIgnored:
        """The id lives, under another epoch."""
        self.count(stale_epoch=1)
        return _ignored(target, IgnoreCause.STALE_EPOCH)

    def keep(self, target: CancelById | CancelByToken) -> CancelIgnored | None:
        """Nobody of that name is alive: keep the cancel for a submission to come, or say why not."""
        if isinstance(target, CancelByToken):
            return self._keep_token(target)
        if target.request_id in self._early_ids:
            return self.duplicate(target)
        self._early_ids[target.request_id] = target.reason
        if len(self._early_ids) > MAX_EARLY_IDS:
            oldest = next(iter(self._early_ids))
            del self._early_ids[oldest]
            return self._unknown(CancelById(oldest))
        return None

    def claim(self, request: Request) -> CancelReason | None:
        """Whether a cancel came before this submission; tokens count before ids. Notes the epoch as seen."""
        self._last_epoch = max(self._last_epoch, request.epoch)
        reason = self._early_tokens.pop((request.request_id, request.epoch), None)
        return reason if reason is not None else self._early_ids.pop(request.request_id, None)

    def close(self) -> tuple[CancelIgnored, ...]:
        """Nothing more will be submitted: what was kept is unknown."""
        early: list[CancelById | CancelByToken] = [CancelById(request_id) for request_id in self._early_ids]
        early += [CancelByToken(request_id, epoch) for request_id, epoch in self._early_tokens]
        self._early_ids.clear()
        self._early_tokens.clear()
        return tuple(self._unknown(target) for target in early)

    def _keep_token(self, target: CancelByToken) -> CancelIgnored | None:
        if target.epoch <= self._last_epoch:
            return self._unknown(target)
        key = (target.request_id, target.epoch)
        if key in self._early_tokens:
            return self.duplicate(target)
        self._early_tokens[key] = target.reason
        return None

    def _unknown(self, target: CancelById | CancelByToken) -> CancelIgnored:
        self.count(unknown=1)
        return _ignored(target, IgnoreCause.UNKNOWN)


def _ignored(target: CancelById | CancelByToken, cause: IgnoreCause) -> CancelIgnored:
    epoch = target.epoch if isinstance(target, CancelByToken) else NO_EPOCH
    return CancelIgnored(target.request_id, epoch, cause)
