"""StepDraft: one step while it is being filled.

A planner offers candidates in its own order; the draft takes them or says why not. It owns what still fits: rows of
the batch, prefill rows, time, slots and KV. Nothing that it has taken is ever given up again within the step.

How many prompt rows fit into a time depends on all other rows, so decode rows are offered before prompts where there is
a target.
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from arriero.core.errors import ConfigError
from arriero.core.ids import SequenceId
from arriero.core.plan import Cap, Deferral, Deferred, OverTarget, PrefillChunk, Row, StepShape
from arriero.costmodel.passes import Stretch
from arriero.kv.protocol import PrefixHit
from arriero.scheduler.progress import Progress
from arriero.scheduler.prompt_caps import PromptCaps
from arriero.scheduler.room import Room
from arriero.scheduler.step_target import Allowance, StepTarget


@dataclass(frozen=True, slots=True)
class PrefillBudget:
    """What prompts may take of a step; None is unbounded.

    Attributes:
        per_sequence: rows of one sequence, at least 1.
        per_step: rows of all sequences together, at least 1.
        within: the time of a step in which somebody decodes; bounds rows by what they take.
    """

    per_sequence: int | None = None
    per_step: int | None = None
    within: StepTarget | None = None

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
        over_target: why the step takes longer than its target, as far as prompts were taken; or None.
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
        self.over_target: OverTarget | None = None
        self._room = room
        self._rows: dict[SequenceId, Row] = {}
        self._rows_left = num_rows
        self._sequences_left = num_sequences
        self._deferred: list[Deferred] | None = [] if names_deferred else None
        self._budget = budget
        self._prompts: PromptCaps | None = None  # made for the first prompt
        self._num_chunks = 0
        self._is_apart = False

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
        return () if self._prompts is None else tuple(self._prompts.hit)

    def pool_cells(self) -> int:
        """Cells in use before the rows of this step."""
        return self._room.cells_in_use() - self._num_decode_rows

    def chunk_limit(self, progress: Progress, limit: int) -> int:
        """Rows, at most `limit`, that the batch, the caps and the target still allow a prompt; notes what bites."""
        allowance = self._allow(progress, limit)
        self._caps.note(allowance.cap)
        return allowance.num_rows

    def let_wait(self, decoding: Iterable[Progress], perhaps: Progress) -> None:
        """Some get their next token in a step of their own behind this one, so they wait for both.

        Args:
            decoding: who they are; if nobody is, nobody waits.
            perhaps: is among them if this step comes to the end of its prompt.
        """
        metered = self._caps.metered
        if metered is None:
            return
        rows = sorted(_next_row(each) for each in decoding)
        if rows:
            metered.let_wait(rows, sorted((*rows, _next_row(perhaps))))

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
        allowance = self._allow(progress, limit)
        self._caps.settle(allowance)
        self.over_target = self.over_target or allowance.over
        if allowance.num_rows < 1:
            return self.defer(progress, Deferral.ROWS if self._rows_left < 1 else Deferral.PREFILL_BUDGET)
        self._take(progress, allowance.num_rows)
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

    def lend(self, progress: Progress) -> None:
        """Let whoever computes the prefix that a waiting request waits for go as early as that one would."""
        self._room.lend(progress)

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
        self._caps.take(num_rows)
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

    @property
    def _caps(self) -> PromptCaps:
        """Made for the first prompt of a step, as most steps have none."""
        if self._prompts is None:
            budget = self._budget
            per_step = self.num_rows if budget.per_step is None else budget.per_step
            self._prompts = PromptCaps(budget.per_sequence, per_step, budget.within)
        return self._prompts

    @property
    def _num_decode_rows(self) -> int:
        return len(self._rows) - self._num_chunks

    def _allow(self, progress: Progress, limit: int | None) -> Allowance:
        """Rows that the caps, the planner's own limit and the target allow one chunk."""
        remaining = progress.num_remaining
        by_count = self._caps.allow(remaining, self._rows_left)
        num_rows = by_count.num_rows if limit is None else min(by_count.num_rows, limit)
        metered = self._caps.metered
        if metered is None or num_rows < 1 or not (self._num_decode_rows or metered.others_wait):
            return Allowance(num_rows, by_count.cap)
        chunk = Stretch(progress.held_sequence, progress.num_computed, num_rows, num_rows == remaining)
        in_time = metered.allow(self.rows(), chunk, self.pool_cells() if metered.counts_pool else 0)
        return Allowance(in_time.num_rows, in_time.cap or by_count.cap, in_time.over)


def _shape_alone(row: Row) -> StepShape:
    is_chunk = isinstance(row, PrefillChunk)
    return StepShape(
        decode_rows=0 if is_chunk else 1,
        prefill_rows=row.num_rows if is_chunk else 0,
        prefill_chunks=int(is_chunk),
        context_tokens=row.start,
        num_running=1,
    )


def _next_row(progress: Progress) -> Stretch:
    """The decode row that a request will have once everything that it knows is computed."""
    return Stretch(progress.held_sequence, progress.num_known, 1, wants_logits=True)
