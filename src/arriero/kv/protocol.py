"""KvManager: where tokens live, as the scheduler sees it.

A manager keeps books about memory that somebody else holds. It says what has to reach that memory as `KvOp`s,
which the scheduler puts among its events at the place where they belong.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from arriero.core.events import AdmissionSource, KvOp
from arriero.core.ids import RequestId, SequenceId


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
        active_cells: cells held by running requests, including those promised to prompts under way.
        free_cells: cells that nobody holds; active + free = all.
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

    def start(self, request_id: RequestId, num_tokens: int, headroom: int) -> Started | Shortage:
        """Hand out a sequence with places for `num_tokens`, if `headroom` more stay free afterwards.

        `headroom` is waived where no sequence is held, so that what fits alone is never kept out.
        A shortage changes nothing.
        """
        ...

    def grow(self, sequence_id: SequenceId, num_tokens: int) -> Shortage | None:
        """Reserve places for the next tokens of a sequence; a shortage changes nothing.

        Raises:
            InvariantViolation: the sequence is not held.
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
