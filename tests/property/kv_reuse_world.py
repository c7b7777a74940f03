"""One who uses a CellManager with reuse in every way that is allowed, with a memory that does what is ordered, or not.

Runs are lists of tokens, lookups are scans over all of them, cells are sets of numbers. Which run goes, is taken over
or moves is read from the operations; that it may go, and that the books say so, is checked.
"""

from typing import Final

from arriero.core.events import (
    CopySequence,
    DropSequence,
    ForgetSaved,
    KvOp,
    MoveSequence,
    RestoreSequence,
    ReuseVerdict,
    SaveSequence,
    TrimSequence,
    harmed_sequence,
)
from arriero.core.ids import RequestId, SequenceId
from arriero.kv.lookups import RunHit
from arriero.kv.protocol import ReleaseCause, Shortage, Started
from arriero.kv.reuse import EvictionCause
from tests.property.kv_memory import IllegalOpError
from tests.property.kv_reuse_judge import ReuseJudge
from tests.property.kv_reuse_model import Life, ModelRun

SCOPES: Final = ("a", "a", "a", "b", None)


class ReuseWorld(ReuseJudge):
    """Picks verbs and arguments."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for run in self.setup.adopted:
            self.memory.saved[run.key] = self.host[run.key] = (run.scope, run.tokens)
            self.memory.keys.add(run.key)
        num_forgotten = len(self.setup.adopted) - self.kv.adopt(self.setup.adopted)
        self.take()
        assert len(self.setup.adopted) - len(self.host) == num_forgotten

    # ── verbs ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def begin_step(self) -> None:
        self.settle()
        self.now += self.pick(0, 3)
        resting = bool(self.resting) or any(run.is_resting for run in self.runs.values())
        assert self.kv.is_resting == resting
        self.resting.clear()
        for run in self.runs.values():
            run.is_resting = False
        self.kv.begin_step(self.now)
        self.take()

    def start(self) -> None:
        prompt, scope, num_answered = self._pick_prompt(), SCOPES[self.pick(0, len(SCOPES) - 1)], self.pick(0, 5) // 4
        limit = min(len(prompt), len(prompt) + num_answered - 1)
        hit = self.kv.lookup(prompt, scope, limit)
        self.check_lookup(hit, prompt, scope, limit)
        is_fresh = True
        if self.stale is not None and self.pick(0, 9) == 9:
            prompt, scope, hit = self.stale
            num_answered, is_fresh = 0, False
        if self.pick(0, 9) == 9:
            self.stale = (prompt, scope, hit)
        num_known, headroom = len(prompt) + num_answered, self.pick(0, 3)
        before, order = self.kv.usage(), [run.sequence_id for run in self.kv.retained() if not run.is_saved]
        started = self.kv.start(RequestId(self.pick(1, 99)), num_known, headroom, hit)
        if isinstance(started, Shortage):
            assert (self.kv.usage(), self.kv.take_ops()) == (before, ())
            self.check_shortage(started, num_known + (headroom if self.lives else 0))
            return
        self.told[f"started {started.source}"] += 1
        self.told[f"prefix {started.prefix}"] += 1
        assert started.num_cached <= hit.num_tokens
        # A saved run comes back whole: it may be too long for what is free.
        may_lack_room = isinstance(hit, RunHit) and hit.is_saved and self.layout.unified and not started.num_cached
        assert not is_fresh or may_lack_room or started.num_cached == hit.num_tokens
        known = [*prompt, *(self.pick(0, 1) for _ in range(num_answered))]
        self._begin(started, prompt, scope, known, order)

    def _begin(
        self,
        started: Started,
        prompt: tuple[int, ...],
        scope: str | None,
        known: list[int],
        order: list[SequenceId | None],
    ) -> None:
        sequence, cached, there = started.sequence_id, started.num_cached, started.num_there
        self.num_started += 1
        assert sequence not in self.lives
        assert sequence not in self.quarantined
        assert sequence not in self.resting
        resident = self.runs.get(sequence)
        assert resident is None or not resident.is_resting
        self.uses.pop(sequence, None)
        ops = self.take(starting=sequence)
        run = self.runs.get(sequence)  # a run that still lies there is taken over
        self.check_place(started, ops, order, resident)
        if run is not None:
            assert scope == run.scope
            assert cached
            run.prompt, run.is_retained = prompt, False
            run.visible = () if self.rules.per_session else prompt[:cached]
            self.told["in place"] += 1
        elif scope is not None:
            run = self.runs[sequence] = ModelRun(scope, prompt)
        if run is not None:
            run.is_under_way = self.rules.follows and not self.rules.per_session and there < len(prompt)
        self.cells.grow(sequence, len(known) - len(self.cells.of.get(sequence, [])))
        self.lives[sequence] = Life(scope, known, len(prompt), there, run)
        if sequence not in self.broken:
            assert self.memory.tokens(sequence) == tuple(known[:there]), "it does not hold what need not be computed"
            assert not there or self.memory.sequences[sequence][0] == (scope or "nobody"), "reuse crosses a scope"

    def prefill(self) -> None:
        """A chunk of each prompt, or of some."""
        self.settle()
        for sequence, life in list(self.lives.items()):
            rest = len(life.known) - life.num_computed
            if rest <= 0 or self.pick(0, 2) == 2:
                continue
            number = self.pick(1, rest)
            tokens = life.known[life.num_computed : life.num_computed + number]
            self.memory.compute(sequence, life.scope or "nobody", tokens)
            life.num_computed += number
            self.kv.publish(SequenceId(sequence), life.num_computed)
            self._see(life)

    def _see(self, life: Life) -> None:
        run = life.run
        if run is not None and not run.is_withdrawn and not self.rules.per_session:
            computed = run.prompt[: life.num_computed]
            run.visible = max(run.visible, computed, key=len)
            run.is_under_way = run.is_under_way and life.num_computed < len(run.prompt)

    def decode(self) -> None:
        """One more token for each that has computed its prompt; those that find no place for it are told so."""
        self.settle()
        group = [each for each, life in self.lives.items() if life.num_computed == len(life.known)]
        if not group:
            return
        active = len(self.cells.held(set(self.lives)))
        ids = [SequenceId(each) for each in group]
        ahead = self.kv.steps_ahead(ids)
        num_retained = len(self.kv.retained())
        grown = self.kv.grow_each(ids)
        is_near = any(len(self.cells.of[each]) >= self.layout.sequence_limit for each in group)
        fits = not is_near and (not self.layout.unified or active + len(group) <= self.layout.num_cells)
        assert grown == fits
        assert not ahead or (grown and num_retained == len(self.kv.retained()))
        assert not (ahead and self.rules.max_age is not None and num_retained)
        self.take()
        if not grown:
            self.told["no room"] += 1
            return
        for each in group:
            self.cells.grow(each, 1)
            life = self.lives[each]
            life.known.append(self.pick(0, 1))
            self.memory.compute(each, life.scope or "nobody", [life.known[-1]])
            life.num_computed += 1

    def release(self) -> None:
        self.settle()
        if not self.lives:
            return
        sequence = sorted(self.lives)[self.pick(0, len(self.lives) - 1)]
        cause = (ReleaseCause.COMPLETED, ReleaseCause.CANCELLED, ReleaseCause.PREEMPTED)[self.pick(0, 5) // 2]
        life = self.lives[sequence]
        wasted = self.pick(0, 1) if life.num_computed > life.num_prompt else 0
        computed = life.known[: life.num_computed - wasted] if self.pick(0, 4) else None
        self._release(sequence, cause, computed)

    def _release(self, sequence: int, cause: ReleaseCause, computed: list[int] | None) -> None:
        life = self.lives.pop(sequence)
        self.kv.release(SequenceId(sequence), cause, 0, computed)
        ops = self.kv.take_ops()
        is_gone = any(isinstance(op, DropSequence) and op.sequence_id == sequence for op in ops)
        run = self.runs.get(sequence)
        if cause is ReleaseCause.CANCELLED and is_gone and sequence not in self.quarantined:
            self.resting.add(sequence)
        if not is_gone:
            assert run is not None
            assert computed
            kept = computed if self.rules.keeps_answers else computed[: life.num_prompt]
            run.visible, run.is_retained, run.is_under_way = tuple(kept), True, False
            run.is_resting = cause is ReleaseCause.CANCELLED
            self.was_used(run)
            self.texts.append(run.visible)
            self.told["retained"] += 1
            self.check_gone(ops, run)
        else:
            self.runs.pop(sequence, None)
            may_keep = computed and run is not None and not run.is_withdrawn and sequence not in self.quarantined
            if may_keep and run is not None and computed:
                self.check_needless(run, computed, life.num_prompt)
        self._apply(ops)

    def move_down(self) -> None:
        """In the step in which others start, so that what was refused is not told yet."""
        if not self.lives:
            return
        sequence = max(self.lives)
        to = self.kv.move_down(SequenceId(sequence))
        if to is None:
            assert self.kv.take_ops() == ()
            return
        assert to < sequence
        assert not self.layout.unified
        assert to not in self.lives
        assert all(
            each in self.lives
            or each in self.quarantined
            or each in self.resting
            or (each in self.runs and self.runs[each].is_resting)
            for each in range(to)
        ), "there is a lower id"
        self.told["moved"] += 1
        self.lives[to] = self.lives.pop(sequence)
        self.take()

    def clear(self) -> None:
        self.settle()
        cause = EvictionCause.ERASED if self.pick(0, 1) else EvictionCause.TEARDOWN
        self.kv.clear_retained(cause)
        self.take()
        assert not any(run.is_retained for run in self.runs.values())
        assert cause is EvictionCause.TEARDOWN or not self.host

    def save(self) -> None:
        self.settle()
        number, length = self.kv.save_retained()
        saves = [op for op in self.take() if isinstance(op, SaveSequence)]
        assert (number, length) == (len(saves), sum(op.length for op in saves))

    def end(self) -> None:
        """Everybody ends, and nothing is left but what the host store keeps."""
        self.settle()
        for sequence in list(self.lives):
            self._release(sequence, ReleaseCause.COMPLETED, None)
        self.kv.clear_retained(EvictionCause.TEARDOWN)
        self.take()
        self.settle()
        self.check()
        usage, figures = self.kv.usage(), self.kv.reuse_figures()
        assert (usage.free_cells, usage.sequences_held + usage.sequences_retained) == (usage.num_cells, 0)
        assert figures is not None
        sessions, evictions = figures.sessions, figures.evictions
        assert sum(figures.lookups.values()) == self.num_started
        assert figures.lookups[ReuseVerdict.REUSED] >= sum(figures.hits.values())
        if self.rules.per_session and not self.setup.refusals and not self.rules.host_tokens:
            reused = sessions.session_reuse_admitted_count + sessions.lcp_reuse_admitted_count
            cleared = evictions[EvictionCause.TEARDOWN] + evictions[EvictionCause.ERASED]
            assert sessions.resident_slots_created_count == sessions.resident_slots_evicted_count + reused + cleared

    # ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def take(self, starting: int | None = None) -> tuple[KvOp, ...]:
        """Let memory do what is ordered now."""
        ops = self.kv.take_ops()
        self._apply(ops, starting)
        return ops

    def _apply(self, ops: tuple[KvOp, ...], starting: int | None = None) -> None:
        for op in ops:
            self.told[type(op).__name__] += 1
            if starting is not None and harmed_sequence(op) == starting and not isinstance(op, DropSequence):
                source = self.runs.get(op.source if isinstance(op, CopySequence) else starting)
                self.uses[starting] = (op, source)
                if isinstance(op, CopySequence) and source is not None and source.is_retained:
                    self.was_used(source)
            self._follow(op)
            if isinstance(op, RestoreSequence) and self.layout.unified:
                free = self.layout.num_cells - len(self.cells.held(set(self.cells.of)))
                saved = self.host.get(op.key) or self.private[op.key]
                assert len(saved[1]) <= free, "a saved run comes back whole, and is trimmed then"
            self.cells.apply(op)
            may_refuse = self.setup.refusals and not isinstance(op, ForgetSaved)
            is_refused = bool(may_refuse) and self.pick(1, self.setup.refusals) == self.setup.refusals
            if not is_refused:
                try:
                    self.memory.apply(op)
                except IllegalOpError:
                    assert self.pending, f"{op} cannot be done, and nothing was refused before"
                    is_refused = True
            if is_refused:
                self.told[f"refused {type(op).__name__}"] += 1
                self.pending.append(op)
                harmed = harmed_sequence(op)
                self.broken |= set() if harmed is None else {harmed}

    def _follow(self, op: KvOp) -> None:
        """What an operation says about who lies where."""
        match op:
            case DropSequence(sequence):
                run = self.runs.pop(sequence, None)
                assert run is None or run.is_retained, "a running sequence is dropped"
                if run is not None and run.is_resting:
                    self.resting.add(sequence)
            case MoveSequence(source, sequence):
                assert sequence not in self.runs
                if source in self.runs:
                    self.runs[sequence] = self.runs.pop(source)
            case SaveSequence(_, key, _, scope, tokens):
                self.host[key] = (scope, tokens)
            case ForgetSaved(key):
                del self.host[key]
            case _:
                pass

    def settle(self) -> None:
        """What was refused is told, and whoever is harmed by it starts again later."""
        while self.pending:
            op = self.pending.pop(0)
            sequence = harmed_sequence(op)
            use = None if sequence is None else self.uses.get(sequence)
            retained = sequence is not None and sequence in self.runs and self.runs[sequence].is_retained
            if isinstance(op, DropSequence):
                self.quarantined.add(op.sequence_id)
                self.resting.discard(op.sequence_id)
                if retained:
                    del self.runs[op.sequence_id]
                    del self.cells.of[op.sequence_id]
            elif isinstance(op, SaveSequence):
                self.host.pop(op.key, None)
                self.private.pop(op.key, None)
            elif (
                sequence is not None
                and use is not None
                and use[0] == op
                and not (retained and isinstance(op, TrimSequence))
            ):
                del self.uses[sequence]
                if use[1] is not None and not use[1].is_retained:
                    use[1].is_withdrawn, use[1].visible, use[1].is_under_way = True, (), False
            self.kv.refuse(op)
            self.take()
            if sequence is not None and sequence in self.lives:
                self.told["preempted"] += 1
                self._release(sequence, ReleaseCause.PREEMPTED, None)
        self.broken.clear()

    def _pick_prompt(self) -> tuple[int, ...]:
        """Often the beginning of a text that is or was there, and something new."""
        base = self.texts[-self.pick(1, min(6, len(self.texts)))] if self.texts and self.pick(0, 3) else ()
        begun = base[: self.pick(0, len(base))] if self.pick(0, 1) else base
        prompt = begun + tuple(self.pick(0, 1) for _ in range(self.pick(0 if begun else 1, 5)))
        self.texts.append(prompt)
        return prompt
