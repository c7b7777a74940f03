"""Events: what a verb of the scheduler caused, in the order in which it must be told.

`KvOp`s are addressed to the backend, all others to callers, observers and metrics. They are delivered in order,
so a sequence is cleared before the end of its request is told.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from arriero.core.errors import ArrieroError, EngineFault
from arriero.core.ids import Epoch, RequestId, SequenceId, StepNumber, Time, TokenId
from arriero.core.request import CancelReason, FinishReason, Request, RequestState


@dataclass(frozen=True, slots=True)
class DropSequence:
    """Forget all KV of a sequence; afterwards it must read empty."""

    sequence_id: SequenceId


@dataclass(frozen=True, slots=True)
class TrimSequence:
    """Forget the positions of a sequence from `length` on."""

    sequence_id: SequenceId
    length: int


KvOp: TypeAlias = DropSequence | TrimSequence


class AdmissionSource(StrEnum):
    """Where the slot of an admitted request came from."""

    NONE = "none"  # preloaded
    INITIAL_IDLE = "initial_idle"
    CANCEL_FREED = "cancel_freed"
    COMPLETION_FREED = "completion_freed"


@dataclass(frozen=True, slots=True)
class Queued:
    """A request was accepted and waits for a slot."""

    request: Request
    position: int  # 0: next


@dataclass(frozen=True, slots=True)
class Rejected:
    """A request was not accepted: the whole of its life."""

    request: Request
    error: ArrieroError
    at: Time


@dataclass(frozen=True, slots=True)
class Admitted:
    """A request got a slot.

    Attributes:
        previous_request_id: who held the slot before, or None.
        resumed: whether it held one before and was preempted.
    """

    request: Request
    sequence_id: SequenceId
    step: StepNumber
    source: AdmissionSource
    previous_request_id: RequestId | None
    resumed: bool
    at: Time


@dataclass(frozen=True, slots=True)
class TokenEmitted:
    """One new token.

    Attributes:
        index: 0 for the first token of the answer.
        at: the end of the step that gave it.
    """

    request_id: RequestId
    sequence_id: SequenceId
    token: TokenId
    index: int
    step: StepNumber
    at: Time


@dataclass(frozen=True, slots=True)
class CancelObserved:
    """A cancel met a running request: its slot is being cleared.

    Attributes:
        state: what the request was doing.
        num_decoded: tokens that it had emitted.
    """

    request_id: RequestId
    sequence_id: SequenceId
    step: StepNumber
    state: RequestState
    reason: CancelReason
    num_decoded: int
    at: Time


class IgnoreCause(StrEnum):
    """Why a cancel changed nothing."""

    DUPLICATE = "duplicate"
    STALE_EPOCH = "stale_epoch"  # the id lives again, under another epoch
    UNKNOWN = "unknown"  # never submitted, or ended already


@dataclass(frozen=True, slots=True)
class CancelIgnored:
    """A cancel that changed nothing.

    Attributes:
        epoch: of the token, 0 for a cancel by id.
    """

    request_id: RequestId
    epoch: Epoch
    cause: IgnoreCause


class PreemptionCause(StrEnum):
    """Why a running request was put back."""

    NO_ROOM = "no_room"
    REFUSED = "refused"  # memory refused to clear the slot


@dataclass(frozen=True, slots=True)
class Preempted:
    """A running request lost its slot and waits again; its tokens are kept and computed anew."""

    request_id: RequestId
    sequence_id: SequenceId
    step: StepNumber
    cause: PreemptionCause
    num_computed: int  # positions that will be computed a second time
    at: Time


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The end of a request; exactly one for each that was queued.

    Attributes:
        sequence_id: the slot it held at the end, or None if it waited.
        step: the step in which it ended.
        num_decoded: tokens emitted.
        num_computed: positions that were in KV; 0 if it held no slot.
        cancel_reason: for `FinishReason.CANCELLED`.
        state: what it was doing when it ended.
        error: for `FinishReason.FAILED`.
    """

    request: Request
    reason: FinishReason
    sequence_id: SequenceId | None
    step: StepNumber
    num_decoded: int
    num_computed: int
    state: RequestState
    at: Time
    cancel_reason: CancelReason | None = None
    error: EngineFault | None = None


Event: TypeAlias = (
    KvOp | Queued | Rejected | Admitted | TokenEmitted | CancelObserved | CancelIgnored | Preempted | Finished
)


@dataclass(frozen=True, slots=True)
class CancelById:
    """Cancel whichever request of this id is alive, or the next one submitted under it."""

    request_id: RequestId
    reason: CancelReason = CancelReason.USER


@dataclass(frozen=True, slots=True)
class CancelByToken:
    """Cancel exactly one submission."""

    request_id: RequestId
    epoch: Epoch
    reason: CancelReason = CancelReason.USER


@dataclass(frozen=True, slots=True)
class CancelWaiting:
    """End every request that waits: the engine shuts down and nothing can be admitted any more."""


@dataclass(frozen=True, slots=True)
class CancelEverything:
    """Cancel every request, waiting or running: the time to drain is over."""

    reason: CancelReason = CancelReason.SHUTDOWN


CancelTarget: TypeAlias = CancelById | CancelByToken | CancelWaiting | CancelEverything
