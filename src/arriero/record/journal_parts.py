"""Parts of a journal's records: messages, plans, outcomes and events, as `core` has them, without tokens and texts.

What comes often is written as a short array: rows, events, prompts.
"""

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from arriero.core.events import (
    AdmissionSource,
    IgnoreCause,
    PreemptionCause,
    PrefixSource,
    RetainedAction,
    ReuseVerdict,
)
from arriero.core.plan import Cap, Deferral
from arriero.core.request import LEAST_URGENT, MOST_URGENT, CancelReason, FinishReason, RequestState
from arriero.record.journal_setup import Count, Part

Number: TypeAlias = int | float
"""A time or a duration: whole on one line, with a fraction on the other."""


class Short(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """An array; its entries are the fields in their order, after the word that names it, if it has one."""


# ── messages ────────────────────────────────────────────────────────────────────────────────────────────────────────


class PromptShape(Short, frozen=True, array_like=True):
    """A run of tokens without the tokens.

    Attributes:
        earlier: number of the kept run with which it shares the longest beginning, or None.
        common: how many tokens that are; the other's answer may be among them.
        fresh: how many tokens follow.
    """

    earlier: Count | None
    common: Count
    fresh: Count


class AnswerRow(Short, frozen=True, array_like=True):
    """The run of a request that gave its sequence back: its prompt and what it has said.

    Attributes:
        number: of its submission.
        earlier: as of a `PromptShape`, if another run has more of it than was described before: its prompt, and what it
            had said when it gave a sequence back before. None if that is all.
        common: how many tokens it shares with that run, from the first one on; or how many were described before.
        fresh: how many tokens follow.
    """

    number: Annotated[int, Meta(ge=1)]
    earlier: Count | None
    common: Count
    fresh: Count


class AdoptedRow(Short, frozen=True, array_like=True):
    """A run that the host store held before the first request; it has a number like a submission, before all of them.

    Attributes:
        key: its name in the host store.
        scope: the number of its cache scope.
    """

    key: Count
    scope: Count
    shape: PromptShape


class SubmitRow(Part, frozen=True, kw_only=True, tag="submit", omit_defaults=True):
    """A submission; `number` counts them from 1 and names their runs of tokens.

    Attributes:
        scope: those of one number may share prefixes in a cache; None neither looks up nor leaves anything there.
        blank: whether only the prompt's length is known; it shares nothing with anybody and is no run.
        priority, deadline_at, start_by: of the request.
        tenant: those of one number pay together in a fair share; None is a tenant of its own.
    """

    number: Annotated[int, Meta(ge=1)]
    request: int
    epoch: Count
    prompt: PromptShape
    max_tokens: int
    min_tokens: int
    has_end_tokens: bool
    arrival_at: Number
    expires_at: Number | None
    preloaded: bool
    scope: Count | None = None
    blank: bool = False
    priority: Annotated[int, Meta(ge=MOST_URGENT, le=LEAST_URGENT)] = 0
    deadline_at: Number | None = None
    start_by: Number | None = None
    tenant: Count | None = None


class CancelRow(Part, frozen=True, kw_only=True, tag="cancel"):
    """A cancel of one request; by id, if there is no epoch."""

    request: int
    epoch: Count | None
    reason: CancelReason


class CancelWaitingRow(Part, frozen=True, kw_only=True, tag="cancel_waiting"):
    """An end for whoever waits."""


class CancelEverythingRow(Part, frozen=True, kw_only=True, tag="cancel_everything"):
    """An end for everybody."""

    reason: CancelReason


class RetainedRow(Part, frozen=True, kw_only=True, tag="retained"):
    """All retained runs are saved, restored or erased."""

    action: RetainedAction


class FactorsRow(Short, frozen=True, array_like=True):
    """`costmodel.change.GroupFactors`."""

    threads: Annotated[int, Meta(ge=1)]
    fixed: float
    rows: float
    attention: float


class RecalibrateRow(Part, frozen=True, kw_only=True, tag="recalibrate"):
    """`costmodel.change.CostChange`: what steps take has changed.

    Attributes:
        threads: for passes of one row, and for all others.
        factors: on the costs in the setup, not on those of the last change.
    """

    threads: tuple[Annotated[int, Meta(ge=1)], Annotated[int, Meta(ge=1)]]
    factors: tuple[FactorsRow, ...]
    host: float
    spread: float


MessageRow: TypeAlias = SubmitRow | CancelRow | CancelWaitingRow | CancelEverythingRow | RetainedRow | RecalibrateRow


# ── plan and outcome ────────────────────────────────────────────────────────────────────────────────────────────────


class PlannedRow(Short, frozen=True, array_like=True):
    """A prefill chunk or a decode row."""

    sequence: Count
    request: int
    start: Count
    length: Count
    wants_logits: bool


class ShapeRow(Short, frozen=True, array_like=True):
    """`core.plan.StepShape`."""

    decode_rows: Count
    prefill_rows: Count
    prefill_chunks: Count
    context_tokens: Count
    num_running: Count


class PlanRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """`core.plan.BatchPlan` without its tokens; its events are with the others.

    Attributes:
        followers: who waits for a prefix that is being computed; files of earlier versions do not say.
    """

    step: Count
    rows: tuple[PlannedRow, ...]
    shape: ShapeRow
    caps_hit: tuple[Cap, ...]
    deferrals: dict[Deferral, Count]
    num_waiting: Count
    wake_at: Number | None
    followers: tuple[int, ...] = ()


class Dropped(Short, frozen=True, array_like=True, tag="drop"):
    """A sequence is cleared."""

    sequence: Count


class Trimmed(Short, frozen=True, array_like=True, tag="trim"):
    """A sequence is cut."""

    sequence: Count
    length: Count


class Copied(Short, frozen=True, array_like=True, tag="copy"):
    """A sequence gets the beginning of another one."""

    source: Count
    sequence: Count
    length: Count


class MovedAway(Short, frozen=True, array_like=True, tag="move"):
    """A sequence takes everything of another one."""

    source: Count
    sequence: Count


class Saved(Short, frozen=True, array_like=True, tag="save"):
    """The host store gets the beginning of a sequence."""

    sequence: Count
    key: Count
    length: Count


class Restored(Short, frozen=True, array_like=True, tag="restore"):
    """A sequence gets the beginning of a saved run."""

    sequence: Count
    key: Count
    length: Count


class Forgotten(Short, frozen=True, array_like=True, tag="forget"):
    """The host store forgets a saved run."""

    key: Count


OpRow: TypeAlias = Dropped | Trimmed | Copied | MovedAway | Saved | Restored | Forgotten


class FailureRow(Short, frozen=True, array_like=True):
    """A sequence that failed."""

    sequence: Count
    code: str


class OutcomeRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """`core.plan.StepOutcome`; every row that wanted logits and neither failed nor was refused got a token.

    Attributes:
        came: `counted` for a simulated step whose tokens nobody said.
        ends: the sequences whose token was one of their request's end tokens; the others got an ordinary one.
        times: how often the rows were computed in a row, where equal simulated steps were taken in one.
    """

    came: Literal["sampled", "no_room", "interrupted", "failed", "counted"]
    ends: tuple[Count, ...]
    failures: tuple[FailureRow, ...]
    refused: tuple[OpRow, ...]
    times: Annotated[int, Meta(ge=1)] = 1


# ── events ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class QueuedRow(Short, frozen=True, array_like=True, tag="queued"):
    """`core.events.Queued`."""

    request: int
    position: Count


class RejectedRow(Short, frozen=True, array_like=True, tag="rejected"):
    """`core.events.Rejected`."""

    request: int
    error: str


class AdmittedRow(Short, frozen=True, array_like=True, tag="admitted"):
    """`core.events.Admitted`."""

    request: int
    sequence: Count
    source: AdmissionSource
    previous: int | None
    resumed: bool
    num_cached: Count = 0
    prefix: PrefixSource | None = None
    verdict: ReuseVerdict = ReuseVerdict.DISABLED
    num_matched: Count = 0


class SwappedInRow(AdmittedRow, frozen=True, array_like=True, tag="swapped_in"):
    """`core.events.Admitted` of a request whose own KV comes back; apart, so that all others stay as they were."""

    num_swapped_in: Count = 0


class MovedRow(Short, frozen=True, array_like=True, tag="moved"):
    """`core.events.Moved`."""

    request: int
    sequence: Count
    to: Count


class TokenRow(Short, frozen=True, array_like=True, tag="token"):
    """`core.events.TokenEmitted` without the token."""

    request: int
    sequence: Count
    index: Count


class CancelObservedRow(Short, frozen=True, array_like=True, tag="cancel_observed"):
    """`core.events.CancelObserved`."""

    request: int
    sequence: Count
    state: RequestState
    reason: CancelReason
    num_decoded: Count


class CancelIgnoredRow(Short, frozen=True, array_like=True, tag="cancel_ignored"):
    """`core.events.CancelIgnored`."""

    request: int
    epoch: Count
    cause: IgnoreCause


class PreemptedRow(Short, frozen=True, array_like=True, tag="preempted"):
    """`core.events.Preempted`."""

    request: int
    sequence: Count
    cause: PreemptionCause
    num_computed: Count


class SwappedOutRow(PreemptedRow, frozen=True, array_like=True, tag="swapped_out"):
    """`core.events.Preempted` of a request whose KV the host store keeps."""


class FinishedRow(Short, frozen=True, array_like=True, tag="finished"):
    """`core.events.Finished`."""

    request: int
    reason: FinishReason
    sequence: Count | None
    num_decoded: Count
    num_computed: Count
    state: RequestState
    cancel_reason: CancelReason | None
    error: str | None


EventRow: TypeAlias = (
    OpRow
    | QueuedRow
    | RejectedRow
    | AdmittedRow
    | MovedRow
    | TokenRow
    | CancelObservedRow
    | CancelIgnoredRow
    | PreemptedRow
    | SwappedOutRow
    | SwappedInRow
    | FinishedRow
)
