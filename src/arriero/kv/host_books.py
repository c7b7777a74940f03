"""HostBooks: which runs the host store holds, and which one goes when it is full.

The store itself keeps bytes under keys; it does what `KvOp`s say, in their order. A run that is restored stays in the
store, so one that many requests start from is written once.

    | reserved: KV of preempted requests | runs, the least recently used first | free |
      at most the room for swaps           at most the room for runs
      ──────────────── both together at most the larger of the two ─────────────

Runs go for what is reserved, and never the reverse. What lies there is written in `SwappedRuns`.
"""

from collections.abc import Iterator, Sequence

from arriero.core.events import ForgetSaved, KvOp, PrefixSource, SavedRun, SaveSequence
from arriero.core.ids import SavedKey, SequenceId, Time, TokenId
from arriero.kv.ledger import require
from arriero.kv.reuse import EvictionCause, RetainedRun
from arriero.kv.reuse_counts import ReuseCounts
from arriero.prefix.cache import PrefixTrees, RunKey


class _Saved:
    """One run in the store."""

    __slots__ = ("at", "is_on_disk", "num_hits", "tick")

    def __init__(self, at: Time, tick: int, *, is_on_disk: bool) -> None:
        self.at = at
        self.tick = tick
        self.num_hits = 0
        self.is_on_disk = is_on_disk


class HostBooks:
    """Runs by key, the least recently used first; each verb costs what it costs in the tree.

    Attributes:
        trees: where lookups find the runs; a run's key there is its `SavedKey`.
    """

    def __init__(self, room: int, ops: list[KvOp], counts: ReuseCounts, *, swap_room: int = 0) -> None:
        """Start empty; both rooms are in tokens, 0 for none. What is ordered is added to `ops`."""
        self.trees = PrefixTrees()
        self._room = room
        self._swap_room = swap_room
        self._num_reserved = 0
        self._ops = ops
        self._counts = counts
        self._saved: dict[SavedKey, _Saved] = {}
        self._num_tokens = 0
        self._num_minted = 0
        self._tick = 0
        self._leased: SavedKey | None = None

    def __len__(self) -> int:
        """How many runs."""
        return len(self._saved)

    def __contains__(self, key: object) -> bool:
        """Whether a run is there."""
        return key in self._saved

    @property
    def num_tokens(self) -> int:
        """Lengths of all runs."""
        return self._num_tokens

    @property
    def num_reserved(self) -> int:
        """Tokens of what is there beside runs."""
        return self._num_reserved

    @property
    def room(self) -> int:
        """Tokens of runs that fit in all, beside what is reserved; 0: none does."""
        return min(self._room, self._whole - self._num_reserved)

    def length(self, key: SavedKey) -> int:
        """Tokens of a run."""
        return self.trees.length(RunKey(key))

    def has_room(self, length: int) -> bool:
        """Whether a run of so many tokens would fit, others going for it."""
        return length + self._num_leased <= self.room

    def reserve(self, length: int) -> SavedKey | None:
        """Room for so many tokens that are no run, which go when `give_back` says so and not before.

        Returns the key under which they are to lie, or None, and no change, where there is no room.
        """
        num_reserved = self._num_reserved + length
        if num_reserved > self._swap_room or num_reserved + self._num_leased > self._whole:
            return None
        self._num_reserved = num_reserved
        self._make_way(0)
        return self._mint()

    def give_back(self, length: int) -> None:
        """So many tokens are reserved no longer."""
        self._num_reserved -= length

    def adopt(self, runs: Sequence[SavedRun], longest: int, now: Time) -> int:
        """Take over what a store holds from an earlier life, the least recently used first.

        Returns how many were taken. Those that there is no room for, that others begin with, or that no sequence can
        hold, as they have more tokens than `longest`, are forgotten.
        """
        self._num_minted = max([self._num_minted, *(run.key for run in runs)])
        for run in runs:
            fits = 0 < len(run.tokens) <= longest
            if not fits or self._has(run.scope, run.tokens, now) or not self._make_room(run.scope, run.tokens):
                self._ops.append(ForgetSaved(run.key))
            else:
                self._add(run.key, run.scope, run.tokens, _Saved(now, self._next_tick(), is_on_disk=True))
        return sum(run.key in self._saved for run in runs)

    def save(self, sequence_id: SequenceId, scope: str, tokens: tuple[TokenId, ...], now: Time) -> bool:
        """Order that the store keeps a run, unless it has these tokens already; returns whether it was ordered."""
        if not tokens or self._has(scope, tokens, now) or not self._make_room(scope, tokens):
            return False
        key = self._mint()
        self._ops.append(SaveSequence(sequence_id, key, len(tokens), scope, tokens))
        self._counts.saved()
        self._add(key, scope, tokens, _Saved(now, self._next_tick(), is_on_disk=False))
        return True

    def use(self, key: SavedKey, now: Time) -> PrefixSource:
        """A request starts from a run; it goes last now. Returns where it was."""
        saved = self._refresh(key, now)
        saved.num_hits += 1
        return PrefixSource.DISK if saved.is_on_disk else PrefixSource.HOST

    def lease(self, key: SavedKey | None) -> None:
        """Keep one run until another one is named, or None: it is about to be restored."""
        self._leased = key

    def forget(self, key: SavedKey, cause: EvictionCause, *, is_told: bool = True) -> None:
        """Give a run up, if it is still there; the store is told unless it knows."""
        if key not in self._saved:
            return
        del self._saved[key]
        length = self.length(key)
        self.trees.withdraw(RunKey(key))
        self._num_tokens -= length
        if is_told:
            self._ops.append(ForgetSaved(key))
        self._counts.evicted(cause, length)

    def expire(self, before: Time) -> None:
        """Give up what was not used since then; the least recently used is the oldest."""
        while (key := next(iter(self._saved), None)) is not None and self._saved[key].at < before:
            self.forget(key, EvictionCause.AGE)

    def clear(self, cause: EvictionCause) -> None:
        """Give everything up."""
        for key in tuple(self._saved):
            self.forget(key, cause)

    def runs(self) -> Iterator[RetainedRun]:
        """All of them, the least recently used first."""
        for key, saved in self._saved.items():
            yield RetainedRun(
                sequence_id=None,
                key=key,
                scope=self.trees.scope(RunKey(key)),
                length=self.length(key),
                tick=saved.tick,
                num_hits=saved.num_hits,
                is_on_disk=saved.is_on_disk,
            )

    def check(self) -> None:
        """Verify the books from scratch."""
        self.trees.check()
        lengths = {key: self.length(key) for key in self._saved}
        ages = [saved.at for saved in self._saved.values()]
        rules = (
            (len(self.trees) == len(self._saved), "a saved run is in no tree, or the reverse"),
            (sum(lengths.values()) == self._num_tokens, "saved tokens do not add up"),
            (self._num_tokens <= self.room, "the host store holds more than it has room for"),
            (0 <= self._num_reserved <= self._swap_room, "more is reserved in the host store than may be"),
            (ages == sorted(ages), "saved runs are not in the order of their use"),
        )
        require(rules, f"saved {lengths}, {self._num_tokens} tokens of {self._room}, {self._num_reserved} reserved")

    @property
    def _whole(self) -> int:
        """Tokens that fit in all."""
        return max(self._room, self._swap_room)

    @property
    def _num_leased(self) -> int:
        return 0 if self._leased is None else self.length(self._leased)

    def _mint(self) -> SavedKey:
        self._num_minted += 1
        return SavedKey(self._num_minted)

    def _has(self, scope: str, tokens: Sequence[TokenId], now: Time) -> bool:
        """Whether some run begins with these tokens; that one is used by it."""
        found = self.trees.match(scope, tokens, len(tokens))
        if found.num_tokens < len(tokens):
            return False
        self._refresh(SavedKey(found.runs[0]), now)
        return True

    def _refresh(self, key: SavedKey, now: Time) -> _Saved:
        """Let a run be the one that was used last."""
        saved = self._saved.pop(key)
        self._saved[key] = saved
        saved.at, saved.tick = now, self._next_tick()
        return saved

    def _make_room(self, scope: str, tokens: Sequence[TokenId]) -> bool:
        """Give up what a new run makes needless, then what was used least recently, if that helps."""
        length = len(tokens)
        if not self.has_room(length):
            return False
        for key in superseded(self.trees, scope, tokens):
            if SavedKey(key) != self._leased:
                self.forget(SavedKey(key), EvictionCause.SUPERSEDED)
        self._make_way(length)
        return True

    def _make_way(self, length: int) -> None:
        """Give up what was used least recently, until so many more tokens of runs fit, as they are known to do."""
        while self._num_tokens + length > self.room:
            oldest = next(key for key in self._saved if key != self._leased)
            self.forget(oldest, EvictionCause.HOST)

    def _add(self, key: SavedKey, scope: str, tokens: Sequence[TokenId], saved: _Saved) -> None:
        self.trees.insert(scope, RunKey(key), tokens)
        self._saved[key] = saved
        self._num_tokens += len(tokens)

    def _next_tick(self) -> int:
        self._tick += 1
        return self._tick


def superseded(trees: PrefixTrees, scope: str, tokens: Sequence[TokenId]) -> list[RunKey]:
    """Runs whose whole text is a beginning of these tokens, the longest first; as a rule there is one or none."""
    found: list[RunKey] = []
    level = trees.match_whole(scope, tokens, len(tokens))
    while level.runs:
        found += level.runs
        level = trees.match_whole(scope, tokens, level.num_tokens - 1)
    return found
