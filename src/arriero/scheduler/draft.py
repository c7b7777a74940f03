"""StepDraft: one step while it is being filled.

A planner offers candidates in its own order; the draft takes them or says why not. It owns what still fits: rows of
the batch, prefill rows, slots and KV. Nothing that it has taken is ever given up again within the step.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from arriero.core.errors import ConfigError
from arriero.core.ids import SequenceId
from arriero.core.plan import Cap, Deferral, Deferred, PrefillChunk, Row, StepShape
from arriero.kv.protocol import PrefixHit
from arriero.scheduler.progress import Progress
from arriero.scheduler.room import Room


@dataclass(frozen=True, slots=True)
class PrefillBudget:
    """Prompt rows that a step may take, at least 1; None is unbounded.

    Attributes:
        per_sequence: rows of one sequence.
        per_step: rows of all sequences together.
    """

    per_sequence: int | None = None
    per_step: int | None = None

    def __post_init__(self) -> None:
        """Refuse a cap under which no prompt would ever get on."""
        for name, cap in (("per_sequence", self.per_sequence), ("per_step", self.per_step)):
            if cap is not None and cap < 1:
                message = f"prefill budget {name} must be at least 1, or None for no bound, not {cap}"
                raise ConfigError(message)


UNMETERED = PrefillBudget()


class StepDraft:
    """Rows of one step, at most one entry for each sequence.

    Attributes:
        deferrals: how many candidates were not taken, by reason.
        num_rows: rows of the batch.
    """

    def __init__(
        self,
        room: Room,
        *,
        num_rows: int,
        budget: PrefillBudget,
        num_sequences: int = sys.maxsize,
        names_deferred: bool = False,
    ) -> None:
        """Start empty, with so many rows for so many sequences to give away.

        With `names_deferred` those not taken are listed, not only counted.
        """
        self.deferrals: dict[Deferral, int] = {}
        self.num_rows = num_rows
        self._room = room
        self._rows: dict[SequenceId, Row] = {}
        self._rows_left = num_rows
        self._sequences_left = num_sequences
        self._deferred: list[Deferred] | None = [] if names_deferred else None
        self._budget = budget
        self._prefill_left = num_rows if budget.per_step is None else budget.per_step
        self._caps: list[Cap] = []
        self._num_chunks = 0
        self._is_apart = False

    @property
    def chunk_limit(self) -> int:
        """Rows that the batch and both caps still allow one prompt."""
        return self._tightest()[0]

    @property
    def rows_left(self) -> int:
        """Rows that nobody has taken yet."""
        return self._rows_left

    @property
    def names_deferred(self) -> bool:
        """Whether each candidate that is not taken has to be offered, to be listed."""
        return self._deferred is not None

    @property
    def deferred(self) -> tuple[Deferred, ...]:
        """Who was not taken, in the order of the offers, if that was asked for."""
        return tuple(self._deferred or ())

    @property
    def caps_hit(self) -> tuple[Cap, ...]:
        """What kept prompt rows out, in the order first met."""
        return tuple(self._caps)

    def decode(self, progress: Progress) -> Deferral | None:
        """Take the one row of a decoding request; None if taken."""
        # `lack` written out: once a row, in every step of the live engine.
        if self._rows_left < 1 or self._sequences_left < 1:
            return self.defer(progress, Deferral.ROWS if self._rows_left < 1 else Deferral.SEQUENCES)
        reason = self._room.extend(progress, self._rows)
        if reason is not None:
            return self.defer(progress, reason)
        row = progress.decode_row()
        self._rows[row.sequence_id] = row
        self._rows_left -= 1
        self._sequences_left -= 1
        return None

    def decode_together(self, group: Sequence[Progress]) -> bool:
        """Take the rows of several decoding requests, as by `decode` in turn, if all fit; else no change."""
        number = len(group)
        if number > self._rows_left or number > self._sequences_left:
            return False
        rows = group[0].decode_rows(group) if group else []
        sequence_ids = [row.sequence_id for row in rows]
        if not self._room.extend_each(sequence_ids):
            return False
        self._rows.update(zip(sequence_ids, rows, strict=True))
        self._rows_left -= number
        self._sequences_left -= number
        return True

    def prefill(self, progress: Progress, limit: int | None = None) -> Deferral | None:
        """Take as many of the next known tokens of a running request as fit; None if any were taken.

        Args:
            progress: a request that holds a slot.
            limit: a bound of the planner's own, at least 1.
        """
        remaining = progress.num_remaining
        num_rows = min(remaining, self._chunk_limit(remaining), remaining if limit is None else limit)
        if num_rows < 1:
            return self.defer(progress, Deferral.ROWS if self._rows_left < 1 else Deferral.PREFILL_BUDGET)
        self._take(progress, num_rows)
        return None

    def closed_to_all(self) -> Deferral | None:
        """Why nobody can start any more in this step, whoever it is; None if somebody may."""
        return self._room.closed_to_all()

    def lookup(self, progress: Progress) -> PrefixHit:
        """How much of a waiting request's prompt is in memory already."""
        return self._room.lookup(progress)

    def foreseen(self, progress: Progress) -> int:
        """How much of it will be, once the prompts that are being computed now are."""
        return self._room.foreseen(progress)

    def start(self, progress: Progress, hit: PrefixHit | None = None) -> Deferral | None:
        """Give a waiting request a slot; its prompt rows are a matter of `prefill`.

        `hit` is what `lookup` has just said; None looks it up.
        """
        reason = self._room.admit(progress, hit)
        return None if reason is None else self.defer(progress, reason)

    def overtake(self, progress: Progress, hit: PrefixHit) -> Deferral | None:
        """As `start`, of a request before which another one waits; one that does not fit is offered again at its turn.

        So it is not counted as deferred here.
        """
        return self._room.overtake(progress, hit)

    def start_whole(self, progress: Progress) -> Deferral | None:
        """Give a waiting request a slot and compute its whole prompt in this step, or say why not and change nothing.

        Rows are asked for first, then sequences, then memory; what a cache holds needs no rows.
        """
        if self._sequences_left < 1 and progress.num_known <= self._rows_left:
            # Rows would do, whatever the cache holds: nothing has to be looked up for all who wait behind the last one.
            return self.defer(progress, Deferral.SEQUENCES)
        hit = self._room.lookup(progress)
        num_rows = progress.num_known - hit.num_tokens
        reason = self.lack(num_rows) or self._room.admit(progress, hit)
        if reason is not None:
            return self.defer(progress, reason)
        self._take(progress, num_rows)
        return None

    def defer_all(self, reason: Deferral, number: int) -> None:
        """Count candidates that nobody needs to look at one by one."""
        if number:
            self.deferrals[reason] = self.deferrals.get(reason, 0) + number

    def compute_apart(self) -> None:
        """Let each sequence be computed in a call of its own."""
        self._is_apart = True

    def rows(self) -> tuple[Row, ...]:
        """What was taken, ascending by sequence id: llama.cpp computes such a run in one pass over the weights."""
        ascending = sorted(self._rows)
        if ascending == list(self._rows):
            return tuple(self._rows.values())
        return tuple(map(self._rows.__getitem__, ascending))

    def shape(self, num_running: int) -> StepShape:
        """The counts of what was taken."""
        rows = self._rows.values()
        num_decode, starts = len(rows) - self._num_chunks, [row.start for row in rows]
        return StepShape(
            decode_rows=num_decode,
            prefill_rows=self.num_rows - self._rows_left - num_decode,
            prefill_chunks=self._num_chunks,
            context_tokens=sum(starts),
            num_running=num_running,
            calls=tuple(_shape_alone(self._rows[each]) for each in sorted(self._rows)) if self._is_apart else (),
        )

    def _take(self, progress: Progress, num_rows: int) -> None:
        row = progress.chunk(num_rows)
        self._rows[row.sequence_id] = row
        self._num_chunks += 1
        self._rows_left -= num_rows
        self._prefill_left -= num_rows
        self._sequences_left -= 1
        self._room.promise(row)

    def lack(self, num_rows: int) -> Deferral | None:
        """Why nobody can take so many rows any more, or None."""
        if num_rows > self._rows_left:
            return Deferral.ROWS
        return Deferral.SEQUENCES if self._sequences_left < 1 else None

    def defer(self, progress: Progress, reason: Deferral) -> Deferral:
        """Count a candidate that is not taken, and name it if that was asked for; returns the reason."""
        self.deferrals[reason] = self.deferrals.get(reason, 0) + 1
        if self._deferred is not None:
            self._deferred.append(Deferred(progress.request.request_id, reason))
        return reason

    def _chunk_limit(self, remaining: int) -> int:
        """Rows that the caps allow one chunk; notes the tightest cap if it bites."""
        limit, cap = self._tightest()
        if limit < remaining and cap not in self._caps:
            self._caps.append(cap)
        return limit

    def _tightest(self) -> tuple[int, Cap]:
        tightest = (self._rows_left, Cap.BATCH)
        if self._prefill_left < tightest[0]:
            tightest = (self._prefill_left, Cap.PER_STEP)
        if self._budget.per_sequence is not None and self._budget.per_sequence < tightest[0]:
            tightest = (self._budget.per_sequence, Cap.PER_SEQUENCE)
        return tightest


def _shape_alone(row: Row) -> StepShape:
    is_chunk = isinstance(row, PrefillChunk)
    return StepShape(
        decode_rows=0 if is_chunk else 1,
        prefill_rows=row.num_rows if is_chunk else 0,
        prefill_chunks=int(is_chunk),
        context_tokens=row.start,
        num_running=1,
    )
