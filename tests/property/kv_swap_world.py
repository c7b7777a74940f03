"""ReuseWorld with requests that yield: what they have computed goes out for them alone, and comes back when they start.

What is kept is a list of tokens under a key, and who may have it is one number; that nobody else gets it is checked
where somebody starts.
"""

from dataclasses import dataclass, field

from arriero.core.events import ForgetSaved, KvOp, SaveSequence
from arriero.core.ids import RequestId, SequenceId
from arriero.kv.lookups import RunHit
from arriero.kv.protocol import NO_HIT, ReleaseCause, Shortage
from tests.property.kv_memory import Text
from tests.property.kv_reuse_model import Life, common
from tests.property.kv_reuse_world import ReuseWorld

NOBODY = RequestId(0)
FIRST_YIELDED = 1000
"""Requests that yielded have numbers that no other request has."""


@dataclass(eq=False)
class Yielded:
    """A request that waits to run again."""

    life: Life
    key: int | None  # of what is kept for it


@dataclass
class SwapWorld(ReuseWorld):
    """Picks verbs and arguments."""

    yielded: dict[int, Yielded] = field(default_factory=dict[int, Yielded])
    num_yielded: int = 0
    leaving: Text = ("", ())

    # ── verbs ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def swap_out(self) -> None:
        """A request yields: its KV is kept if there is room, whoever shares its beginning."""
        self.settle()
        candidates = sorted(each for each, life in self.lives.items() if life.num_computed)
        if not candidates:
            return
        sequence = candidates[self.pick(0, len(candidates) - 1)]
        life = self.lives[sequence]
        assert self.kv.held_elsewhere(SequenceId(sequence)) == self._held_elsewhere(sequence)
        self.num_yielded += 1
        number = FIRST_YIELDED + self.num_yielded
        room = self.setup.swap_tokens - self.kv.usage().swapped_tokens
        kept = self.kv.swaps.save(RequestId(number), SequenceId(sequence), life.num_computed)
        assert kept == (life.num_computed <= room)
        self.leaving = (life.scope or "nobody", tuple(life.known[: life.num_computed]))
        self.yielded[number] = Yielded(life, None)
        self.told["swapped out" if kept else "no room outside"] += 1
        num_private, asked = len(self.private), self.pick(1, self.layout.num_cells)
        would_do = self.kv.has_room(NOBODY, asked, NO_HIT, SequenceId(sequence))
        self._release(sequence, ReleaseCause.PREEMPTED, None)
        assert not would_do or self.kv.has_room(NOBODY, asked, NO_HIT, None)
        if kept:
            assert len(self.private) == num_private + 1
            self.yielded[number].key = max(self.private)

    def swap_in(self) -> None:
        """A request that yielded starts again, from its own unless a run gives as much."""
        if not self.yielded:
            return
        number = sorted(self.yielded)[self.pick(0, len(self.yielded) - 1)]
        one = self.yielded[number]
        known, scope = one.life.known, one.life.scope
        tokens = tuple(known if self.rules.keeps_answers else known[: one.life.num_prompt])
        limit = min(len(tokens), len(known) - 1)
        hit = self.kv.lookup(tokens, scope, limit)
        self.check_lookup(hit, tokens, scope, limit)
        kept, headroom = self._kept(one), self.pick(0, 3)
        assert self.kv.swaps.length(RequestId(number)) == kept
        before, order = self.kv.usage(), [run.sequence_id for run in self.kv.retained() if not run.is_saved]
        asked = len(known) + (headroom if self.lives else 0)
        has_room = self.kv.has_room(RequestId(number), asked, hit, None)
        started = self.kv.start(RequestId(number), len(known), headroom, hit)
        assert has_room == (not isinstance(started, Shortage) or not started.missing)
        if isinstance(started, Shortage):
            assert (self.kv.usage(), self.kv.take_ops()) == (before, ())
            self.check_shortage(started, asked)
            return
        del self.yielded[number]
        may_lack_room = isinstance(hit, RunHit) and hit.is_saved and self.layout.unified
        if started.num_swapped_in:
            assert started.num_swapped_in == kept
            assert started.num_cached == 0
            assert kept > hit.num_tokens or may_lack_room, "a run gives as much"
        else:
            assert kept <= started.num_cached, "its own would have given more"
        self.told["swapped in" if started.num_swapped_in else "not swapped in"] += 1
        self._begin(started, tokens, scope, list(known), order)
        assert self.kv.swaps.length(RequestId(number)) == 0

    def abandon(self) -> None:
        """A request that yielded ends without running again."""
        if self.yielded:
            number = sorted(self.yielded)[self.pick(0, len(self.yielded) - 1)]
            kept = self._kept(self.yielded.pop(number))
            self.kv.swaps.forget(RequestId(number))
            assert len(self.take()) == (kept > 0)
            self.told["abandoned"] += kept > 0

    def end(self) -> None:
        """Those who yielded end first."""
        while self.yielded:
            self.abandon()
        assert not self.private
        super().end()

    # ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _follow(self, op: KvOp) -> None:
        match op:
            case SaveSequence(_, key, length, "", ()):
                assert length == len(self.leaving[1])
                self.private[key] = self.leaving
            case ForgetSaved(key) if key in self.private:
                del self.private[key]
            case _:
                super()._follow(op)

    def _kept(self, one: Yielded) -> int:
        """Tokens that are kept for a request, as far as anybody knows."""
        return 0 if one.key is None or one.key not in self.private else len(self.private[one.key][1])

    def _held_elsewhere(self, sequence: int) -> int:
        """How much of a prompt other runs hold that are found: a scan."""
        run = self.lives[sequence].run
        if run is None:
            return 0
        texts = [other.visible for other in self.runs.values() if other is not run and other.scope == run.scope]
        return max((common(text, run.prompt) for text in texts), default=0)
