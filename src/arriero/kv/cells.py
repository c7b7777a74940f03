"""CellManager: llama.cpp's cells, in the unified and in the separate layout.

    unified    one pool of num_cells; any sequence may take any of them
    separate   one stream of num_cells / num_sequences for each sequence id

In both a running request holds one cell for each of its positions, so a sequence's books are one number.
Nothing is shared yet, and nothing is retained after the end of a request.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from arriero.core.errors import ConfigError, InvariantViolation
from arriero.core.events import DropSequence, KvOp
from arriero.core.ids import RequestId, SequenceId, TokenId
from arriero.kv.protocol import NO_HIT, KvUsage, PrefixHit, ReleaseCause, Shortage, Started
from arriero.kv.sequence_ids import LowestFirst, SequenceIds


@dataclass(frozen=True, slots=True, kw_only=True)
class CellLayout:
    """How much there is, and how it is divided.

    Attributes:
        num_sequences: sequence ids of the context.
        num_cells: cells in all.
        sequence_limit: cells that one sequence may hold.
        unified: one pool for all, or a stream of `sequence_limit` cells for each id.
    """

    num_sequences: int
    num_cells: int
    sequence_limit: int
    unified: bool

    def __post_init__(self) -> None:
        """Refuse a division that promises more than there is."""
        promised = self.sequence_limit if self.unified else self.sequence_limit * self.num_sequences
        if self.num_sequences < 1 or self.sequence_limit < 1 or promised > self.num_cells:
            layout = "one pool" if self.unified else "separate streams"
            message = (
                f"{self.num_cells} KV cells in {layout} cannot hold {self.num_sequences} sequences "
                f"of up to {self.sequence_limit} tokens"
            )
            raise ConfigError(message)


class CellManager:
    """Counts cells for each sequence; every verb is O(1) or O(log sequences)."""

    def __init__(self, layout: CellLayout, ids: SequenceIds | None = None) -> None:
        """Start empty; `ids` defaults to lowest first."""
        self._layout = layout
        self._ids: SequenceIds = ids if ids is not None else LowestFirst(layout.num_sequences)
        self._held: dict[SequenceId, int] = {}
        self._last_owner: dict[SequenceId, RequestId] = {}
        self._quarantined: list[SequenceId] = []
        self._ops: list[KvOp] = []
        self._active_cells = 0
        self._largest = 0

    @property
    def sequence_limit(self) -> int:
        """Positions that one sequence can ever hold."""
        return self._layout.sequence_limit

    @property
    def is_resting(self) -> bool:
        """Whether an id becomes free at the next `begin_step` without anything else happening."""
        return self._ids.num_resting > 0

    def begin_step(self) -> None:
        """Let ids that rested during the last step be handed out again."""
        self._ids.begin_step()

    def lookup(self, tokens: Sequence[TokenId], scope: str | None, limit: int) -> PrefixHit:
        """Nothing is shared."""
        del tokens, scope, limit
        return NO_HIT

    def start(
        self, request_id: RequestId, num_tokens: int, headroom: int, hit: PrefixHit = NO_HIT
    ) -> Started | Shortage:
        """Hand out a sequence with places for `num_tokens`, if `headroom` more stay free afterwards."""
        del hit
        missing = self._missing(held=0, more=num_tokens, headroom=headroom if self._held else 0)
        if missing > 0:
            return Shortage(missing)
        taken = self._ids.take()
        if taken is None:
            return Shortage(0)
        sequence_id, source = taken
        self._held[sequence_id] = num_tokens
        self._active_cells += num_tokens
        self._largest = max(self._largest, num_tokens)
        started = Started(sequence_id, source, self._last_owner.get(sequence_id))
        self._last_owner[sequence_id] = request_id
        return started

    def grow(self, sequence_id: SequenceId, num_tokens: int) -> Shortage | None:
        """Reserve places for the next tokens of a sequence; a shortage changes nothing."""
        held = self._cells_of(sequence_id)
        missing = self._missing(held=held, more=num_tokens, headroom=0)
        if missing > 0:
            return Shortage(missing)
        held += num_tokens
        self._held[sequence_id] = held
        self._active_cells += num_tokens
        self._largest = max(self._largest, held)
        return None

    def promise(self, sequence_id: SequenceId, length: int) -> None:
        """Nothing is shared."""

    def publish(self, sequence_id: SequenceId, length: int) -> None:
        """Nothing is shared."""

    def grow_each(self, sequence_ids: Sequence[SequenceId]) -> bool:
        """One more place for each of these, if all find one."""
        held, limit, number = self._held, self._layout.sequence_limit, len(sequence_ids)
        if self._layout.unified and number > self._layout.num_cells - self._active_cells:
            return False
        lengths = [held[each] + 1 for each in sequence_ids]
        longest = max(lengths, default=0)
        if longest > limit:
            return False
        held.update(zip(sequence_ids, lengths, strict=True))
        self._active_cells += number
        self._largest = max(self._largest, longest)
        return True

    def steps_ahead(self, sequence_ids: Sequence[SequenceId]) -> int:
        """As long as the pool, and the nearest of their limits, allow."""
        longest = max((self._held[each] for each in sequence_ids), default=0)
        steps = self._layout.sequence_limit - longest
        if self._layout.unified and sequence_ids:
            steps = min(steps, (self._layout.num_cells - self._active_cells) // len(sequence_ids))
        return steps

    def grow_together(self, sequence_ids: Sequence[SequenceId], num_tokens: int) -> None:
        """Reserve places for each; the order makes no difference here."""
        for sequence_id in sequence_ids:
            if self.grow(sequence_id, num_tokens) is not None:
                message = f"no room for {num_tokens} tokens of sequence {sequence_id}"
                raise InvariantViolation(message)

    def rewind(self, sequence_id: SequenceId, length: int) -> None:
        """Give back the places of a sequence from `length` on."""
        held = self._cells_of(sequence_id)
        if length < held:
            self._held[sequence_id] = length
            self._active_cells -= held - length

    def release(self, sequence_id: SequenceId, cause: ReleaseCause, num_waiting: int) -> None:
        """Take a sequence back and order its memory cleared."""
        self._active_cells -= self._cells_of(sequence_id)
        del self._held[sequence_id]
        self._ops.append(DropSequence(sequence_id))
        if sequence_id not in self._quarantined:
            self._ids.put_back(sequence_id, cause, num_waiting)

    def refuse(self, op: KvOp) -> None:
        """Take an id that memory would not clear out of service; its present holder keeps its books until `release`.

        A refused trim leaves the id in service: its holder gives it back, and clearing it is another operation.
        """
        if isinstance(op, DropSequence) and op.sequence_id not in self._quarantined:
            self._quarantined.append(op.sequence_id)
            self._ids.quarantine(op.sequence_id)

    def take_ops(self) -> tuple[KvOp, ...]:
        """What has to reach the memory now, in order."""
        if not self._ops:
            return ()
        ops = tuple(self._ops)
        self._ops.clear()
        return ops

    def usage(self) -> KvUsage:
        """Frozen figures."""
        return KvUsage(
            num_cells=self._layout.num_cells,
            active_cells=self._active_cells,
            free_cells=self._layout.num_cells - self._active_cells,
            sequences_held=len(self._held),
            sequences_free=self._ids.num_free,
            sequences_quarantined=len(self._quarantined),
            largest_sequence=self._largest,
        )

    def check(self) -> None:
        """Verify the books from scratch."""
        layout = self._layout
        idle = set(self._ids.idle())
        every_id = {SequenceId(i) for i in range(layout.num_sequences)}
        rules = (
            (sum(self._held.values()) == self._active_cells, "held cells do not add up"),
            (0 <= self._active_cells <= layout.num_cells, "more cells held than there are"),
            (all(0 <= n <= layout.sequence_limit for n in self._held.values()), "a sequence exceeds its limit"),
            (not idle & self._held.keys(), "a sequence id is held and free at once"),
            (idle | self._held.keys() | set(self._quarantined) == every_id, "a sequence id got lost"),
        )
        for holds, rule in rules:
            if not holds:
                message = f"{rule}: held {self._held}, idle {sorted(idle)}, active cells {self._active_cells}"
                raise InvariantViolation(message)

    def _missing(self, *, held: int, more: int, headroom: int) -> int:
        """Tokens that are too many for the sequence or for the pool; not above 0 if all fit."""
        over_sequence = held + more - self._layout.sequence_limit
        if not self._layout.unified:
            return over_sequence
        return max(over_sequence, more + headroom - (self._layout.num_cells - self._active_cells))

    def _cells_of(self, sequence_id: SequenceId) -> int:
        try:
            return self._held[sequence_id]
        except KeyError:
            message = f"sequence {sequence_id} is not held"
            raise InvariantViolation(message) from None
