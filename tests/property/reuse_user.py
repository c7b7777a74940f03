"""One who uses a scheduler with prefix reuse in every way that is allowed, on a memory that knows its tokens.

No second implementation stands beside it: what is checked at every verb is the invariants, the memory's content, the
scopes, and the promises to callers.
"""

from collections import Counter
from dataclasses import dataclass, field

from arriero.core.events import (
    Admitted,
    CancelById,
    CancelEverything,
    CancelWaiting,
    DropSequence,
    Event,
    Finished,
    ForgetSaved,
    KvOp,
    Moved,
    Preempted,
    Queued,
    RetainedAction,
    SaveSequence,
    TokenEmitted,
    harmed_sequence,
)
from arriero.core.ids import RequestId, SequenceId
from arriero.core.plan import (
    BatchPlan,
    Deferral,
    Failed,
    Interrupted,
    NoRoom,
    PrefillChunk,
    Sampled,
    SequenceFailure,
    StepOutcome,
)
from arriero.core.request import CancelReason, FinishReason, Request
from arriero.scheduler.invariants import check_scheduler
from arriero.scheduler.scheduler import Scheduler
from arriero.testing.strategies import (
    NUM_TOKENS,
    SCOPES,
    Pick,
    SchedulerSetup,
    pick_change,
    pick_prompt,
    pick_request,
)
from tests.property.reuse_memory import TokenMemory

NUM_IDS = 12
KEPT_TEXTS = 12


@dataclass
class Life:
    """One request, as its caller sees it."""

    request: Request
    answer: list[int] = field(default_factory=list[int])
    sequence: int | None = None

    @property
    def known(self) -> tuple[int, ...]:
        """Prompt and answer."""
        return (*self.request.prompt, *self.answer)


@dataclass
class ReuseUser:
    """Picks verbs, arguments and outcomes; operations are refused at times."""

    setup: SchedulerSetup
    pick: Pick
    refuses: bool = True
    now: int = 0
    epoch: int = 0
    texts: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])
    lives: dict[int, Life] = field(default_factory=dict[int, Life])
    refused: list[KvOp] = field(default_factory=list[KvOp])
    lost: set[int] = field(default_factory=set[int])  # ids that memory would not clear
    told: Counter[str] = field(default_factory=Counter[str])
    num_steps: int = 0

    def __post_init__(self) -> None:
        """Build the scheduler and the memory."""
        assert self.setup.reuse is not None
        self.reuse = self.setup.reuse
        self.scheduler: Scheduler = self.setup.new_scheduler()
        self.memory = TokenMemory(self.setup.layout.unified)

    # ── verbs ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def submit(self) -> None:
        """Hand over a request whose prompt is often the beginning of an earlier text, or goes on after it."""
        self.epoch += 1
        prompt = pick_prompt(self.pick, self.texts, self.setup.layout.sequence_limit + 1)
        scope = SCOPES[self.pick(0, len(SCOPES) - 1)]
        request = pick_request(
            self.pick,
            request_id=self.pick(1, NUM_IDS),
            epoch=self.epoch,
            arrival_at=self.now,
            prompt=prompt,
            cache_scope=scope,
        )
        self._remember(prompt)
        self._hear(self.scheduler.submit(request, self.now))

    def cancel(self) -> None:
        """Cancel somebody; seldom everybody."""
        reason = list(CancelReason)[self.pick(0, len(CancelReason) - 1)]
        target = CancelById(RequestId(self.pick(1, NUM_IDS)), reason)
        everybody = CancelEverything(reason)
        self._hear(self.scheduler.cancel(everybody if self.pick(0, 39) == 39 else target, self.now))

    def tend(self) -> None:
        """Save, restore or erase what is retained."""
        action = list(RetainedAction)[self.pick(0, len(RetainedAction) - 1)]
        tended = self.scheduler.tend(action, self.now)
        assert tended.report.num_tokens >= tended.report.num_runs >= 0
        self._hear(tended.events)
        if action is RetainedAction.ERASE:
            assert not self.scheduler.snapshot().kv.retained_cells
            assert self.memory.saved.keys() <= self.memory.private, "what nobody can find is nobody's to erase"

    def recalibrate(self) -> None:
        """Say that steps take otherwise than they did, where anybody knows what they take."""
        if self.setup.limits.cost is not None:
            self._hear(self.scheduler.recalibrate(pick_change(self.pick), self.now))

    def step(self) -> BatchPlan:
        """Plan, and commit what the step came to."""
        plan = self.scheduler.plan(self.now)
        self._hear(plan.events)
        self._look_at(plan)
        self.num_steps += 1
        if plan.rows:
            self._commit(plan)
        self.now += self.pick(0, 3)
        check_scheduler(self.scheduler)
        usage = self.scheduler.snapshot().kv
        assert usage.active_cells + usage.retained_cells <= usage.num_cells
        assert self.refused or self.memory.num_cells(self.lost) <= usage.active_cells + usage.retained_cells
        return plan

    def drain(self) -> None:
        """Go on without faults until nobody is left; then nothing may be left in memory."""
        pick, self.pick, self.refuses = self.pick, lambda low, _: low, False
        for _ in range(5000):
            if not self.scheduler.has_work:
                break
            plan = self.step()
            if not plan.rows and plan.wake_at is None:
                self._hear(self.scheduler.cancel(CancelWaiting(), self.now))
            self.now += 1
        assert not self.scheduler.has_work, "requests are left that never end"
        assert not self.lives
        self._hear(self.scheduler.close(self.now))
        left = [each for each, cells in self.memory.held.items() if cells and each not in self.lost]
        assert not left, f"something was left behind on {left}"
        kv = self.scheduler.snapshot().kv
        assert kv.active_cells == kv.retained_cells == kv.swapped_tokens == 0
        assert not self.memory.private, "something is kept for requests that have ended"
        self.pick = pick

    # ── what is heard and seen ──────────────────────────────────────────────────────────────────────────────────────

    def _hear(self, events: tuple[Event, ...]) -> None:
        for event in events:
            match event:
                case Queued(request=request):
                    assert request.request_id not in self.lives
                    self.lives[request.request_id] = Life(request)
                case Admitted():
                    self._admitted(event)
                case Moved():
                    life = self.lives[event.request_id]
                    assert life.sequence == event.sequence_id > event.to
                    life.sequence = event.to
                    self.told["moved"] += 1
                case TokenEmitted():
                    life = self.lives[event.request_id]
                    assert (event.sequence_id, event.index) == (life.sequence, len(life.answer))
                    life.answer.append(event.token)
                case Preempted():
                    life = self.lives[event.request_id]
                    assert life.sequence == event.sequence_id
                    life.sequence = None
                    self.told["preempted"] += 1
                    self.told["swapped out"] += event.swapped
                case Finished():
                    self._finished(event)
                case _ if isinstance(event, KvOp):
                    self._do(event)
                case _:
                    pass

    def _do(self, op: KvOp) -> None:
        """Memory does it, or refuses it; then nothing has changed, and the next outcome says so."""
        least = {DropSequence: 99, ForgetSaved: 100}.get(type(op), 90)
        if self.refuses and self.pick(0, 99) >= least:
            self.refused.append(op)
            if isinstance(op, DropSequence):
                self.lost.add(op.sequence_id)
            self.told[f"refused {type(op).__name__}"] += 1
        elif (isinstance(op, SaveSequence) and op.tokens) or self._is_sound(op):
            self.memory.apply(op)

    def _is_sound(self, op: KvOp) -> bool:
        """Whether everything that this operation needs was done: what follows a refused one may not be possible."""
        if not self.refused:
            return True
        try:
            self.memory.apply(op)
        except AssertionError:
            self.refused.append(op)
        return False

    def _admitted(self, event: Admitted) -> None:
        life = self.lives[event.request.request_id]
        assert event.sequence_id not in {each.sequence for each in self.lives.values()}
        life.sequence = event.sequence_id
        assert (event.prefix is None) == (event.num_cached == 0)
        assert event.num_matched >= event.num_cached or event.resumed
        num_there = event.num_cached + event.num_swapped_in
        assert num_there < len(life.known)
        assert not event.num_swapped_in or (event.resumed and not event.num_cached)
        if not self.refused:
            held = self.memory.of(event.sequence_id)
            assert len(held) == num_there, f"{num_there} tokens are there, {len(held)} in memory"
            self.memory.check_start(
                event.sequence_id,
                event.request,
                life.known,
                keeps_answers=self.reuse.keeps_answers,
                is_own=event.num_swapped_in > 0,
            )
        self.told[f"from {event.prefix}"] += 1
        self.told["swapped in"] += event.num_swapped_in > 0
        self.told[str(event.source)] += 1

    def _finished(self, event: Finished) -> None:
        life = self.lives.pop(event.request.request_id)
        assert life.sequence == event.sequence_id
        assert (event.reason is FinishReason.LENGTH) == (len(life.answer) == life.request.max_tokens)
        self._remember(life.known)
        self.told[f"finished {event.reason}"] += 1

    def _look_at(self, plan: BatchPlan) -> None:
        ids = [row.sequence_id for row in plan.rows]
        assert ids == sorted(set(ids))
        dirty = {harmed_sequence(op) for op in self.refused}
        for row in plan.rows:
            life = self.lives[row.request.request_id]
            assert row.sequence_id == life.sequence
            assert row.tokens == life.known[row.start : row.start + row.num_rows] != ()
            if row.sequence_id not in dirty:
                cells = self.memory.of(row.sequence_id)
                assert row.start == len(cells), "positions are not contiguous"
                assert [cell.token for cell in cells] == list(life.known[: row.start]), "a sequence holds another text"
        if any(life.sequence is not None for life in self.lives.values()):
            assert plan.rows, "somebody runs and nothing is computed"
        followers = plan.deferrals.get(Deferral.PREFIX, 0)
        self.told["followers"] += followers
        assert not followers or any(isinstance(row, PrefillChunk) for row in plan.rows) or plan.rows
        if self.setup.max_chunk is not None:
            self._is_exact(plan)

    def _is_exact(self, plan: BatchPlan) -> None:
        """No chunk of one row, unless the prompt has no other, or a cap is below three rows."""
        budget = self.setup.limits.budget
        caps = [each for each in (budget.per_step, budget.per_sequence) if each is not None]
        if min([self.setup.limits.num_rows, *caps]) >= 3:
            for row in plan.rows:
                is_prompt = isinstance(row, PrefillChunk) and row.start < len(row.request.prompt)
                assert not (is_prompt and row.num_rows == 1 < len(row.request.prompt)), "a chunk of one row"

    def _commit(self, plan: BatchPlan) -> None:
        outcome = self._outcome(plan)
        self.now += self.pick(0, 3)
        harmed = {harmed_sequence(op) for op in outcome.refused}
        if isinstance(outcome, Sampled):
            failed = {failure.sequence_id for failure in outcome.failures}
            self.memory.compute(plan, {*harmed, *failed})
        self.told[type(outcome).__name__] += 1
        self._hear(self.scheduler.commit(outcome, self.now))

    def _outcome(self, plan: BatchPlan) -> StepOutcome:
        refused, self.refused = tuple(self.refused), []
        harmed = {harmed_sequence(op) for op in refused}
        rows = [row for row in plan.rows if row.sequence_id not in harmed]
        kind = self.pick(0, 49)
        if kind == 49:
            return NoRoom(refused=refused)
        if kind == 48:
            return Interrupted(refused=refused)
        culprits = [rows[self.pick(0, len(rows) - 1)]] if rows and kind >= 46 else []
        failures = tuple(SequenceFailure(row.sequence_id, "decode_failed", "picked") for row in culprits)
        if len(culprits) == len(rows) and rows:
            return Failed(failures=failures, refused=refused)
        tokens = {
            SequenceId(row.sequence_id): self.pick(0, NUM_TOKENS - 1)
            for row in rows
            if row.wants_logits and row not in culprits
        }
        return Sampled(tokens=tokens, failures=failures, refused=refused)

    def _remember(self, text: tuple[int, ...]) -> None:
        self.texts = [*self.texts, text][-KEPT_TEXTS:]
