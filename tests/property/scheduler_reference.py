"""A second scheduler, written from the documents with lists and recounts only: slow, and easy to read.

It predicts what each verb must say. Events are reduced to short tuples, so that the two implementations share no code
beyond the vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from arriero.core.events import (
    Admitted,
    CancelById,
    CancelByToken,
    CancelEverything,
    CancelIgnored,
    CancelObserved,
    CancelTarget,
    CancelWaiting,
    DropSequence,
    Event,
    Finished,
    ForgetSaved,
    KvOp,
    Preempted,
    Queued,
    Rejected,
    RestoreSequence,
    SaveSequence,
    TokenEmitted,
    harmed_sequence,
)
from arriero.core.plan import BatchPlan, DecodeRow, Failed, Interrupted, NoRoom, Row, Sampled, StepOutcome
from arriero.core.request import Request
from arriero.testing.strategies import SchedulerSetup
from tests.property.scheduler_swaps import Outside

Short = tuple[object, ...]


def shorten(event: Event) -> Short:  # noqa: PLR0911 - a table
    """What the reference predicts of an event."""
    match event:
        case Queued(request, position):
            return ("queued", request.request_id, position)
        case Rejected(request):
            return ("rejected", request.request_id)
        case Admitted():
            return (
                "admitted", event.request.request_id, event.sequence_id, event.previous_request_id, event.resumed,
                event.num_swapped_in,
            )  # fmt: skip
        case TokenEmitted():
            return ("token", event.request_id, event.sequence_id, event.token, event.index)
        case CancelObserved():
            return ("observed", event.request_id, event.sequence_id, event.reason.value, event.num_decoded)
        case CancelIgnored():
            return ("ignored", event.request_id, event.epoch, event.cause.value)
        case Preempted():
            return (
                "preempted",
                event.request_id,
                event.sequence_id,
                event.cause.value,
                event.num_computed,
                event.swapped,
            )
        case Finished():
            why = None if event.cancel_reason is None else event.cancel_reason.value
            return ("finished", event.request.request_id, event.reason.value, event.sequence_id, why)
        case _:
            return _shorten_op(event)


def _shorten_op(event: Event) -> Short:
    match event:
        case DropSequence(sequence_id):
            return ("drop", sequence_id)
        case SaveSequence(sequence_id, key, length, "", ()):
            return ("save", sequence_id, key, length)
        case RestoreSequence(sequence_id, key, length):
            return ("restore", sequence_id, key, length)
        case ForgetSaved(key):
            return ("forget", key)
        case _:
            return ("unexpected", event)


def shorten_row(row: Row) -> Short:
    """What the reference predicts of a row."""
    kind = "decode" if isinstance(row, DecodeRow) else "prefill"
    return (kind, row.request.request_id, row.sequence_id, row.start, row.tokens, row.wants_logits)


@dataclass(eq=False)
class Life:
    """One request, as the reference sees it."""

    request: Request
    number: int
    answer: list[int] = field(default_factory=list)
    computed: int = 0
    sequence: int | None = None
    was_preempted: bool = False
    asked: str | None = None
    has_answered_here: bool = False  # whether a token was sampled since the last admission

    @property
    def known(self) -> tuple[int, ...]:
        """Prompt and answer."""
        return (*self.request.prompt, *self.answer)

    @property
    def decodes(self) -> bool:
        """Whether the next row is one that gives a token and follows one."""
        return self.sequence is not None and self.computed == len(self.known) - 1 and self.has_answered_here


PlannedRow = tuple[Life, int, int, str]  # start, length, kind


@dataclass
class Reference:
    """All books of a scheduler, recounted whenever they are asked for."""

    setup: SchedulerSetup
    lives: list[Life] = field(default_factory=list)  # alive, in order of arrival
    running: list[Life] = field(default_factory=list)  # in order of admission
    owners: dict[int, int] = field(default_factory=dict)
    pools: dict[int, str] = field(default_factory=dict)  # of each free id
    quarantined: set[int] = field(default_factory=set)
    early: dict[tuple[int, int], str] = field(default_factory=dict)  # epoch 0: by id
    last_epoch: int = 0
    arrivals: int = 0
    step: int | None = None
    is_closed: bool = False
    prefill_next: bool = True
    said: list[Short] = field(default_factory=list)
    outside: Outside = field(init=False)

    def __post_init__(self) -> None:
        """All ids are free, and nothing is kept outside."""
        self.outside = Outside(self.setup)
        for each in range(self.setup.layout.num_sequences):
            preloaded = self.setup.num_preloaded is not None and each < self.setup.num_preloaded
            self.pools[each] = "1 preloaded" if preloaded else "4 idle"

    # ── the verbs ───────────────────────────────────────────────────────────────────────────────────────────────────

    def submit(self, request: Request) -> list[Short]:
        """Queue, reject, or queue and end at once."""
        self.last_epoch = max(self.last_epoch, request.epoch)
        self.arrivals += 1
        by_token = self.early.pop((request.request_id, request.epoch), None) if request.epoch else None
        asked = by_token if by_token is not None else self.early.pop((request.request_id, 0), None)
        positions = len(request.prompt) + request.max_tokens - 1
        fits = request.prompt and request.max_tokens >= 1 and positions <= self.setup.layout.sequence_limit
        if not fits or self._alive(request.request_id) or (request.preloaded and self.step is not None):
            return [("rejected", request.request_id)]
        self.said = [("queued", request.request_id, len(self.waiting()))]
        life = Life(request, self.arrivals)
        self.lives.append(life)
        if asked is not None:
            self._end(life, "cancelled", asked)
        return self.said

    def cancel(self, target: CancelTarget) -> list[Short]:
        """End those who wait, mark those who run, keep what names nobody."""
        self.said = []
        match target:
            case CancelById() | CancelByToken():
                self._cancel_one(target)
            case CancelWaiting():
                for life in self.waiting():
                    self._end(life, "aborted")
                self._close()
            case CancelEverything(reason):
                for life in tuple(self.lives):
                    self._ask(life, reason.value)
                self._close()
        return self.said

    def plan(self, now: float) -> tuple[list[Short], list[Short]]:
        """Events and rows of the next step."""
        self.said = []
        if self.step is None:
            self.step = 0 if any(life.request.preloaded for life in self.lives) else 1
        else:
            self.step += 1
        for each, pool in self.pools.items():
            if pool == "resting":
                self.pools[each] = "2 cancelled"
        self._observe(now)
        rows = self._decode_first() if self.setup.max_chunk is None else self._phases_apart(self.setup.max_chunk)
        in_service = any(pool != "retired" for pool in self.pools.values()) or self.running
        if self.quarantined and not in_service:
            for life in self.waiting():
                self._end(life, "failed")
        return self.said, [_short_row(*row) for row in sorted(rows, key=lambda row: row[0].sequence or 0)]

    def commit(self, plan: BatchPlan, outcome: StepOutcome) -> list[Short]:
        """What the step did to each row, in the order of rows, then failures, then refusals."""
        self.said = []
        match outcome:
            case NoRoom(refused=refused) if len(self.running) > 1:
                self.is_closed = True
                victim = self._victim(self.running)
                self._preempt(victim, "no_room", swaps=victim.sequence not in {harmed_sequence(op) for op in refused})
            case NoRoom():
                self._fail([plan.rows[0].sequence_id])
            case Interrupted():
                pass
            case Failed(failures=failures):
                alone = [row.sequence_id for row in plan.rows if len(plan.rows) == 1]
                self._fail([failure.sequence_id for failure in failures] or alone)
                self.is_closed = self.is_closed or bool(outcome.refused)
            case Sampled(tokens=tokens):
                failed = [failure.sequence_id for failure in outcome.failures]
                spared = [*failed, *map(harmed_sequence, outcome.refused)]
                for row in plan.rows:
                    if row.sequence_id not in spared:
                        self._count(row, tokens.get(row.sequence_id))
                self._fail(failed)
        for op in outcome.refused:
            self._refuse(op)
        return self.said

    # ── what follows from the books ─────────────────────────────────────────────────────────────────────────────────

    def waiting(self) -> list[Life]:
        """Alive without a slot, oldest arrival first unless the policy is reversed."""
        waiting = [life for life in self.lives if life.sequence is None]
        return waiting[::-1] if self.setup.reversed_policy else waiting

    def cells(self, growing: int = 0) -> int:
        """Cells that are held, with some more for decode rows under way."""
        return growing + sum(life.computed if life.decodes else len(life.known) for life in self.running)

    def next_deadline(self) -> float | None:
        """The earliest among those alive."""
        return min(
            (life.request.expires_at for life in self.lives if life.request.expires_at is not None), default=None
        )

    def _alive(self, request_id: int) -> Life | None:
        return next((life for life in self.lives if life.request.request_id == request_id), None)

    def _cancel_one(self, target: CancelById | CancelByToken) -> None:
        epoch = target.epoch if isinstance(target, CancelByToken) else 0
        life = self._alive(target.request_id)
        key = (target.request_id, epoch)
        by_token = isinstance(target, CancelByToken)
        if life is not None and (not by_token or life.request.epoch == epoch):
            if life.asked is not None:
                self.said.append(("ignored", *key, "duplicate"))
            self._ask(life, target.reason.value)
        elif by_token and life is not None and epoch < life.request.epoch:
            self.said.append(("ignored", *key, "stale_epoch"))
        elif by_token and epoch <= self.last_epoch:
            self.said.append(("ignored", *key, "unknown"))
        elif key in self.early:
            self.said.append(("ignored", *key, "duplicate"))
        else:
            self.early[key] = target.reason.value

    def _ask(self, life: Life, reason: str) -> None:
        if life.sequence is None:
            self._end(life, "cancelled", reason)
        elif life.asked is None:
            life.asked = reason

    def _close(self) -> None:
        for key in sorted(self.early, key=lambda key: key[1] > 0):
            self.said.append(("ignored", *key, "unknown"))
        self.early.clear()

    def _observe(self, now: float) -> None:
        timed = [life for life in self.lives if life.request.expires_at is not None and life.request.expires_at <= now]
        for life in sorted(
            timed,
            key=lambda life: (
                life.request.expires_at or 0,
                -life.number if self.setup.reversed_policy else life.number,
            ),
        ):
            self._ask(life, "timeout")
        for life in tuple(self.running):
            if life.asked is not None:
                self.said.append(("observed", life.request.request_id, life.sequence, life.asked, len(life.answer)))
                self._end(life, "cancelled", life.asked)

    # ── planners ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _decode_first(self) -> list[PlannedRow]:
        rows, yielded = self._decode_rows()
        self._start(blocked=yielded, growing=len(rows))
        budget = self.setup.limits.budget
        left_in_step = self._step_cap()
        answers = [life for life in self.running if life.answer and life.computed == len(life.known) - 1]
        for life in (*answers, *(life for life in self.running if life not in answers)):
            if not life.decodes:
                left_in_batch = self.setup.limits.num_rows - sum(row[2] for row in rows)
                caps = [left_in_batch, left_in_step]
                if budget.per_sequence is not None and self.step != 0:
                    caps.append(budget.per_sequence)
                take = min(len(life.known) - life.computed, *caps)
                left_in_step -= take
                rows += [(life, life.computed, take, "prefill")] if take else []
        return rows

    def _phases_apart(self, max_chunk: int) -> list[PlannedRow]:
        self._start(blocked=False, growing=0)
        first_turn = self._prompt_chunk(max_chunk) if self.prefill_next else []
        if first_turn:
            self.prefill_next = False
            return first_turn
        rows, _ = self._decode_rows()
        left_in_step = self._step_cap()
        for life in self.running:
            if not life.decodes and life.computed >= len(life.request.prompt) and left_in_step:
                left_in_step -= 1
                rows.append((life, life.computed, 1, "prefill"))
        if rows:
            self.prefill_next = True
            return rows
        return self._prompt_chunk(max_chunk)

    def _prompt_chunk(self, max_chunk: int) -> list[PlannedRow]:
        for life in self.running:
            left = len(life.request.prompt) - life.computed
            if left > 0:
                most = min(left, max_chunk, self.setup.limits.num_rows, self._step_cap(), self._sequence_cap())
                take = most - 1 if left == most + 1 and most > 2 else most
                return [(life, life.computed, take, "prefill")]
        return []

    def _step_cap(self) -> int:
        cap = self.setup.limits.budget.per_step
        return self.setup.limits.num_rows if cap is None or self.step == 0 else cap

    def _sequence_cap(self) -> int:
        cap = self.setup.limits.budget.per_sequence
        return self.setup.limits.num_rows if cap is None or self.step == 0 else cap

    def _decode_rows(self) -> tuple[list[PlannedRow], bool]:
        """A row for each that decodes; while the pool is too small for one, somebody without a row yields."""
        yielded = False
        rows: list[PlannedRow] = []
        for life in tuple(self.running):
            while (
                life.decodes and self.setup.layout.unified and self.cells(len(rows)) + 1 > self.setup.layout.num_cells
            ):
                planned = [row[0] for row in rows]
                victim = self._victim([other for other in self.running if other not in planned])
                self._preempt(victim, "no_room", swaps=True)
                yielded = True
            if life.decodes:
                rows.append((life, life.computed, 1, "decode"))
        return rows, yielded

    def _victim(self, candidates: list[Life]) -> Life:
        return candidates[0] if self.setup.reversed_policy else candidates[-1]

    def _start(self, *, blocked: bool, growing: int) -> None:
        layout, headroom = self.setup.layout, self.setup.limits.headroom_per_sequence
        for life in self.waiting():
            if blocked or (self.is_closed and self.running):
                return
            needed = self.cells(growing) + len(life.known) + headroom * len(self.running)
            usable = self._usable()
            if not usable or len(life.known) > layout.sequence_limit or (layout.unified and needed > layout.num_cells):
                return
            _, sequence = min(usable)
            del self.pools[sequence]
            life.computed, said = self.outside.bring_back(life.number, sequence)
            self.said += said
            life.sequence, life.has_answered_here = sequence, False
            self.running.append(life)
            request_id = life.request.request_id
            previous = self.owners.get(sequence)
            self.said.append(("admitted", request_id, sequence, previous, life.was_preempted, life.computed))
            self.owners[sequence] = request_id

    def _usable(self) -> list[tuple[str, int]]:
        """Ids that may be handed out now, with their pool where pools matter."""
        free = [(pool, each) for each, pool in self.pools.items() if pool not in {"resting", "retired"}]
        return free if self.setup.num_preloaded is not None else [("", each) for _, each in free]

    # ── ends ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _count(self, row: Row, token: int | None) -> None:
        life = next(life for life in self.running if life.sequence == row.sequence_id)
        life.computed += row.num_rows
        if token is None:
            return
        request = life.request
        if token in request.end_tokens and len(life.answer) >= request.min_tokens:
            self._end(life, "stop")
            return
        life.answer.append(token)
        life.has_answered_here = True
        self.said.append(("token", request.request_id, life.sequence, token, len(life.answer) - 1))
        if len(life.answer) == request.max_tokens:
            self._end(life, "length")

    def _refuse(self, op: KvOp) -> None:
        if isinstance(op, DropSequence):
            self.quarantined.add(op.sequence_id)
            self.pools.pop(op.sequence_id, None)
        for life in tuple(self.running):
            if life.sequence == harmed_sequence(op):
                self._preempt(life, "refused")

    def _fail(self, sequences: Sequence[int]) -> None:
        for sequence in sequences:
            for life in tuple(self.running):
                if life.sequence == sequence:
                    self._end(life, "failed")

    def _end(self, life: Life, reason: str, why: str | None = None) -> None:
        self.lives.remove(life)
        sequence = life.sequence
        if sequence is not None:
            self.is_closed = False
            self._give_back(life, "resting" if reason == "cancelled" else "done")
        self.said += self.outside.drop(life.number)
        self.said.append(("finished", life.request.request_id, reason, sequence, why))

    def _preempt(self, life: Life, cause: str, *, swaps: bool = False) -> None:
        sequence, computed = life.sequence, life.computed
        assert sequence is not None
        kept = self.outside.keep(life.number, sequence, computed, len(life.request.prompt)) if swaps else []
        self.said += kept
        self._give_back(life, "3 completed")
        life.sequence, life.computed, life.was_preempted = None, 0, True
        self.said.append(("preempted", life.request.request_id, sequence, cause, computed, bool(kept)))

    def _give_back(self, life: Life, pool: str) -> None:
        assert life.sequence is not None
        self.running.remove(life)
        self.said.append(("drop", life.sequence))
        if pool == "done":
            idle_origin = self.setup.num_preloaded is None or life.sequence >= self.setup.num_preloaded
            others_wait = any(other.sequence is None for other in self.lives)
            pool = "4 idle" if idle_origin else "retired"
            pool = "3 completed" if self.setup.reuse_completed and others_wait else pool
        if life.sequence not in self.quarantined:
            self.pools[life.sequence] = pool


def _short_row(life: Life, start: int, length: int, kind: str) -> Short:
    """As `shorten_row`, from the books of the reference."""
    end = start + length
    tokens = life.known[start:end]
    return (kind, life.request.request_id, life.sequence, start, tokens, end == len(life.known))
