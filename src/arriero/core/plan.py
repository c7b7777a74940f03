"""BatchPlan and StepOutcome: what the next step shall compute, and what it did.

rows of one plan, ascending by sequence id:

sequence   0         1                        3
row kind   DecodeRow PrefillChunk             DecodeRow
positions  17        0 1 2 3 ... 31           240
logits     yes       only if it ends the      yes
                     known tokens
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, NamedTuple, TypeAlias

from arriero.core.events import Event, KvOp
from arriero.core.ids import RequestId, SequenceId, StepNumber, Time, TokenId
from arriero.core.request import Request


@dataclass(frozen=True, slots=True)
class PrefillChunk:
    """Consecutive known tokens of one sequence.

    Attributes:
        request: whose tokens these are.
        sequence_id: where their KV goes.
        start: position of the first one.
        tokens: the token ids; empty only if everything is in KV already.
        wants_logits: whether the last of them is the last known token, so that a new one is sampled.
    """

    request: Request
    sequence_id: SequenceId
    start: int
    tokens: Sequence[TokenId]
    wants_logits: bool

    @property
    def num_rows(self) -> int:
        """Token positions in the batch."""
        return len(self.tokens)


class _OneToken(NamedTuple):
    request: Request
    sequence_id: SequenceId
    start: int
    token: TokenId


class DecodeRow(_OneToken):
    """The token sampled last, whose logits give the next one.

    A tuple below, since one is made for every running request in every step.

    Attributes:
        request: whose token this is.
        sequence_id: where its KV goes.
        start: its position.
        token: the token id.
        num_rows: always 1.
        wants_logits: always.
    """

    __slots__ = ()

    num_rows: ClassVar[int] = 1
    wants_logits: ClassVar[bool] = True

    @property
    def tokens(self) -> tuple[TokenId, ...]:
        """The one token, in the form that a chunk has."""
        return (self.token,)


Row: TypeAlias = PrefillChunk | DecodeRow


class StepShape(NamedTuple):
    """The counts that the cost of a step depends on.

    Attributes:
        decode_rows: sequences that get one token.
        prefill_rows: prompt positions, over all chunks.
        prefill_chunks: sequences that get prompt positions.
        context_tokens: positions already in KV, summed over the sequences of the batch.
        num_running: requests that hold a sequence, in this batch or not.
        calls: where a planner asked for a call of its own for each sequence, the shapes of these calls in row order;
            else empty, for one call.
    """

    decode_rows: int
    prefill_rows: int
    prefill_chunks: int
    context_tokens: int
    num_running: int
    calls: tuple["StepShape", ...] = ()

    @property
    def num_rows(self) -> int:
        """Rows of the batch."""
        return self.decode_rows + self.prefill_rows


class Cap(StrEnum):
    """What kept prompt rows out of a step."""

    BATCH = "batch"  # num_rows of the batch
    PER_STEP = "prefill_rows_per_step"
    PER_SEQUENCE = "prefill_rows_per_seq"
    ITL_TARGET = "itl_target"  # the time that a step with decode rows may take


class OverTarget(StrEnum):
    """Why a step is predicted to take longer than its target allows."""

    DECODE_ROWS = "decode_rows"  # they alone do, and a prompt got its least rows beside them
    LEAST_ROWS = "least_rows"  # with the least rows that a prompt gets in every step


class Deferral(StrEnum):
    """Why a candidate is not in a step."""

    ROWS = "rows"
    PREFILL_BUDGET = "prefill_budget"
    SEQUENCES = "sequences"  # the step has as many sequences as it may have
    SLOTS = "slots"
    KV = "kv"
    YIELDED = "yielded"  # it gave its own KV back
    PREFIX = "prefix"  # a prompt that runs is computing its prefix


class Deferred(NamedTuple):
    """A candidate that was offered to a step and not taken; a tuple, since a long queue makes many in every step."""

    request_id: RequestId
    reason: Deferral


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """The next step, complete.

    Attributes:
        step: its number; 0 is the unmetered prefill of preloaded requests.
        rows: ascending by sequence id, at most one entry for each sequence. A plan with rows must be committed.
        shape: the counts that its cost depends on.
        events: what planning caused, to be delivered before the rows run.
        caps_hit: what kept prompt rows out, in the order first met.
        num_waiting: requests that still wait after the admissions of this plan.
        wake_at: when to ask again if no message comes; never earlier than `now`. None: only a message can change this.
        deferrals: how many candidates were not taken, by reason.
        deferred: who they were, in the order in which they were offered; empty unless the scheduler was asked for it.
        followers: those of them who wait for a prefix that is being computed, in the same order; always told.
        over_target: why it is predicted to take longer than its target allows; None where it does not, where there is
            no target, and where nobody has asked, as no prompt had rows beside decode rows.
        pool_cells: cells in use before it, of whomever; counted where all share one pool whose costs are known, else 0.
    """

    step: StepNumber
    rows: tuple[Row, ...]
    shape: StepShape
    events: tuple[Event, ...]
    caps_hit: tuple[Cap, ...]
    num_waiting: int
    wake_at: Time | None
    deferrals: Mapping[Deferral, int] = field(default_factory=dict[Deferral, int])
    deferred: tuple[Deferred, ...] = ()
    followers: tuple[RequestId, ...] = ()
    over_target: OverTarget | None = None
    pool_cells: int = 0


@dataclass(frozen=True, slots=True)
class SequenceFailure:
    """One sequence that could not be computed or sampled, alone or in company.

    Attributes:
        sequence_id: the row's sequence.
        code: `decode_failed` or `sampler_failed`.
        reason: one line for the caller.
    """

    sequence_id: SequenceId
    code: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """The step was computed.

    Attributes:
        tokens: the next token of each sequence whose row wanted logits and that did not fail.
        failures: sequences that failed; the others of the batch are not affected.
        refused: KV operations that memory refused since the last outcome; their sequences' rows were not run.
    """

    tokens: dict[SequenceId, TokenId]
    failures: tuple[SequenceFailure, ...] = ()
    refused: tuple[KvOp, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRoom:
    """KV memory had no place for the rows; nothing was computed, memory is as it was before the step."""

    refused: tuple[KvOp, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """The decode call was stopped; nothing was computed, memory is as it was before the step."""

    refused: tuple[KvOp, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """Every sequence of the batch failed, also alone; memory is as it was before the step.

    Sequences whose memory could not be put back are in `refused` instead, as they could not be tried alone.
    """

    failures: tuple[SequenceFailure, ...]
    refused: tuple[KvOp, ...] = ()


StepOutcome: TypeAlias = Sampled | NoRoom | Interrupted | Failed
"""What a backend can make of a plan."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Every row was computed, and what it said does not matter: tokens are counted, none is told.

    Attributes:
        times: how often the same rows came in a row, each time one position further; more than once only for a plan
            of decode rows, and never more often than `Scheduler.steady_steps` allows.
    """

    times: int = 1


SimulatedOutcome: TypeAlias = StepOutcome | Counted
"""What a simulated step may come to: a model's answer, or mere progress."""
