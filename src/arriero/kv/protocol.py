"""KvManager: where tokens live, as the scheduler sees it.

A manager keeps books about memory that somebody else holds. It says what has to reach that memory as `KvOp`s,
which the scheduler puts among its events at the place where they belong.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from arriero.core.events import AdmissionSource, KvOp
from arriero.core.ids import RequestId, SequenceId, TokenId


class ReleaseCause(Enum):
    """Why a sequence is given back; decides when its id may be used again."""

    COMPLETED = "completed"
    CANCELLED = "cancelled"  # rests for one step
    PREEMPTED = "preempted"


@dataclass(frozen=True, slots=True)
class Started:
    """A sequence with places for all tokens that were asked for.

    Attributes:
        source: how the sequence id became free.
        previous_request_id: who held it before, or None.
    """

    sequence_id: SequenceId
    source: AdmissionSource
    previous_request_id: RequestId | None


@dataclass(frozen=True, slots=True)
class PrefixHit:
    """What a lookup found; a manager may give more in a class of its own, for its `start`.

    Attributes:
        num_tokens: leading tokens that need not be computed.
    """

    num_tokens: int


NO_HIT: Final = PrefixHit(0)


@dataclass(frozen=True, slots=True)
class Shortage:
    """Not enough room; nothing has changed.

    Attributes:
        missing: tokens that would have to be freed; 0 if a sequence id is missing instead.
    """

    missing: int


@dataclass(frozen=True, slots=True)
class KvUsage:
    """Frozen figures.

    Attributes:
        num_cells: cells in all.
        active_cells: cells held by running requests, including those promised to prompts under way; where sequences
            share memory, a shared cell counts for each of them.
        free_cells: the difference of the two; below 0 only where sequences share memory.
        sequences_held: sequence ids in use.
        sequences_free: ids that may be handed out, now or after a rest.
        sequences_quarantined: ids out of service because memory would not clear them.
        largest_sequence: the most cells that one sequence ever held.
    """

    num_cells: int
    active_cells: int
    free_cells: int
    sequences_held: int
    sequences_free: int
    sequences_quarantined: int
    largest_sequence: int


class KvManager(Protocol):
    """Books of one KV memory. Deterministic: the same calls give the same answers."""

    @property
    def sequence_limit(self) -> int:
        """Positions that one sequence can ever hold."""
        ...

    def begin_step(self) -> None:
        """Let ids that rested during the last step be handed out again."""
        ...

    @property
    def is_resting(self) -> bool:
        """Whether an id becomes free at the next `begin_step` without anything else happening."""
        ...

    def lookup(self, tokens: Sequence[TokenId], scope: str | None, limit: int) -> PrefixHit:
        """How many of the first `limit` tokens are in memory already, for this cache scope; changes nothing."""
        ...

    def start(
        self, request_id: RequestId, num_tokens: int, headroom: int, hit: PrefixHit = NO_HIT
    ) -> Started | Shortage:
        """Hand out a sequence with places for `num_tokens`, if `headroom` more stay free afterwards.

        `headroom` is waived where no sequence is held, so that what fits alone is never kept out.
        `hit` is what `lookup` has just said of the same tokens; its part is shared instead of taken anew.
        A shortage changes nothing.
        """
        ...

    def promise(self, sequence_id: SequenceId, length: int) -> None:
        """The step that is being planned computes the first `length` tokens of a sequence, if it does not fail."""
        ...

    def publish(self, sequence_id: SequenceId, length: int) -> None:
        """The first `length` tokens of a sequence are computed, and later lookups may find them."""
        ...

    def grow(self, sequence_id: SequenceId, num_tokens: int) -> Shortage | None:
        """Reserve places for the next tokens of a sequence; a shortage changes nothing.

        Raises:
            InvariantViolation: the sequence is not held.
        """
        ...

    def grow_each(self, sequence_ids: Sequence[SequenceId]) -> bool:
        """One more place for each of these in turn, as by `grow`, if all find one; else False and no change."""
        ...

    def steps_ahead(self, sequence_ids: Sequence[SequenceId]) -> int:
        """For how many steps these can surely grow, one token a step each, with nothing lost by it; at least 0.

        Growing them together by so many tokens is then one call of `grow_together`, and the same as step by step.
        """
        ...

    def grow_together(self, sequence_ids: Sequence[SequenceId], num_tokens: int) -> None:
        """Reserve `num_tokens` places for each of these, as if they had grown by one token in turn, round by round.

        Raises:
            InvariantViolation: there was no room; see `steps_ahead`.
        """
        ...

    def rewind(self, sequence_id: SequenceId, length: int) -> None:
        """Give back the places of a sequence from `length` on; memory forgets them by itself or never saw them."""
        ...

    def release(self, sequence_id: SequenceId, cause: ReleaseCause, num_waiting: int) -> None:
        """Take a sequence back and order its memory cleared.

        Args:
            sequence_id: one that `start` handed out.
            cause: why.
            num_waiting: how many requests wait now; gates put completed slots into a pool only if someone does.

        Raises:
            InvariantViolation: the sequence is not held.
        """
        ...

    def refuse(self, op: KvOp) -> None:
        """Memory did not do `op`; an id that it would not clear goes out of service, whoever holds it."""
        ...

    def take_ops(self) -> tuple[KvOp, ...]:
        """What has to reach the memory now, in order; each op is handed out once."""
        ...

    def usage(self) -> KvUsage:
        """Frozen figures; O(1)."""
        ...

    def check(self) -> None:
        """Verify the books from scratch, in O(sequences).

        Raises:
            InvariantViolation: they do not add up.
        """
        ...
