"""Slots: who runs, on which sequence, and who yields when KV memory runs out.

The one place where a request gets a sequence and loses it, so that the books of scheduler and KV manager cannot
drift apart. Growth is on demand: a request starts when its known tokens and some headroom fit, never its whole allowed
output. When room ends, the policy's victim goes back to its old place among the waiting with its tokens kept. Its KV is
swapped out for it where the rules say that this is cheaper than computing it again, and where there is room outside;
then nobody else starts from it.

What a request has computed is offered to the KV manager when it gives its sequence back, unless it is swapped:

    it ended by itself, or its caller found a stop string     always
    it was cancelled, or yielded its place                    unless runs belong to conversations that were completed
    it failed, or memory refused or lacked what it promised   never
"""

from collections.abc import Container, Sequence

from arriero.core.errors import EngineFault
from arriero.core.events import (
    Admitted,
    Event,
    Finished,
    Moved,
    Preempted,
    PreemptionCause,
    ReuseVerdict,
    TokenEmitted,
)
from arriero.core.ids import RequestId, SequenceId, StepNumber, Time, TokenId
from arriero.core.plan import Deferral, PrefillChunk, Row
from arriero.core.request import CancelReason, FinishReason, RequestState
from arriero.kv.protocol import KvManager, PrefixHit, ReleaseCause, Shortage
from arriero.scheduler.displacement import cells_ahead, finds_place, last_behind, would_find_place
from arriero.scheduler.holes import Holes
from arriero.scheduler.policies import Policy
from arriero.scheduler.progress import Progress
from arriero.scheduler.ranked import ByRank
from arriero.scheduler.rules import SchedulerRules
from arriero.scheduler.waiting import Rank, WaitingQueue


class _Step:
    """What has happened in the step that is being planned."""

    __slots__ = ("followers", "has_preempted", "loans", "num_started", "number")

    def __init__(self, number: StepNumber) -> None:
        self.number = number
        self.num_started = 0
        self.has_preempted = False
        self.loans: dict[int, Rank] = {}  # admission -> the better rank of who waits for its prompt
        self.followers: list[RequestId] = []  # who waits for a prompt


class Slots:
    """Moves requests between waiting, running and finished, and says so in events.

    Attributes:
        waiting: requests without a slot.
        running: requests with one, in admission order.
        events: what happened since they were last taken; written here, taken by the scheduler.
        num_overtakes: requests that were started before an older one, on purpose.
    """

    def __init__(self, kv: KvManager, policy: Policy, rules: SchedulerRules, headroom_per_sequence: int) -> None:
        """Start with nobody."""
        self.waiting = WaitingQueue()
        self.running: list[Progress] = []
        self.events: list[Event] = []
        self.num_overtakes = 0
        self._kv = kv
        self._policy = policy
        self._rules = rules
        self._headroom = headroom_per_sequence
        self._num_admissions = 0
        self._step = _Step(0)
        self._now: Time = 0
        self._is_closed = False  # nobody starts beside those who run, until one of them has ended

    def begin_step(self, step: StepNumber) -> None:
        """A new step is being planned: ids that a cancel freed in an earlier one may be used again."""
        self._step = _Step(step)
        self._kv.begin_step(self._now)

    def go_on_to(self, step: StepNumber) -> None:
        """Steps equal to the present one have been computed with it; this is the last of them."""
        self._step.number = step

    def at(self, now: Time) -> None:
        """Stamp the events to come."""
        self._now = now

    @property
    def has_preempted(self) -> bool:
        """Whether somebody had to yield in this step."""
        return self._step.has_preempted

    def by_turn(self) -> ByRank:
        """Those who run, by rank; changes with `running`."""
        return ByRank(self.running, self.turn_of)

    @property
    def followers(self) -> tuple[RequestId, ...]:
        """Who waits, in this step, for a prefix that is being computed."""
        return tuple(self._step.followers)

    def turn_of(self, progress: Progress) -> Rank:
        """Its rank, or for this step the better one that was lent to it."""
        return self._step.loans.get(progress.admission, progress.rank)

    def lend(self, progress: Progress) -> None:
        """Let whoever computes the prefix that a waiting request waits for go as early as that one would."""
        self._step.followers.append(progress.request.request_id)
        if not self._policy.by_rank:
            return
        tokens = self._findable(progress)
        limit = min(len(tokens), progress.num_reusable)
        sequence_id = self._kv.leader(tokens, progress.request.cache_scope, limit)
        leader = next((each for each in self.running if each.sequence_id == sequence_id), None)
        if leader is not None and progress.rank < self.turn_of(leader):
            self._step.loans[leader.admission] = progress.rank

    def lookup(self, progress: Progress) -> PrefixHit:
        """How much of what a waiting request knows is in memory already; changes nothing."""
        tokens = self._findable(progress)
        return self._kv.lookup(tokens, progress.request.cache_scope, min(len(tokens), progress.num_reusable))

    def foreseen(self, progress: Progress) -> int:
        """How much of it will be, once the prompts that are being computed now are; changes nothing.

        Nothing for one whose own KV is kept: it need not wait for anybody's.
        """
        if self._kv.swaps.length(progress.request.request_id):
            return 0
        tokens = self._findable(progress)
        return self._kv.foreseen(tokens, progress.request.cache_scope, min(len(tokens), progress.num_reusable))

    def closed_to_all(self) -> Deferral | None:
        """Why nobody can start any more in this step, whoever it is; None if somebody may.

        Nobody starts in a step in which somebody had to yield: the room that was made is for those who run. Nor does
        anybody beside others after `close`.
        """
        if self._step.has_preempted or (self._is_closed and self.running):
            return Deferral.KV
        if not self._rules.start.may_start(len(self.running), self._step.num_started):
            return Deferral.SLOTS
        return None

    def admit(self, progress: Progress, hit: PrefixHit | None = None) -> Deferral | None:
        """Give a waiting request a slot with places for all its known tokens, or say why not and change nothing."""
        if (closed := self.closed_to_all()) is not None:
            return closed
        headroom = self._headroom * len(self.running)
        hit = self.lookup(progress) if hit is None else hit
        started = self._kv.start(progress.request.request_id, progress.num_known, headroom, hit)
        if isinstance(started, Shortage):
            return Deferral.KV if started.missing else Deferral.SLOTS
        is_there = started.num_cached == hit.num_tokens  # else what was found has gone meanwhile
        self.events += self._kv.take_ops()
        self.waiting.remove(progress)
        progress.admit(started.sequence_id, self._num_admissions, started.num_there)
        self._num_admissions += 1
        self._step.num_started += 1
        self.running.append(progress)
        self.events.append(
            Admitted(
                progress.request,
                started.sequence_id,
                self._step.number,
                started.source,
                started.previous_request_id,
                progress.was_preempted,
                self._now,
                started.num_cached,
                started.prefix,
                hit.verdict if is_there else ReuseVerdict.NO_MATCH,
                hit.num_matched,
                started.num_swapped_in,
            )
        )
        return None

    def overtake(self, progress: Progress, hit: PrefixHit) -> Deferral | None:
        """As `admit`, of a request before which another one waits."""
        reason = self.admit(progress, hit)
        self.num_overtakes += reason is None
        return reason

    def displace(self) -> None:
        """Have one that runs yield to the first of those who wait, if that one ranks before it and finds no place.

        At most one in a step. The room is for who waits, so others may start in this step too.
        """
        head, closed = self.waiting.head(), self.closed_to_all()
        victim = None if head is None or closed is Deferral.KV else last_behind(head, self.running)
        if head is None or victim is None:
            return
        hit, ahead = self.lookup(head), cells_ahead(self.running, self._headroom)
        if closed is None and finds_place(head, hit, self._kv, ahead):
            return
        if self.foreseen(head) > hit.num_tokens:
            return  # who waits for a prefix would leave the place to somebody behind it
        if would_find_place(head, victim, self._kv, ahead - cells_ahead([victim], self._headroom)):
            self.preempt(victim, PreemptionCause.DISPLACED, keeps=self._keeps_unfinished, swaps=True)
            self._step.has_preempted = False

    def close_hole(self, holes: Holes) -> None:
        """Move a running request to a lower sequence id, if that pays; who waits would fill the hole instead."""
        if self.waiting:
            return
        mover = holes.mover(self.running)
        to = None if mover is None else self._kv.move_down(mover.held_sequence)
        if mover is None or to is None:
            return
        sequence_id = mover.held_sequence
        mover.move(to)
        self.events += self._kv.take_ops()
        self.events.append(Moved(mover.request.request_id, sequence_id, to, self._step.number, self._now))

    def cells_in_use(self) -> int:
        """Cells with KV in them, retained ones too, and those that decode rows of this step have been given."""
        usage = self._kv.usage()
        prefilling = (each for each in self.running if each.state is RequestState.PREFILLING)
        # a prompt holds places for all of its tokens from the start
        return usage.num_cells - usage.free_cells - sum(each.num_remaining for each in prefilling)

    def extend_each(self, sequence_ids: Sequence[SequenceId]) -> bool:
        """One more place for each of several running requests in turn, if nobody has to yield; else no change."""
        return self._kv.grow_each(sequence_ids)

    def extend(self, progress: Progress, taken: Container[SequenceId]) -> Deferral | None:
        """One more place for a running request, at the expense of the policy's victims, or why there is none.

        Who has a row in this step already, its sequence being in `taken`, does not yield.
        """
        while self._kv.grow(progress.held_sequence, 1) is not None:
            victim = self._policy.victim([each for each in self.running if each.held_sequence not in taken])
            if victim is None:
                return Deferral.KV
            self.preempt(victim, PreemptionCause.NO_ROOM, keeps=self._keeps_unfinished, swaps=True)
            if victim is progress:
                return Deferral.YIELDED
        return None

    def promise(self, row: PrefillChunk) -> None:
        """The step has taken a stretch of a prompt."""
        self._kv.promise(row.sequence_id, row.start + row.num_rows)

    def publish(self, rows: Sequence[Row]) -> None:
        """The prompts in these rows are computed, as far as they go, and may be found from now on."""
        for row in rows:
            if isinstance(row, PrefillChunk):
                self._kv.publish(row.sequence_id, row.start + row.num_rows)

    def yield_one(self, harmed: Container[SequenceId | None]) -> Progress | None:
        """Memory is fuller than the books say: preempt the policy's victim.

        None if it runs alone, since nothing would be gained. What the `harmed` sequences hold is not what is known.
        """
        self.close()
        if len(self.running) <= 1:
            return None
        victim = self._policy.victim(self.running)
        if victim is not None:
            self.preempt(victim, PreemptionCause.NO_ROOM, swaps=victim.sequence_id not in harmed)
        return victim

    def close(self) -> None:
        """Let nobody start beside others until one of those who run has ended; one alone may start.

        For troubles that come back with the same company: memory that is fuller than the books say, where the one that
        yielded would take the same room again, and a batch that fails and cannot be taken apart. Without it nobody
        would ever get on; with it each round ends at least one request.
        """
        self._is_closed = True

    def rewind(self, progress: Progress) -> None:
        """Give back the places of rows that were planned and not computed.

        Between two steps a prompt holds a place for each known token, a decoding request one for each computed token.
        """
        prefilling = progress.state is RequestState.PREFILLING
        self._kv.rewind(progress.held_sequence, progress.num_known if prefilling else progress.num_computed)

    def preempt(self, progress: Progress, cause: PreemptionCause, *, keeps: bool = False, swaps: bool = False) -> None:
        """Take the slot of a running request away and let it wait at its old place.

        With `swaps` its KV may be kept outside until it runs again; else, with `keeps`, it may stay for it, or for
        others, until the room is needed.
        """
        self._step.has_preempted = True
        sequence_id, num_computed = progress.held_sequence, progress.num_computed
        swapped = swaps and self._swap_out(progress)
        self._release(progress, ReleaseCause.PREEMPTED, keeps=keeps and not swapped)
        progress.preempt()
        self.waiting.add(progress)
        request_id, step = progress.request.request_id, self._step.number
        self.events.append(Preempted(request_id, sequence_id, step, cause, num_computed, self._now, swapped))

    def finish(
        self,
        progress: Progress,
        reason: FinishReason,
        *,
        cancel_reason: CancelReason | None = None,
        error: EngineFault | None = None,
    ) -> None:
        """End a request, waiting or running; its sequence is cleared before its end is told."""
        state, sequence_id, num_computed = progress.state, progress.sequence_id, progress.num_computed
        if sequence_id is None:
            self.waiting.remove(progress)
            self._kv.swaps.forget(progress.request.request_id)
            self.events += self._kv.take_ops()
        else:
            self._is_closed = False
            cancelled = reason is FinishReason.CANCELLED
            cause = ReleaseCause.CANCELLED if cancelled else ReleaseCause.COMPLETED
            self._release(progress, cause, keeps=self._keeps(reason, cancel_reason))
        progress.finish()
        self.events.append(
            Finished(
                request=progress.request,
                reason=reason,
                sequence_id=sequence_id,
                step=self._step.number,
                num_decoded=progress.num_decoded,
                num_computed=num_computed,
                state=state,
                at=self._now,
                cancel_reason=cancel_reason,
                error=error,
            )
        )

    def emit_token(self, progress: Progress, sequence_id: SequenceId, token: TokenId) -> None:
        """Tell the token that a running request has just appended."""
        request_id, index = progress.request.request_id, progress.num_decoded - 1
        self.events.append(TokenEmitted(request_id, sequence_id, token, index, self._step.number, self._now))

    def take_events(self) -> tuple[Event, ...]:
        """What happened since the last call, in order."""
        self.events += self._kv.take_ops()
        events = tuple(self.events)
        self.events.clear()
        return events

    # ── helpers ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _findable(self, progress: Progress) -> Sequence[TokenId]:
        """The tokens to look for: the answer of a request that resumes too, if answers are kept."""
        reuse = self._rules.reuse
        has_answer = progress.num_known > progress.num_prompt
        if has_answer and reuse is not None and reuse.keeps_answers:
            return tuple(progress.known)
        return progress.request.prompt

    def _swap_out(self, progress: Progress) -> bool:
        """Have what a request has computed kept outside for it, if that is cheaper than computing it again."""
        rule, length = self._rules.swap, min(progress.num_computed, progress.num_reusable)
        if rule is None or length < 1:
            return False
        sequence_id = progress.held_sequence
        if not rule.pays(length, progress.num_prompt, self._kv.held_elsewhere(sequence_id)):
            return False
        return self._kv.swaps.save(progress.request.request_id, sequence_id, length)

    @property
    def _keeps_unfinished(self) -> bool:
        """Whether others may start from what was not completed."""
        return self._rules.reuse is not None and not self._rules.reuse.per_session

    def _keeps(self, reason: FinishReason, cancel_reason: CancelReason | None) -> bool:
        """Whether what a request computed may stay after this end."""
        match reason:
            case FinishReason.STOP | FinishReason.LENGTH:
                return True
            case FinishReason.CANCELLED:
                return cancel_reason is CancelReason.STOP or self._keeps_unfinished
            case FinishReason.ABORTED | FinishReason.FAILED:
                return False

    def _release(self, progress: Progress, cause: ReleaseCause, *, keeps: bool) -> None:
        self.running.remove(progress)
        has_scope = self._rules.reuse is not None and progress.request.cache_scope is not None
        computed = progress.computed if keeps and has_scope else None
        self._kv.release(progress.held_sequence, cause, len(self.waiting), computed)
        self.events += self._kv.take_ops()
