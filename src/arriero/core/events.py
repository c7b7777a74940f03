"""Events: what a verb of the scheduler caused, in the order in which it must be told.

`KvOp`s are addressed to the backend, all others to callers, observers and metrics. They are delivered in order,
so a sequence is cleared before the end of its request is told.

A sequence that a `KvOp` fills is empty before, and stays empty if memory refuses the operation.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias, assert_never

from arriero.core.errors import ArrieroError, EngineFault
from arriero.core.ids import Epoch, RequestId, SavedKey, SequenceId, StepNumber, Time, TokenId
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


@dataclass(frozen=True, slots=True)
class CopySequence:
    """An empty sequence gets the first `length` positions of `source`, which is unchanged."""

    source: SequenceId
    sequence_id: SequenceId
    length: int


@dataclass(frozen=True, slots=True)
class MoveSequence:
    """An empty sequence takes everything of `source`, which is empty afterwards."""

    source: SequenceId
    sequence_id: SequenceId


@dataclass(frozen=True, slots=True)
class SaveSequence:
    """The host store keeps the first `length` positions of a sequence, which is unchanged.

    Attributes:
        key: the name of the saved run; not in use.
        scope: the cache scope of the run; kept beside it, for a store that outlives the process.
        tokens: the `length` tokens, for the same purpose; empty where a preempted request is to find its own KV again,
            which nobody else may find and which ends with the process.
    """

    sequence_id: SequenceId
    key: SavedKey
    length: int
    scope: str = ""
    tokens: tuple[TokenId, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class RestoreSequence:
    """An empty sequence gets the first `length` positions of a saved run, which stays in the host store."""

    sequence_id: SequenceId
    key: SavedKey
    length: int


@dataclass(frozen=True, slots=True)
class ForgetSaved:
    """The host store forgets a saved run, if it still has it."""

    key: SavedKey


KvOp: TypeAlias = (
    DropSequence | TrimSequence | CopySequence | MoveSequence | SaveSequence | RestoreSequence | ForgetSaved
)


def harmed_sequence(op: KvOp) -> SequenceId | None:
    """The sequence whose request cannot go on there if memory refused `op`; None where nobody is harmed."""
    match op:
        case DropSequence() | TrimSequence() | CopySequence() | MoveSequence() | RestoreSequence():
            return op.sequence_id
        case SaveSequence() | ForgetSaved():
            return None
        case _:
            assert_never(op)


@dataclass(frozen=True, slots=True)
class SavedRun:
    """A run that the host store held before the first request; every position of its tokens can be restored."""

    key: SavedKey
    scope: str
    tokens: tuple[TokenId, ...] = field(repr=False)


class PrefixSource(StrEnum):
    """Where the cached tokens of a request came from."""

    SESSION = "session"  # a retained run of the same conversation
    TREE = "tree"  # a retained run
    RUNNING = "running"  # a sequence whose request was running
    HOST = "host"  # the host store's memory
    DISK = "disk"  # the host store's directory


class ReuseVerdict(StrEnum):
    """Why a prefix was reused, or was not."""

    REUSED = "reused"
    DISABLED = "disabled"  # reuse is off, for all or for this request
    UNSUPPORTED = "unsupported"  # this model's memory cannot be trimmed or copied
    NO_SCOPE = "no_scope"  # the request belongs to no cache scope
    NO_MATCH = "no_match"
    BELOW_MINIMUM = "below_minimum"  # fewer tokens in common than the rules ask for
    WHOLE_PROMPT = "whole_prompt"  # nothing would be left to compute, and the rules do not allow to cut


class AdmissionSource(StrEnum):
    """Where the slot of an admitted request came from."""

    NONE = "none"  # preloaded
    INITIAL_IDLE = "initial_idle"
    CANCEL_FREED = "cancel_freed"
    COMPLETION_FREED = "completion_freed"
    SESSION_REUSE = "session_reuse"  # with the whole run of its conversation
    SESSION_REUSE_LCP = "session_reuse_lcp"  # with the beginning of it
    EVICTED_RECLAIM = "evicted_reclaim"  # a retained run had to go


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
        num_cached: its tokens that are in KV already.
        prefix: where they came from; None if there are none.
        verdict: why they were reused, or not.
        num_matched: its leading tokens that some run held, reused or not.
        num_swapped_in: its tokens whose own KV comes back from the host store, where they went when it was preempted;
            none of them counts as cached.
    """

    request: Request
    sequence_id: SequenceId
    step: StepNumber
    source: AdmissionSource
    previous_request_id: RequestId | None
    resumed: bool
    at: Time
    num_cached: int = 0
    prefix: PrefixSource | None = None
    verdict: ReuseVerdict = ReuseVerdict.DISABLED
    num_matched: int = 0
    num_swapped_in: int = 0


@dataclass(frozen=True, slots=True)
class Moved:
    """A running request changed its slot, so that the ids in use leave no hole; a `MoveSequence` came before.

    Attributes:
        sequence_id: where it was.
        to: where it is now.
    """

    request_id: RequestId
    sequence_id: SequenceId
    to: SequenceId
    step: StepNumber
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
    DISPLACED = "displaced"  # a request that goes first took the slot


@dataclass(frozen=True, slots=True)
class Preempted:
    """A running request lost its slot and waits again; its tokens are kept.

    Attributes:
        num_computed: positions that were in its KV. They are computed a second time, unless they are swapped.
        swapped: whether the host store was told to keep its KV until it runs again; a `SaveSequence` came before.
    """

    request_id: RequestId
    sequence_id: SequenceId
    step: StepNumber
    cause: PreemptionCause
    num_computed: int
    at: Time
    swapped: bool = False


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
    KvOp | Queued | Rejected | Admitted | Moved | TokenEmitted | CancelObserved | CancelIgnored | Preempted | Finished
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


class RetainedAction(StrEnum):
    """What may be asked for of all retained runs together."""

    SAVE = "save"  # the host store gets a copy of those that it lacks
    RESTORE = "restore"  # what the host store has can be found: it always can, so nothing changes
    ERASE = "erase"


@dataclass(frozen=True, slots=True)
class RetainedReport:
    """What an action came to.

    Attributes:
        num_runs: runs that were saved, that the host store has, or that were erased.
        num_tokens: their tokens.
    """

    num_runs: int
    num_tokens: int
