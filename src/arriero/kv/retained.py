"""RetainedRuns: sequences whose requests have ended and whose cells are kept, until somebody needs room.

    running ── release ──▶ retained ── taken over in place ──▶ running
                             │
                             ├─ saved, dropped ──▶ host store        a request needs the id or the cells, or too many
                             └─ dropped                              too old, superseded, refused, or no store

Least recently used goes first. A run that a request starts from was used; a copy shares or copies its cells, so it may
go as soon as the copy is ordered.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from arriero.core.errors import InvariantViolation
from arriero.core.events import DropSequence, MoveSequence, TrimSequence
from arriero.core.ids import SequenceId, Time, TokenId
from arriero.kv.books import Books
from arriero.kv.host_books import superseded
from arriero.kv.ledger import require
from arriero.kv.protocol import ReleaseCause
from arriero.kv.reuse import EvictionCause, RetainedRun
from arriero.kv.runs import Prompt, Run

_SAVED = frozenset({EvictionCause.DEMAND, EvictionCause.COUNT, EvictionCause.POOL})
"""Ends after which a run is still wanted: the host store takes it, if there is one."""
WORTH_SAVING: Final = 16
"""A run is saved before its end is cut off if that end is at least one part in so many of it. A token is copied in a
hundredth of the time in which it is computed, or in a twelfth where the bytes go to memory that is touched for the
first time; and most ends are never asked for again."""


class RetainedRuns:
    """Runs on ids that nobody runs on.

    Attributes:
        now: on the driver's time line; written by whoever begins a step.
    """

    def __init__(self, books: Books) -> None:
        """Start empty."""
        self.now: Time = 0
        self._rules = books.rules
        self._ids = books.ids
        self._ledger = books.ledger
        self._runs = books.runs
        self._host = books.host
        self._counts = books.counts
        self._ops = books.ops
        self._by_id: dict[SequenceId, Run] = {}  # the least recently used first
        self._resting: list[Run] = []
        self._tick = 0

    def __len__(self) -> int:
        """How many."""
        return len(self._by_id)

    def __iter__(self) -> Iterator[Run]:
        """The least recently used first."""
        return iter(self._by_id.values())

    def on(self, sequence_id: SequenceId) -> Run | None:
        """The run that lies on an id."""
        return self._by_id.get(sequence_id)

    @property
    def num_resting(self) -> int:
        """Runs whose ids may not be taken in this step."""
        return len(self._resting)

    @property
    def is_ageing(self) -> bool:
        """Whether anything that is kept, here or in the host store, will be too old some day."""
        return self._rules is not None and self._rules.max_age is not None and len(self) + len(self._host) > 0

    def begin_step(self, now: Time) -> None:
        """End the rest of ids that a cancel freed, and let go what is too old."""
        self.now = now
        for run in self._resting:
            run.is_resting = False
        self._resting.clear()
        max_age = None if self._rules is None else self._rules.max_age
        if max_age is None:
            return
        while (oldest := next(iter(self), None)) is not None and oldest.at < now - max_age:
            self.give_up(oldest, EvictionCause.AGE)
        self._host.expire(now - max_age)

    def keep(self, run: Run, prompt: Prompt, computed: Sequence[TokenId], *, rests: bool) -> bool:
        """Retain a run that has just ended; returns whether it is kept.

        Not if a longer one makes it needless. Those that it makes needless go, and the least recently used where there
        are too many. What the sequence holds beyond the tokens that are kept is trimmed.
        """
        rules = self._rules
        assert rules is not None, "without rules no sequence has a run"
        tokens = computed if rules.keeps_answers else computed[: len(prompt.tokens)]
        if not tokens or (not rules.per_session and self._is_needless(prompt.scope, tokens)):
            return False
        self._trim(run, len(tokens))
        self._runs.foresee_no_more(run)
        self._runs.hold(run, prompt.scope, tokens)
        if not rules.per_session:
            self._supersede(prompt.scope, tokens)
        self._ledger.retain(run.sequence_id)
        run.is_retained, run.is_resting = True, rests
        if rests:
            self._resting.append(run)
        self._stamp(run)
        self._counts.created(per_session=rules.per_session)
        while rules.max_retained is not None and len(self) > rules.max_retained:
            self.give_up(next(iter(self)), EvictionCause.COUNT)
        return True

    def use(self, run: Run) -> None:
        """A request starts from a run, which stays."""
        run.num_hits += 1
        if run.is_retained:
            del self._by_id[run.sequence_id]
            self._stamp(run)

    def take_over(self, run: Run, length: int) -> None:
        """A request goes on with the first `length` tokens of a run, in its place.

        What that cuts off is saved before, unless the run belongs to a session, or so little of it goes that its
        next request computes that sooner than the whole is copied.
        """
        assert self._rules is not None, "without rules there is no run"
        whole = self._runs.length(run)
        if whole - length >= max(1, whole // WORTH_SAVING) and not self._rules.per_session:
            self._save(run)
        del self._by_id[run.sequence_id]
        run.is_retained = False
        run.num_hits += 1
        self._ledger.trim(run.sequence_id, length)
        self._ledger.resume(run.sequence_id)
        if self._rules.per_session:
            self._runs.hide(run)  # found by nobody while it runs
        else:
            self._runs.trees.truncate(run.key, length)

    def oldest(self, but: Run | None) -> Run | None:
        """The least recently used run whose id may be taken, another one than `but` if there is one."""
        found = next((run for run in self if run is not but and not run.is_resting), None)
        return but if found is None and but is not None and but.is_retained and not but.is_resting else found

    def lowest(self) -> Run | None:
        """The run on the lowest id that may be taken; O(runs)."""
        return min((run for run in self if not run.is_resting), key=lambda run: run.sequence_id, default=None)

    def vacate(self, run: Run, cause: EvictionCause) -> SequenceId:
        """Let go of a run; its id is the caller's."""
        if cause in _SAVED:
            self._save(run)
        self._ops.append(DropSequence(run.sequence_id))
        self._forget(run, cause)
        return run.sequence_id

    def give_up(self, run: Run, cause: EvictionCause) -> None:
        """Let go of a run; its id is free, unless it rests."""
        freed_by = ReleaseCause.CANCELLED if run.is_resting else ReleaseCause.EVICTED
        self._ids.put_back(self.vacate(run, cause), freed_by, 0)

    def lose(self, run: Run) -> None:
        """Memory would not clear the id on which a run lies, which is out of service now."""
        self._forget(run, EvictionCause.REFUSED)

    def refused(self, sequence_id: SequenceId) -> None:
        """Memory would not trim the run on an id, or not move it there: it holds something else than is known."""
        self._counts.was_refused()
        self.give_up(self._by_id[sequence_id], EvictionCause.REFUSED)

    def make_room(self, num_cells: int) -> None:
        """Let go of runs until so many cells are free; those first that free any."""
        while self._ledger.lack(num_cells) > 0:
            run = next((run for run in self if self._ledger.freed_by(run.sequence_id)), None)
            # Where each cell is held by several runs, the first ones free nothing, but the last of them does.
            self.give_up(run or next(iter(self)), EvictionCause.POOL)

    def clear_below(self, sequence_id: SequenceId) -> SequenceId | None:
        """Have the lowest id on which nobody runs, if it is below this one.

        A run that lies there is saved, or moved to a free id; where neither can be, there is no such id.
        """
        free, resident = self._ids.next_free(), self.lowest()
        candidates = [each for each in (free, None if resident is None else resident.sequence_id) if each is not None]
        lowest = min(candidates, default=sequence_id)
        if lowest >= sequence_id:
            return None
        if resident is None or lowest != resident.sequence_id:
            self._ids.claim(lowest)
        elif self._host.has_room(self._runs.length(resident)):
            self.vacate(resident, EvictionCause.DEMAND)
        elif free is None:
            return None
        else:
            self._ids.claim(free)
            self._move(resident, free)
        return lowest

    def _move(self, run: Run, sequence_id: SequenceId) -> None:
        source = run.sequence_id
        self._ops += (MoveSequence(source, sequence_id), DropSequence(source))
        self._counts.moved()
        self._ledger.move(source, sequence_id)
        run.sequence_id = sequence_id
        # The order of use stays.
        self._by_id = {each.sequence_id: each for each in self}

    def clear(self, cause: EvictionCause) -> None:
        """Let go of all."""
        for run in tuple(self):
            self.give_up(run, cause)

    def save_all(self) -> tuple[int, int]:
        """Order a copy of each in the host store, the last used first where not all fit; how many, and their tokens."""
        room = self._host.room
        fitting: list[Run] = []
        for run in reversed(tuple(self)):
            if (length := self._runs.length(run)) <= room:
                room -= length
                fitting.append(run)
        lengths = [self._runs.length(run) for run in reversed(fitting) if self._save(run)]
        return len(lengths), sum(lengths)

    def figures(self) -> Iterator[RetainedRun]:
        """All of them, the least recently used first."""
        for run in self:
            yield RetainedRun(
                sequence_id=run.sequence_id,
                key=None,
                scope=self._runs.trees.scope(run.key),
                length=self._runs.length(run),
                tick=run.tick,
                num_hits=run.num_hits,
                is_on_disk=False,
            )

    def check(self) -> None:
        """Verify the books from scratch."""
        ticks = [run.tick for run in self]
        rules = (
            (all(run.sequence_id == each for each, run in self._by_id.items()), "a run lies on another id"),
            (all(run.is_retained for run in self), "a running sequence is retained"),
            (ticks == sorted(set(ticks)), "runs are not in the order of their use"),
            (
                all(self._runs.length(run) == self._ledger.lengths.get(run.sequence_id) for run in self),
                "a run is found with more or fewer tokens than it holds",
            ),
            (
                all(run.is_resting == (run in self._resting) for run in self),
                "a run rests that does not, or the reverse",
            ),
        )
        require(rules, f"runs on {list(self._by_id)}, ticks {ticks}, held {self._ledger.lengths}")

    def _trim(self, run: Run, length: int) -> None:
        held = self._ledger.lengths[run.sequence_id]
        if length > held:
            message = f"sequence {run.sequence_id} holds {held} cells, and is to keep {length} tokens"
            raise InvariantViolation(message)
        if length < held:
            self._ops.append(TrimSequence(run.sequence_id, length))
            self._ledger.trim(run.sequence_id, length)

    def _supersede(self, scope: str, tokens: Sequence[TokenId]) -> None:
        for key in superseded(self._runs.trees, scope, tokens):
            other = self._runs.of(key)
            if other is not None and other.is_retained and not other.is_resting:
                self.give_up(other, EvictionCause.SUPERSEDED)

    def _is_needless(self, scope: str, tokens: Sequence[TokenId]) -> bool:
        """Whether a longer retained run begins with these tokens; that one is used by it."""
        found = self._runs.trees.match(scope, tokens, len(tokens))
        if found.num_tokens < len(tokens):
            return False
        for key in found.runs:
            run = self._runs.of(key)
            if run is not None and run.is_retained and self._runs.length(run) > len(tokens):
                del self._by_id[run.sequence_id]
                self._stamp(run)
                return True
        return False

    def _save(self, run: Run) -> bool:
        trees = self._runs.trees
        if not self._host.has_room(trees.length(run.key)):
            return False
        return self._host.save(run.sequence_id, trees.scope(run.key), trees.tokens(run.key), self.now)

    def _forget(self, run: Run, cause: EvictionCause) -> None:
        per_session = self._rules is not None and self._rules.per_session
        self._counts.evicted(cause, self._runs.length(run), run.tick if per_session else None)
        del self._by_id[run.sequence_id]
        if run.is_resting:
            self._resting.remove(run)
        self._ledger.drop(run.sequence_id)
        self._runs.end(run)

    def _stamp(self, run: Run) -> None:
        self._tick += 1
        run.tick, run.at = self._tick, self.now
        self._by_id[run.sequence_id] = run
