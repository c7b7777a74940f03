"""One workload in two worlds: the live actor under a clock that is moved by hand, and the simulator."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from arriero.backend.protocol import DecodeError, DecodeInterrupted, KvExhausted
from arriero.backend.synthetic import SyntheticOptions
from arriero.backend.synthetic_memory import SyntheticStore
from arriero.core.events import CancelById, CancelByToken, CancelEverything
from arriero.core.ids import SequenceId, Time, TokenId
from arriero.core.plan import (
    BatchPlan,
    Failed,
    Interrupted,
    NoRoom,
    Row,
    Sampled,
    SequenceFailure,
    StepOutcome,
)
from arriero.core.request import Request
from arriero.engine.actor import Actor, Run, Settle, Wait
from arriero.engine.engine import Engine
from arriero.engine.inbox import AT_ONCE, Recalibrate
from arriero.engine.journal import Journal, describe
from arriero.engine.observer import Observer
from arriero.engine.options import EngineOptions
from arriero.record.journal import JournalLines
from arriero.record.lines import LineList
from arriero.sim.composition import build_scheduler
from arriero.sim.journal import journal_lines
from arriero.sim.simulator import Cancellation, Message, Recalibration, Simulator, Submission, VirtualInbox
from arriero.testing.clock import ManualClock
from arriero.testing.fakes import FaultyBackend, ScriptedBackend
from arriero.testing.faults import Fault
from arriero.testing.simulation import LinearCost

COST = LinearCost(1000, per_decode_row=70, per_prefill_row=30)

Kind: TypeAlias = Literal["no_room", "interrupted", "one_bad", "all_bad"]


@dataclass(frozen=True, kw_only=True)
class World:
    """What both worlds are made of.

    Attributes:
        messages: by time, those of one time in posting order; epochs count the submissions in this order.
        script: answers by request id.
        faults: what goes wrong, by step.
    """

    memory: SyntheticOptions
    options: EngineOptions
    messages: Sequence[Message]
    script: Mapping[int, Sequence[TokenId]]
    faults: Mapping[int, Kind] = field(default_factory=dict[int, Kind])

    @property
    def num_preloaded(self) -> int:
        """Those that the engine is told before its start."""
        count = sum(isinstance(each, Submission) and each.request.preloaded for each in self.messages)
        return min(count, self.memory.num_sequences - self.options.retained)

    def new_store(self) -> SyntheticStore | None:
        """Where runs are saved, and what preempted requests have computed, if either may be."""
        reuse, swap = self.options.reuse, self.options.swap
        return SyntheticStore() if swap is not None or (reuse is not None and reuse.host_tokens) else None


class FaultSchedule:
    """What goes wrong in a plan; never two failures of a whole batch in a row, after which an engine takes no work."""

    def __init__(self, faults: Mapping[int, Kind]) -> None:
        self._faults = faults
        self._has_failed = False

    def of(self, plan: BatchPlan) -> Kind | None:
        kind = None if self._has_failed else self._faults.get(plan.step)
        self._has_failed = kind == "all_bad" or (kind == "one_bad" and len(plan.rows) == 1)
        return kind


def bad_row(plan: BatchPlan) -> Row:
    """Whose request fails where one does."""
    return plan.rows[plan.step % len(plan.rows)]


# ── the live world ──────────────────────────────────────────────────────────────────────────────────────────────────


class PlannedFaults(Fault):
    """Faults of the plan that is being run."""

    def __init__(self, faults: Mapping[int, Kind]) -> None:
        self._schedule = FaultSchedule(faults)
        self._kind: Kind | None = None
        self._bad_request = 0

    def begin(self, plan: BatchPlan) -> None:
        self._kind = self._schedule.of(plan)
        self._bad_request = bad_row(plan).request.request_id

    def before_decode(self, call: int, rows: Sequence[Row]) -> None:
        if self._kind == "no_room":
            raise KvExhausted(f"call {call}: no place for {len(rows)} rows", code="kv_exhausted")
        if self._kind == "interrupted":
            raise DecodeInterrupted("told to stop", code="interrupted")

    def after_decode(self, call: int, rows: Sequence[Row]) -> None:
        is_bad = any(row.request.request_id == self._bad_request for row in rows)
        if self._kind == "all_bad" or (self._kind == "one_bad" and is_bad):
            raise DecodeError(f"call {call} was told to fail", code="decode_failed")


def live_journal(world: World, observers: Sequence[Observer] = (), *, host: int = 0) -> list[bytes]:
    """The journal of the live actor: a third driver of its loop moves the clock by the cost of each step.

    Args:
        world: of the run.
        observers: see what the journal sees.
        host: microseconds that the engine takes between two steps, and as many of each step beside its decode call; the
            simulator knows none.
    """
    clock = ManualClock()
    faults = PlannedFaults(world.faults)
    backend = FaultyBackend(ScriptedBackend(world.script, options=world.memory, store=world.new_store()), faults)
    sink = LineList()
    journal = Journal(sink, JournalLines(), backend.limits, world.options)
    engine = Engine(backend, world.options, observers=[journal, *observers], clock=clock)
    inbox = VirtualInbox(world.messages)
    _post(engine, inbox, 0)
    actor = engine._build(world.num_preloaded)
    _drive(engine, actor, inbox, clock, faults, host)
    num_retained = actor.scheduler.snapshot().kv.sequences_retained
    summary = actor.close(0, actor.executor.close(), None)
    assert len(summary.residual_sequences) == num_retained
    return sink.lines


def _drive(
    engine: Engine, actor: Actor, inbox: VirtualInbox, clock: ManualClock, faults: PlannedFaults, host: int = 0
) -> None:
    steps = actor.loop()
    need = next(steps)
    while True:
        match need:
            case Wait(until):
                clock.advance(host)
                _post(engine, inbox, clock())
                if until is not AT_ONCE and not len(actor.inbox):
                    wakes = [each for each in (inbox.next_at(), until) if each is not None]
                    if not wakes:
                        steps.close()
                        return
                    clock.advance(max(0, min(wakes) - clock()))
                    _post(engine, inbox, clock())
                need = steps.send(actor.inbox.take())
            case Settle(events):
                need = steps.send(actor.executor.settle(events))
            case Run(plan):
                faults.begin(plan)
                duration = COST.step_time(plan.shape)
                outcome = actor.executor.run(plan)
                clock.advance(duration)
                # its stopwatch stands still in virtual time
                actor.executor.counts.decode_ns = int(duration - host) * 1000
                need = steps.send(outcome)


def _post(engine: Engine, inbox: VirtualInbox, now: Time) -> None:
    """Hand over what is due, through the engine's own doors."""
    for message in inbox.due(now):
        match message:
            case Submission(request):
                _submit(engine, request)
            case Cancellation(CancelById(request_id, reason)):
                engine.cancel(request_id, reason)
            case Cancellation(CancelByToken(request_id, epoch, reason)):
                engine.cancel_submission(request_id, epoch, reason)
            case Cancellation(CancelEverything(reason)):
                engine.cancel_all(reason)
            case Recalibration(change):
                engine._inbox.post(Recalibrate(change))
            case _:
                raise AssertionError(message)


def _submit(engine: Engine, request: Request) -> None:
    def after(at: Time | None) -> int | None:
        return None if at is None else int(at - request.arrival_at) // 1000

    handle = engine.submit(
        request.prompt,
        request.max_tokens,
        request_id=request.request_id,
        end_tokens=request.end_tokens,
        min_tokens=request.min_tokens,
        timeout_ms=after(request.expires_at),
        queue_timeout_ms=after(request.start_by),
        deadline_ms=after(request.deadline_at),
        priority=request.priority,
        tenant=request.tenant,
        arrival_at=request.arrival_at,
        preloaded=request.preloaded,
        session_id=request.session_id,
        cache_scope=request.cache_scope,
    )
    assert handle.epoch == request.epoch


# ── the simulated world ─────────────────────────────────────────────────────────────────────────────────────────────


class ScriptAnswers:
    """What the scripted backend says, worked out from the plan alone."""

    def __init__(self, world: World) -> None:
        self._script = world.script
        self._end_tokens = world.memory.end_tokens
        self._faults = FaultSchedule(world.faults)

    def to(self, plan: BatchPlan) -> StepOutcome:
        """The outcome of one plan with rows."""
        match self._faults.of(plan):
            case "no_room":
                return NoRoom()
            case "interrupted":
                return Interrupted()
            case "all_bad":
                return Failed(failures=tuple(map(_failure, plan.rows)))
            case "one_bad" if len(plan.rows) == 1:
                return Failed(failures=(_failure(plan.rows[0]),))
            case "one_bad":
                bad = bad_row(plan)
                return Sampled(tokens=self._tokens(plan, bad), failures=(_failure(bad),))
            case _:
                return Sampled(tokens=self._tokens(plan, None))

    def _tokens(self, plan: BatchPlan, bad: Row | None) -> dict[SequenceId, TokenId]:
        return {row.sequence_id: self._token(row) for row in plan.rows if row.wants_logits and row is not bad}

    def _token(self, row: Row) -> TokenId:
        answer = self._script.get(row.request.request_id, ())
        index = row.start + row.num_rows - len(row.request.prompt)
        token = answer[index] if index < len(answer) else 1
        return 0 if token in self._end_tokens and index < row.request.min_tokens else token


def _failure(row: Row) -> SequenceFailure:
    return SequenceFailure(row.sequence_id, "decode_failed", "scripted")


def simulated_journal(world: World) -> list[bytes]:
    """The journal of the simulator."""
    setup = describe(world.memory.limits(), world.options, world.num_preloaded)
    simulator = Simulator(scheduler=build_scheduler(setup), cost=COST, answers=ScriptAnswers(world), check=True)
    return list(journal_lines(simulator.run(world.messages), setup))
