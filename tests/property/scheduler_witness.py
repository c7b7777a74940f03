"""What anybody can see of a scheduler must hold together: plans, outcomes and events, and nothing else.

The witness knows no policy, no planner and no pool. It keeps a memory that does what plans and operations say, and
the promises made to callers.
"""

from dataclasses import dataclass, field

from arriero.core.events import (
    Admitted,
    DropSequence,
    Event,
    Finished,
    ForgetSaved,
    Preempted,
    Queued,
    Rejected,
    RestoreSequence,
    SaveSequence,
    TokenEmitted,
    harmed_sequence,
)
from arriero.core.plan import BatchPlan, DecodeRow, PrefillChunk, Sampled, StepOutcome
from arriero.core.request import FinishReason, Request
from arriero.testing.strategies import SchedulerSetup


@dataclass
class Seen:
    """One request, as its caller sees it."""

    request: Request
    number: int
    answer: list[int] = field(default_factory=list)
    sequence: int | None = None
    ended: bool = False
    answers: bool = False  # it has said something since it got its slot


@dataclass
class Witness:
    """Asserts on each event and row; figures for the report of a long run."""

    setup: SchedulerSetup
    seen: dict[int, Seen] = field(default_factory=dict)  # by request id, the latest life
    memory: dict[int, int] = field(default_factory=dict)  # positions in KV by sequence id
    resting: set[int] = field(default_factory=set)  # freed by a cancel in the step being planned
    given: list[tuple[int, int]] = field(default_factory=list)  # (request id, token) that outcomes gave
    dropped: int | None = None  # cleared by the event before this one
    outside: dict[int, int] = field(default_factory=dict)  # positions by key
    num_queued: int = 0
    num_ended: int = 0
    num_steps: int = 0

    def alive(self) -> list[Seen]:
        """Queued and not ended."""
        return [each for each in self.seen.values() if not each.ended]

    def hear(self, events: tuple[Event, ...]) -> None:
        """Check events in the order in which they are told."""
        for event in events:
            cleared, self.dropped = self.dropped, None
            match event:
                case Queued(request):
                    assert request.request_id not in {each.request.request_id for each in self.alive()}
                    self.num_queued += 1
                    self.seen[request.request_id] = Seen(request, self.num_queued)
                case DropSequence(sequence_id):
                    self.memory.pop(sequence_id, None)
                    self.dropped = sequence_id
                case Admitted():
                    self._admitted(event)
                case TokenEmitted():
                    self._token(event)
                case Preempted():
                    self._leave(event.request_id, event.sequence_id, cleared)
                case Finished():
                    self._finished(event, cleared)
                case Rejected():
                    assert event.error.args[0]
                case SaveSequence() | RestoreSequence() | ForgetSaved():
                    self._swapped(event)
                case _:
                    pass
        assert self.dropped is None, "a sequence was cleared and nobody was told why"

    def _swapped(self, event: SaveSequence | RestoreSequence | ForgetSaved) -> None:
        """Whole sequences go out, and come back as they were; the room is never exceeded."""
        match event:
            case SaveSequence(sequence_id, key, length):
                assert key not in self.outside
                assert 0 < length == self.memory[sequence_id]
                self.outside[key] = length
            case RestoreSequence(sequence_id, key, length):
                assert self.memory.get(sequence_id, 0) == 0
                assert self.outside[key] == length
                self.memory[sequence_id] = length
            case ForgetSaved(key):
                del self.outside[key]
        assert sum(self.outside.values()) <= self.setup.swap_tokens

    def look_at(self, plan: BatchPlan, now: float) -> None:
        """Check a plan after its events were heard."""
        self.num_steps += 1
        limits = self.setup.limits
        prefill = [row for row in plan.rows if isinstance(row, PrefillChunk)]
        assert plan.shape.decode_rows == len(plan.rows) - len(prefill)
        assert plan.shape.prefill_rows == sum(row.num_rows for row in prefill)
        assert plan.shape.prefill_chunks == len(prefill)
        assert plan.shape.context_tokens == sum(self.memory.get(row.sequence_id, 0) for row in plan.rows)
        assert plan.shape.num_rows <= limits.num_rows
        if plan.step > 0:
            assert limits.budget.per_step is None or plan.shape.prefill_rows <= limits.budget.per_step
            assert all(row.num_rows <= (limits.budget.per_sequence or row.num_rows) for row in prefill)
        ids = [row.sequence_id for row in plan.rows]
        assert ids == sorted(set(ids))
        for row in plan.rows:
            life = self.seen[row.request.request_id]
            known = (*life.request.prompt, *life.answer)
            assert row.request is life.request
            assert row.sequence_id == life.sequence
            assert row.start == self.memory.get(row.sequence_id, 0), "positions are not contiguous"
            assert row.tokens == known[row.start : row.start + row.num_rows] != ()
            assert row.wants_logits == (row.start + row.num_rows == len(known))
        self._no_decoder_left_out(plan)
        assert plan.wake_at is None or plan.wake_at >= now
        if any(each.sequence is not None for each in self.alive()):
            assert plan.rows, "somebody runs and nothing is computed"
        self.resting.clear()

    def take_outcome(self, plan: BatchPlan, outcome: StepOutcome) -> None:
        """Do to the memory what the step did, before its events are heard."""
        if not isinstance(outcome, Sampled):
            return
        spared: set[int | None] = {failure.sequence_id for failure in outcome.failures}
        spared |= {harmed_sequence(op) for op in outcome.refused}
        for row in plan.rows:
            if row.sequence_id not in spared:
                self.memory[row.sequence_id] = row.start + row.num_rows
                if row.wants_logits:
                    self.given.append((row.request.request_id, outcome.tokens[row.sequence_id]))

    def all_given_was_told(self) -> None:
        """After the events of a commit: no token is left untold, except those that end an answer."""
        assert not self.given, f"tokens were sampled and not told: {self.given}"

    def _admitted(self, event: Admitted) -> None:
        life = self.seen[event.request.request_id]
        waiting = sorted((each for each in self.alive() if each.sequence is None), key=lambda each: each.number)
        assert life is waiting[-1 if self.setup.reversed_policy else 0], "somebody was overtaken"
        assert event.sequence_id not in {each.sequence for each in self.alive()}
        assert event.sequence_id not in self.resting, "freed by a cancel in this very step"
        assert self.memory.get(event.sequence_id, 0) == event.num_swapped_in, "handed out before it was cleared"
        assert not event.num_swapped_in or event.resumed
        life.sequence, life.answers = event.sequence_id, False

    def _token(self, event: TokenEmitted) -> None:
        life = self.seen[event.request_id]
        assert self.given.pop(0) == (event.request_id, event.token)
        assert (event.sequence_id, event.index) == (life.sequence, len(life.answer))
        assert not (event.token in life.request.end_tokens and event.index >= life.request.min_tokens)
        life.answer.append(event.token)
        life.answers = True

    def _finished(self, event: Finished, cleared: int | None) -> None:
        life = self.seen[event.request.request_id]
        assert not life.ended, "a second end"
        if event.reason is FinishReason.STOP:
            request_id, token = self.given.pop(0)
            assert request_id == event.request.request_id
            assert token in event.request.end_tokens
        assert (event.reason is FinishReason.LENGTH) == (len(life.answer) == life.request.max_tokens)
        assert event.num_decoded == len(life.answer)
        assert (event.cancel_reason is None) == (event.reason is not FinishReason.CANCELLED)
        assert (event.error is None) == (event.reason is not FinishReason.FAILED)
        if event.reason is FinishReason.CANCELLED and event.sequence_id is not None:
            self.resting.add(event.sequence_id)
        self._leave(event.request.request_id, event.sequence_id, cleared)
        life.ended = True
        self.num_ended += 1

    def _leave(self, request_id: int, sequence_id: int | None, cleared: int | None) -> None:
        life = self.seen[request_id]
        assert life.sequence == sequence_id == cleared, "told before its sequence was cleared"
        life.sequence = None

    def _no_decoder_left_out(self, plan: BatchPlan) -> None:
        """Decode rows are never dropped: all of them, or, where phases are apart, none beside a prompt."""
        decoding = {
            each.sequence
            for each in self.alive()
            if each.sequence is not None
            and each.answers
            and self.memory.get(each.sequence, 0) == len(each.request.prompt) + len(each.answer) - 1
        }
        planned = {row.sequence_id for row in plan.rows if isinstance(row, DecodeRow)}
        if self.setup.max_chunk is None or planned:
            assert {row.sequence_id for row in plan.rows} >= decoding
