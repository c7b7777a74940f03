"""PlaceManager: sequence ids and nothing else; every sequence may grow without end.

For simulations in which only the number of running requests is limited. It counts tokens, so that the books of a
scheduler can be checked, and the memory is always exactly as large as what is held.
"""

import sys
from collections.abc import Sequence
from typing import Final

from arriero.core.errors import InvariantViolation
from arriero.core.events import DropSequence, KvOp
from arriero.core.ids import RequestId, SequenceId, Time, TokenId
from arriero.kv.nothing_retained import NothingRetained
from arriero.kv.protocol import NO_HIT, KvUsage, PrefixHit, ReleaseCause, Shortage, Started
from arriero.kv.sequence_ids import LowestFirst

ENDLESS: Final = sys.maxsize
"""More tokens than anything holds."""


class PlaceManager(NothingRetained):
    """A number of sequence ids, lowest first; every verb is O(log ids)."""

    def __init__(self, num_sequences: int) -> None:
        """Start with all ids free."""
        self._ids = LowestFirst(num_sequences)
        self._held: dict[SequenceId, int] = {}
        self._last_owner: dict[SequenceId, RequestId] = {}
        self._num_tokens = 0
        self._largest = 0

    @property
    def sequence_limit(self) -> int:
        """No limit that anything reaches."""
        return ENDLESS

    @property
    def is_resting(self) -> bool:
        """Whether an id becomes free at the next `begin_step` without anything else happening."""
        return self._ids.num_resting > 0

    def begin_step(self, now: Time) -> None:
        """Let ids that rested during the last step be handed out again."""
        del now
        self._ids.begin_step()

    def lookup(self, tokens: Sequence[TokenId], scope: str | None, limit: int) -> PrefixHit:
        """Nothing is shared."""
        del tokens, scope, limit
        return NO_HIT

    def start(
        self, request_id: RequestId, num_tokens: int, headroom: int, hit: PrefixHit = NO_HIT
    ) -> Started | Shortage:
        """Hand out the lowest free id."""
        del headroom, hit
        taken = self._ids.take()
        if taken is None:
            return Shortage(0)
        sequence_id, source = taken
        self._held[sequence_id] = 0
        self._add(sequence_id, num_tokens)
        started = Started(sequence_id, source, self._last_owner.get(sequence_id))
        self._last_owner[sequence_id] = request_id
        return started

    def promise(self, sequence_id: SequenceId, length: int) -> None:
        """Nothing is shared."""

    def publish(self, sequence_id: SequenceId, length: int) -> None:
        """Nothing is shared."""

    def grow(self, sequence_id: SequenceId, num_tokens: int) -> None:
        """Count more tokens of a sequence."""
        self._add(sequence_id, num_tokens)

    def grow_each(self, sequence_ids: Sequence[SequenceId]) -> bool:
        """Count one more token of each."""
        self.grow_together(sequence_ids, 1)
        return True

    def steps_ahead(self, sequence_ids: Sequence[SequenceId]) -> int:
        """As many as anybody may ask for."""
        del sequence_ids
        return ENDLESS

    def grow_together(self, sequence_ids: Sequence[SequenceId], num_tokens: int) -> None:
        """Count more tokens of each."""
        for sequence_id in sequence_ids:
            self._add(sequence_id, num_tokens)

    def rewind(self, sequence_id: SequenceId, length: int) -> None:
        """Count only the first `length` tokens of a sequence."""
        held = self._tokens_of(sequence_id)
        if length < held:
            self._add(sequence_id, length - held)

    def release(
        self,
        sequence_id: SequenceId,
        cause: ReleaseCause,
        num_waiting: int,
        computed: Sequence[TokenId] | None = None,
    ) -> None:
        """Take a sequence back; there is no memory to clear, and nothing is retained."""
        del computed
        self._num_tokens -= self._tokens_of(sequence_id)
        del self._held[sequence_id]
        self._ids.put_back(sequence_id, cause, num_waiting)

    def refuse(self, op: KvOp) -> None:
        """Nothing is ever ordered, so nothing can be refused.

        Raises:
            InvariantViolation: always.
        """
        where = op.sequence_id if isinstance(op, DropSequence) else op
        message = f"no memory stands behind sequence {where}"
        raise InvariantViolation(message)

    def take_ops(self) -> tuple[KvOp, ...]:
        """Nothing has to reach any memory."""
        return ()

    def usage(self) -> KvUsage:
        """Frozen figures; all cells are in use, as there are exactly so many."""
        return KvUsage(
            num_cells=self._num_tokens,
            active_cells=self._num_tokens,
            free_cells=0,
            sequences_held=len(self._held),
            sequences_free=self._ids.num_free,
            sequences_quarantined=0,
            largest_sequence=self._largest,
            held_tokens=self._num_tokens,
        )

    def check(self) -> None:
        """Verify the books from scratch."""
        if sum(self._held.values()) != self._num_tokens or self._held.keys() & self._ids.idle():
            message = f"places do not add up: held {self._held}, tokens {self._num_tokens}"
            raise InvariantViolation(message)

    def _add(self, sequence_id: SequenceId, num_tokens: int) -> None:
        held = self._tokens_of(sequence_id) + num_tokens
        self._held[sequence_id] = held
        self._num_tokens += num_tokens
        self._largest = max(self._largest, held)

    def _tokens_of(self, sequence_id: SequenceId) -> int:
        try:
            return self._held[sequence_id]
        except KeyError:
            message = f"sequence {sequence_id} is not held"
            raise InvariantViolation(message) from None
