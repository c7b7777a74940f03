"""StepDraft: one step while it is being filled.

A planner offers candidates in its own order; the draft takes them or says why not. It owns what still fits: rows of
the batch, prefill rows, slots and KV. Nothing that it has taken is ever given up again within the step.
"""

from collections.abc import Container
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from arriero.core.errors import ConfigError
from arriero.core.ids import SequenceId
from arriero.core.plan import Cap, PrefillChunk, Row, StepShape
from arriero.scheduler.progress import Progress


class Deferral(StrEnum):
    """Why a candidate is not in this step."""

    ROWS = "rows"
    PREFILL_BUDGET = "prefill_budget"
    SLOTS = "slots"
    KV = "kv"
    YIELDED = "yielded"  # it gave its own KV back


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


class Room(Protocol):
    """What the draft asks of its scheduler: places in KV memory, at the expense of others if need be."""

    def admit(self, progress: Progress) -> Deferral | None:
        """Give a waiting request a slot with places for all its known tokens, or say why not and change nothing."""
        ...

    def extend(self, progress: Progress, taken: Container[SequenceId]) -> bool:
        """One more place for a running request.

        May preempt others whose sequence is not in `taken`, or the request itself; only then it is False.
        """
        ...


class StepDraft:
    """Rows of one step, at most one entry for each sequence."""

    def __init__(self, room: Room, *, num_rows: int, budget: PrefillBudget) -> None:
        """Start empty, with `num_rows` rows to give away."""
        self._room = room
        self._rows: dict[SequenceId, Row] = {}
        self._num_rows = num_rows
        self._rows_left = num_rows
        self._budget = budget
        self._prefill_left = num_rows if budget.per_step is None else budget.per_step
        self._caps: list[Cap] = []

    @property
    def chunk_limit(self) -> int:
        """Rows that the batch and both caps still allow one prompt."""
        return self._tightest()[0]

    @property
    def caps_hit(self) -> tuple[Cap, ...]:
        """What kept prompt rows out, in the order first met."""
        return tuple(self._caps)

    def decode(self, progress: Progress) -> Deferral | None:
        """Take the one row of a decoding request; None if taken."""
        if self._rows_left < 1:
            return Deferral.ROWS
        if not self._room.extend(progress, self._rows):
            return Deferral.YIELDED
        row = progress.decode_row()
        self._rows[row.sequence_id] = row
        self._rows_left -= 1
        return None

    def prefill(self, progress: Progress, limit: int | None = None) -> Deferral | None:
        """Take as many of the next known tokens of a running request as fit; None if any were taken.

        Args:
            progress: a request that holds a slot.
            limit: a bound of the planner's own, at least 1.
        """
        remaining = progress.num_remaining
        num_rows = min(remaining, self._chunk_limit(remaining), remaining if limit is None else limit)
        if num_rows < 1:
            return Deferral.ROWS if self._rows_left < 1 else Deferral.PREFILL_BUDGET
        row = progress.chunk(num_rows)
        self._rows[row.sequence_id] = row
        self._rows_left -= num_rows
        self._prefill_left -= num_rows
        return None

    def start(self, progress: Progress) -> Deferral | None:
        """Give a waiting request a slot; its prompt rows are a matter of `prefill`."""
        return self._room.admit(progress)

    def rows(self) -> tuple[Row, ...]:
        """What was taken, ascending by sequence id: llama.cpp computes such a run in one pass over the weights."""
        return tuple(map(self._rows.__getitem__, sorted(self._rows)))

    def shape(self, num_running: int) -> StepShape:
        """The counts of what was taken."""
        rows = self._rows.values()
        num_chunks = [type(row) for row in rows].count(PrefillChunk)
        starts = [row.start for row in rows]
        num_decode = len(rows) - num_chunks
        return StepShape(
            decode_rows=num_decode,
            prefill_rows=self._num_rows - self._rows_left - num_decode,
            prefill_chunks=num_chunks,
            context_tokens=sum(starts),
            num_running=num_running,
        )

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
