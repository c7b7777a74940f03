"""KvManager: where tokens live, as the scheduler sees it.

A manager keeps books about memory that somebody else holds. It says what has to reach that memory as `KvOp`s,
which the scheduler puts among its events at the place where they belong.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol

from arriero.core.events import AdmissionSource, KvOp, PrefixSource, ReuseVerdict
from arriero.core.ids import RequestId, SequenceId, Time, TokenId
from arriero.kv.reuse import CachePicture, EvictionCause, RetainedRun, ReuseFigures


class ReleaseCause(Enum):
    """Why a sequence is given back; decides when its id may be used again."""

    COMPLETED = "completed"
    CANCELLED = "cancelled"  # rests for one step
    PREEMPTED = "preempted"
    EVICTED = "evicted"  # nobody ran on it: a retained run lay there


@dataclass(frozen=True, slots=True)
class Started:
    """A sequence with places for all tokens that were asked for.

    Attributes:
        source: how the sequence id became free.
        previous_request_id: who held it before, or None.
        num_cached: leading tokens that need not be computed, once the ordered operations are done.
        prefix: where they come from; None if there are none.
        num_swapped_in: the same of a request whose own KV comes back, and then none of them is cached.
    """

    sequence_id: SequenceId
    source: AdmissionSource
    previous_request_id: RequestId | None
    num_cached: int = 0
    prefix: PrefixSource | None = None
    num_swapped_in: int = 0

    @property
    def num_there(self) -> int:
        """Leading tokens that need not be computed, wherever they come from."""
        return self.num_cached + self.num_swapped_in


@dataclass(frozen=True, slots=True)
class PrefixHit:
    """What a lookup found; a manager may give more in a class of its own, for its `start`.

    Attributes:
        num_tokens: leading tokens that need not be computed.
        verdict: why so many.
        num_matched: leading tokens that are in memory, reused or not.
    """

    num_tokens: int
    verdict: ReuseVerdict = field(default=ReuseVerdict.DISABLED, kw_only=True)
    num_matched: int = field(default=0, kw_only=True)


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
        active_cells: cells that running requests hold, including those promised to prompts under way; each cell once,
            however many share it (a `BlockManager` counts it for each of them).
        free_cells: those that nobody holds: all less active and retained ones.
        sequences_held: sequence ids in use.
        sequences_free: ids that may be handed out, now or after a rest; no run lies there.
        sequences_quarantined: ids out of service because memory would not clear them.
        largest_sequence: the most cells that one sequence ever held.
        held_tokens: positions of all running requests, shared ones for each of them.
        retained_cells: cells that only retained runs hold.
        sequences_retained: ids that nobody runs on and where a run lies; given up where an id is missing.
        swapped_requests: preempted requests whose KV is kept outside until they run again.
        swapped_tokens: what is kept for them.
    """

    num_cells: int
    active_cells: int
    free_cells: int
    sequences_held: int
    sequences_free: int
    sequences_quarantined: int
    largest_sequence: int
    held_tokens: int
    retained_cells: int = 0
    sequences_retained: int = 0
    swapped_requests: int = 0
    swapped_tokens: int = 0


class Swaps(Protocol):
    """What preempted requests have computed, kept outside until each of them runs again."""

    def save(self, request_id: RequestId, sequence_id: SequenceId, length: int) -> bool:
        """Order that the first `length` positions of a running sequence are kept for its request.

        To be asked right before `KvManager.release`. False, and no change, where there is no room, or no such place.
        Memory may still refuse it later; the request is then computed again, and nobody is harmed.
        """
        ...

    def length(self, request_id: RequestId) -> int:
        """Tokens that are kept for a request; 0 if there are none."""
        ...

    def forget(self, request_id: RequestId) -> None:
        """A request has ended without running again; without anything kept it changes nothing."""
        ...


class KvManager(Protocol):
    """Books of one KV memory. Deterministic: the same calls give the same answers."""

    @property
    def sequence_limit(self) -> int:
        """Positions that one sequence can ever hold."""
        ...

    def begin_step(self, now: Time) -> None:
        """Let ids that rested during the last step be handed out again, and runs go that were unused for too long."""
        ...

    @property
    def is_resting(self) -> bool:
        """Whether an id becomes free at the next `begin_step` without anything else happening."""
        ...

    def lookup(self, tokens: Sequence[TokenId], scope: str | None, limit: int) -> PrefixHit:
        """How many of the first `limit` tokens are in memory already, for this cache scope; changes nothing."""
        ...

    def foreseen(self, tokens: Sequence[TokenId], scope: str | None, limit: int) -> int:
        """How many of them `lookup` will find once the prompts that are being computed now are.

        0 where none of these begins like them, so it may be less than what `lookup` finds today. Changes nothing.
        """
        ...

    def leader(self, tokens: Sequence[TokenId], scope: str | None, limit: int) -> SequenceId | None:
        """The sequence that computes what `foreseen` counts; None where that is nothing. Changes nothing."""
        ...

    def start(
        self, request_id: RequestId, num_tokens: int, headroom: int, hit: PrefixHit = NO_HIT
    ) -> Started | Shortage:
        """Hand out a sequence with places for `num_tokens`, if `headroom` more stay free afterwards.

        `headroom` is waived where no sequence is held, so that what fits alone is never kept out.
        `hit` is what `lookup` has just said of the same tokens; its part is shared instead of taken anew, as far as it
        is still there: see `Started.num_cached`. Retained runs go where room or an id is missing.
        A request that `swaps` keeps something for gets that back, unless its hit gives as much; it is kept no longer.
        What memory has to do for it is ordered, and taken by `take_ops`. A shortage changes nothing.
        """
        ...

    def has_room(self, request_id: RequestId, num_tokens: int, hit: PrefixHit, without: SequenceId | None) -> bool:
        """Whether there are cells for a start with so many places, headroom included, if `without` were gone.

        Says nothing of sequence ids, and changes nothing.
        """
        ...

    @property
    def swaps(self) -> Swaps:
        """Where the KV of requests goes that are preempted."""
        ...

    def held_elsewhere(self, sequence_id: SequenceId) -> int:
        """How many leading tokens of a running sequence's prompt other sequences hold too, as far as they are known.

        Its request could start from them if it lost its KV. Changes nothing. O(tokens x log tokens) at most.
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

    def release(
        self,
        sequence_id: SequenceId,
        cause: ReleaseCause,
        num_waiting: int,
        computed: Sequence[TokenId] | None = None,
    ) -> None:
        """Take a sequence back; order its memory cleared, unless its run is retained.

        Args:
            sequence_id: one that `start` handed out.
            cause: why.
            num_waiting: how many requests wait now; gates put completed slots into a pool only if someone does.
            computed: the tokens whose KV is present, from the first position on, if others may start from them; what
                the sequence holds beyond them is given back. None: they are forgotten.

        Raises:
            InvariantViolation: the sequence is not held.
        """
        ...

    def move_down(self, sequence_id: SequenceId) -> SequenceId | None:
        """Move a running sequence to the lowest id below its own on which nobody runs, and order it.

        Returns the new id; None, and no change, where there is none, where it would cost a run that cannot be put
        elsewhere, or where the order of ids does not matter.
        """
        ...

    def clear_retained(self, cause: EvictionCause) -> None:
        """Drop every retained run; `EvictionCause.ERASED` forgets those in the host store too."""
        ...

    def save_retained(self) -> tuple[int, int]:
        """Order a copy in the host store of every retained run that it lacks.

        Returns how many, and their tokens; runs for which the store has no room are left out.
        """
        ...

    def refuse(self, op: KvOp) -> None:
        """Memory did not do `op`.

        An id that it would not clear goes out of service, whoever holds it. A run that could not be copied, restored
        or trimmed is given up, so that the request that asked for it computes everything the next time.
        """
        ...

    def take_ops(self) -> tuple[KvOp, ...]:
        """What has to reach the memory now, in order; each op is handed out once."""
        ...

    def usage(self) -> KvUsage:
        """Frozen figures; O(1)."""
        ...

    def retained(self) -> tuple[RetainedRun, ...]:
        """Every run that is kept: those on sequence ids, then those in the host store, least recently used first."""
        ...

    def reuse_figures(self) -> ReuseFigures | None:
        """Frozen figures; None where nothing is ever reused. O(1) unless something has changed."""
        ...

    def picture(self) -> CachePicture | None:
        """All that is kept, for people to look at; None where nothing is ever reused. O(runs)."""
        ...

    def check(self) -> None:
        """Verify the books from scratch, in O(sequences + tokens of all runs).

        Raises:
            InvariantViolation: they do not add up.
        """
        ...
