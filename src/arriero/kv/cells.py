"""CellManager: llama.cpp's cells, in the unified and in the separate layout, and the runs that lie in them.

    unified    one pool of num_cells; any sequence may take any of them, and a copy shares those of its source
    separate   one stream of num_cells / num_sequences for each sequence id; a copy takes cells of its own

A sequence id is free, running, retained (a run lies there whose request has ended) or out of service. How a request
comes to its first tokens is in `Origins`, on which id in `IdChoice`, and what becomes of a run in `RetainedRuns`.
Without reuse rules nothing is found and nothing is kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from arriero.core.errors import ConfigError, InvariantViolation
from arriero.core.events import (
    CopySequence,
    DropSequence,
    ForgetSaved,
    KvOp,
    MoveSequence,
    RestoreSequence,
    SavedRun,
    SaveSequence,
    TrimSequence,
)
from arriero.core.ids import RequestId, SequenceId, Time, TokenId
from arriero.kv.books import new_books
from arriero.kv.id_choice import Place, id_choice
from arriero.kv.ledger import OwnStreams, require
from arriero.kv.lookups import RunHit
from arriero.kv.origins import Origins
from arriero.kv.protocol import NO_HIT, KvUsage, PrefixHit, ReleaseCause, Shortage, Started
from arriero.kv.retained import RetainedRuns
from arriero.kv.reuse import CachePicture, EvictionCause, RetainedRun, ReuseFigures, ReuseRules
from arriero.kv.runs import Holding, Prompt
from arriero.kv.sequence_ids import LowestFirst, SequenceIds
from arriero.kv.shared_cells import SharedCells


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
    """Books of cells and runs.

    A request that shares nothing costs O(its tokens) once for the tree, and O(1) or O(log sequences) for each verb.
    What decodes does not touch runs at all, unless cells are short.
    """

    def __init__(
        self,
        layout: CellLayout,
        ids: SequenceIds | None = None,
        *,
        reuse: ReuseRules | None = None,
        swap_tokens: int = 0,
    ) -> None:
        """Start empty; `ids` defaults to lowest first. Without `reuse` nothing is kept for others.

        `swap_tokens` is how much the host store keeps for preempted requests.
        """
        self._layout = layout
        ledger = SharedCells(layout.num_cells) if layout.unified else OwnStreams()
        books = new_books(reuse, ledger, LowestFirst(layout.num_sequences) if ids is None else ids, swap_tokens)
        self._books = books
        self.swaps: Final = books.swapped
        self._ops = books.ops
        self._ids = books.ids
        self._ledger = books.ledger
        self._runs = books.runs
        self._retained = RetainedRuns(books)
        self._origins = Origins(books, self._retained, id_choice(books, self._retained, unified=layout.unified))
        self._held: dict[SequenceId, Holding] = {}

    def adopt(self, runs: Sequence[SavedRun]) -> int:
        """Take over what the host store holds from an earlier life, the least recently used first; before any request.

        Returns how many runs were taken over; the store is told to forget the others.
        """
        return self._books.host.adopt(runs, self._layout.sequence_limit, self._retained.now)

    # ── steps ───────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def sequence_limit(self) -> int:
        """Positions that one sequence can ever hold."""
        return self._layout.sequence_limit

    @property
    def is_resting(self) -> bool:
        """Whether an id becomes free, or may be taken, at the next `begin_step` without anything else happening."""
        return self._ids.num_resting > 0 or self._retained.num_resting > 0

    def begin_step(self, now: Time) -> None:
        """Let ids that rested during the last step be handed out again, and runs go that were unused for too long."""
        self._ids.begin_step()
        self._retained.begin_step(now)

    def take_ops(self) -> tuple[KvOp, ...]:
        """What has to reach the memory now, in order."""
        if not self._ops:
            return ()
        ops = tuple(self._ops)
        self._ops.clear()
        return ops

    # ── a request begins, and its prompt is computed ────────────────────────────────────────────────────────────────

    def lookup(self, tokens: Sequence[TokenId], scope: str | None, limit: int) -> PrefixHit:
        """How many of the first `limit` tokens some run of this scope holds, and may give."""
        return self._runs.lookup(tokens, scope, limit)

    def foreseen(self, tokens: Sequence[TokenId], scope: str | None, limit: int) -> int:
        """How many of them the prompts under way will hold, and may give."""
        return self._runs.foreseen(tokens, scope, limit)

    def leader(self, tokens: Sequence[TokenId], scope: str | None, limit: int) -> SequenceId | None:
        """The sequence of the prompt under way that holds most of them."""
        return self._runs.leader(tokens, scope, limit)

    def start(
        self, request_id: RequestId, num_tokens: int, headroom: int, hit: PrefixHit = NO_HIT
    ) -> Started | Shortage:
        """Hand out a sequence with places for `num_tokens`, if `headroom` more stay free afterwards."""
        origin = self._origins.find(request_id, hit)
        missing = self._origins.missing(origin, num_tokens + (headroom if self._held else 0))
        missing = max(num_tokens - self._layout.sequence_limit, missing)
        if missing > 0:
            return Shortage(missing)
        place = self._origins.choose(origin, hit)
        if place is None:
            return Shortage(0)
        begun = self._origins.begin(place, origin, hit, num_tokens)
        self.swaps.forget(request_id)  # whether it came back just now or is not needed
        self._held[place.sequence_id] = self._holding(place, hit, origin.num_tokens)
        previous = self._ids.change_owner(place.sequence_id, request_id)
        cached, swapped = origin.num_cached, origin.num_swapped_in
        return Started(place.sequence_id, begun.source, previous, cached, begun.prefix, swapped)

    def has_room(self, request_id: RequestId, num_tokens: int, hit: PrefixHit, without: SequenceId | None) -> bool:
        """Whether cells do, those counted that only `without` holds."""
        freed = 0 if without is None else self._ledger.freed_by(without)
        return self._origins.missing(self._origins.find(request_id, hit), num_tokens) <= freed

    def _holding(self, place: Place, hit: PrefixHit, num_there: int) -> Holding:
        if not isinstance(hit, RunHit):
            return Holding(None, None)
        # A list may be somebody's that grows with the answer.
        prompt = Prompt(hit.scope, tuple(hit.tokens) if isinstance(hit.tokens, list) else hit.tokens)
        goes_on = place.resident is not None and place.in_place
        run = place.resident if goes_on and place.resident is not None else self._runs.begin(place.sequence_id)
        if num_there < len(prompt.tokens):
            self._runs.foresee(run, prompt)
        return Holding(prompt, run)

    def held_elsewhere(self, sequence_id: SequenceId) -> int:
        """How many leading tokens of its prompt other runs on sequence ids hold."""
        return self._runs.held_elsewhere(self._holding_of(sequence_id))

    def promise(self, sequence_id: SequenceId, length: int) -> None:
        """The whole prompt is foreseen from the start on."""

    def publish(self, sequence_id: SequenceId, length: int) -> None:
        """The prompt is found as far as these tokens go."""
        holding = self._holding_of(sequence_id)
        if holding.run is not None and holding.prompt is not None and length > holding.num_published:
            self._runs.publish(holding.run, holding.prompt, length)
        holding.num_published = max(length, holding.num_published)

    # ── it decodes ──────────────────────────────────────────────────────────────────────────────────────────────────

    def grow(self, sequence_id: SequenceId, num_tokens: int) -> Shortage | None:
        """Reserve places for the next tokens of a sequence; a shortage changes nothing."""
        self._holding_of(sequence_id)
        over = self._ledger.lengths[sequence_id] + num_tokens - self._layout.sequence_limit
        missing = max(over, self._ledger.missing(num_tokens))
        if missing > 0:
            return Shortage(missing)
        self._retained.make_room(num_tokens)
        self._ledger.grow(sequence_id, num_tokens)
        return None

    def grow_each(self, sequence_ids: Sequence[SequenceId]) -> bool:
        """One more place for each of these, if all find one; runs go for it."""
        limit, number = self._layout.sequence_limit, len(sequence_ids)
        if self._ledger.grow_each(sequence_ids, limit):
            return True
        lengths = self._ledger.lengths
        if self._ledger.missing(number) > 0 or any(lengths[each] >= limit for each in sequence_ids):
            return False
        self._retained.make_room(number)
        return self._ledger.grow_each(sequence_ids, limit)

    def steps_ahead(self, sequence_ids: Sequence[SequenceId]) -> int:
        """As long as free cells, and the nearest of their limits, allow; where something ages, each step counts."""
        if self._retained.is_ageing:
            return 0
        return self._ledger.steps_ahead(sequence_ids, self._layout.sequence_limit)

    def grow_together(self, sequence_ids: Sequence[SequenceId], num_tokens: int) -> None:
        """Reserve places for each; the order makes no difference here."""
        for sequence_id in sequence_ids:
            if self.grow(sequence_id, num_tokens) is not None:
                message = f"no room for {num_tokens} tokens of sequence {sequence_id}"
                raise InvariantViolation(message)

    def rewind(self, sequence_id: SequenceId, length: int) -> None:
        """Give back the places of a sequence from `length` on."""
        holding = self._holding_of(sequence_id)
        if holding.run is not None and length < self._runs.length(holding.run):
            message = f"sequence {sequence_id} is rewound to {length}, into tokens that others may have found"
            raise InvariantViolation(message)
        self._ledger.trim(sequence_id, length)

    def move_down(self, sequence_id: SequenceId) -> SequenceId | None:
        """Move a running sequence to the lowest id on which nobody runs, where ids are streams and their order matters.

        Not before what it was started with is known to be done.
        """
        holding = self._holding_of(sequence_id)
        if self._layout.unified or not holding.num_published:
            return None
        to = self._retained.clear_below(sequence_id)
        if to is None:
            return None
        self._ops += (MoveSequence(sequence_id, to), DropSequence(sequence_id))
        self._books.counts.moved()
        self._ledger.move(sequence_id, to)
        self._held[to] = self._held.pop(sequence_id)
        if holding.run is not None:
            holding.run.sequence_id = to
        self._ids.change_owner(to, self._ids.owner(sequence_id))
        self._ids.put_back(sequence_id, ReleaseCause.EVICTED, 0)
        return to

    # ── it ends ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def release(
        self,
        sequence_id: SequenceId,
        cause: ReleaseCause,
        num_waiting: int,
        computed: Sequence[TokenId] | None = None,
    ) -> None:
        """Take a sequence back; its run is kept, or its memory is ordered cleared."""
        holding = self._holding_of(sequence_id)
        del self._held[sequence_id]
        run, prompt = holding.run, holding.prompt
        if run is not None and prompt is not None:
            may_keep = computed is not None and not run.is_withdrawn and not self._ids.is_quarantined(sequence_id)
            rests = cause is ReleaseCause.CANCELLED
            if may_keep and computed is not None and self._retained.keep(run, prompt, computed, rests=rests):
                return
            self._runs.end(run)
        self._ledger.drop(sequence_id)
        self._ops.append(DropSequence(sequence_id))
        self._ids.put_back(sequence_id, cause, num_waiting)

    def clear_retained(self, cause: EvictionCause) -> None:
        """Drop every retained run; `EvictionCause.ERASED` forgets those in the host store too."""
        self._retained.clear(cause)
        if cause is EvictionCause.ERASED:
            self._books.host.clear(cause)

    def save_retained(self) -> tuple[int, int]:
        """Order a copy in the host store of every retained run that it lacks; returns how many, and their tokens."""
        return self._retained.save_all()

    def refuse(self, op: KvOp) -> None:
        """Memory did not do `op`.

        An id that it would not clear goes out of service; its present holder keeps its books until `release`. Whoever
        was to be filled, trimmed or moved gives its id back, and clearing that is another operation.
        """
        match op:
            case DropSequence(sequence_id):
                run = self._retained.on(sequence_id)
                self._ids.quarantine(sequence_id)
                if run is not None:
                    self._retained.lose(run)
            case TrimSequence(sequence_id) | MoveSequence(_, sequence_id) if self._retained.on(sequence_id) is not None:
                self._retained.refused(sequence_id)
            case CopySequence() | RestoreSequence() | TrimSequence():
                self._origins.refuse(op)
            case SaveSequence():
                self._books.counts.was_refused()
                if not self.swaps.refused(op.key):
                    self._books.host.forget(op.key, EvictionCause.REFUSED, is_told=False)
            case MoveSequence() | ForgetSaved():
                pass
            case _:
                assert_never(op)

    # ── what others may see ─────────────────────────────────────────────────────────────────────────────────────────

    def usage(self) -> KvUsage:
        """Frozen figures."""
        ledger, num_cells = self._ledger, self._layout.num_cells
        active, retained = ledger.active_cells, ledger.retained_cells
        return KvUsage(
            num_cells=num_cells,
            active_cells=active,
            free_cells=num_cells - active - retained,
            sequences_held=len(self._held),
            sequences_free=self._ids.num_free,
            sequences_quarantined=self._ids.num_quarantined,
            largest_sequence=ledger.largest,
            held_tokens=ledger.held_tokens,
            retained_cells=retained,
            sequences_retained=len(self._retained),
            swapped_requests=len(self.swaps),
            swapped_tokens=self.swaps.num_tokens,
        )

    def retained(self) -> tuple[RetainedRun, ...]:
        """Every run that is kept: those on sequence ids, then those in the host store, least recently used first."""
        return (*self._retained.figures(), *self._books.host.runs())

    def reuse_figures(self) -> ReuseFigures | None:
        """Frozen figures, the same object as long as nothing changes; None without rules."""
        return None if self._books.rules is None else self._figures()

    def picture(self) -> CachePicture | None:
        """All that is kept; None without rules."""
        if self._books.rules is None:
            return None
        trees, host_trees = (
            tuple((scope, trees.picture(scope)) for scope in trees.scopes)
            for trees in (self._runs.trees, self._books.host.trees)
        )
        return CachePicture(self._figures(), self.retained(), trees, host_trees)

    def check(self) -> None:
        """Verify the books from scratch, in O(sequences + tokens of all runs)."""
        self._ledger.check()
        self._runs.check()
        self._retained.check()
        self._books.host.check()
        self.swaps.check()
        held, retained = set(self._held), {run.sequence_id for run in self._retained}
        idle, lengths = set(self._ids.idle()), dict(self._ledger.lengths)
        every_id = {SequenceId(i) for i in range(self._layout.num_sequences)}
        rules = (
            (all(0 <= n <= self._layout.sequence_limit for n in lengths.values()), "a sequence exceeds its limit"),
            (not held & retained, "a sequence runs and is retained at once"),
            (held | retained == set(lengths), "a sequence has cells and nobody has it, or the reverse"),
            (not idle & lengths.keys(), "a sequence id is held and free at once"),
            (idle | set(lengths) | set(self._ids.quarantined()) == every_id, "a sequence id got lost"),
            (
                all(
                    holding.run is None or self._runs.length(holding.run) <= lengths[each]
                    for each, holding in self._held.items()
                ),
                "a running sequence is found with more than it holds",
            ),
        )
        require(rules, f"held {lengths}, retained {sorted(retained)}, idle {sorted(idle)}")

    def _figures(self) -> ReuseFigures:
        ledger, host = self._ledger, self._books.host
        return self._books.counts.figures(
            retained=(len(self._retained), ledger.retained_cells, ledger.shared_cells),
            host=(len(host), host.num_tokens),
        )

    def _holding_of(self, sequence_id: SequenceId) -> Holding:
        try:
            return self._held[sequence_id]
        except KeyError:
            message = f"sequence {sequence_id} is not held"
            raise InvariantViolation(message) from None
