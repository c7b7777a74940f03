"""A run in arriero's own mode: the scheduler of the engine, in virtual time."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import UnsetType
from msgspec.structs import replace

from arriero.core.events import Preempted
from arriero.core.ids import RequestId, Time
from arriero.core.plan import BatchPlan, DecodeRow, Deferral, PrefillChunk
from arriero.core.request import BlankTokens, Request
from arriero.kv.blocks import BlockManager
from arriero.metrics.steps import StepFigures, StepTally
from arriero.record.sim_reuse import reuse_totals
from arriero.record.sim_rows import Deferred, SimRequestRow, SimTotals, StepRow
from arriero.record.simulation_config import SimulationConfig, Slots, Trace
from arriero.sim.composition import Memory, build_memory, build_scheduler
from arriero.sim.door import GuardedInbox, Turned, door_of
from arriero.sim.journal import SimulationJournal
from arriero.sim.own_answers import KnownAnswers, Turn, answers_in
from arriero.sim.own_lives import OwnLives
from arriero.sim.own_memory import Fullness, MemoryGauge
from arriero.sim.own_order import order_of
from arriero.sim.own_scopes import answers_return, reuses_cells, scope_of, session_of
from arriero.sim.own_setup import new_cost, own_setup
from arriero.sim.simulator import Answers, ArrivalInbox, NoAnswers, SimulatedStep, Simulator, always, never
from arriero.workload.notes import notes_of
from arriero.workload.records import WorkloadRecord, numbered


def run_simulation(
    config: SimulationConfig,
    records: Sequence[WorkloadRecord],
    *,
    check: bool = False,
    jumps: bool = True,
    journal: SimulationJournal | None = None,
) -> Iterator[StepRow | SimRequestRow | SimTotals]:
    """Step rows as the trace level says, then request rows by internal id, then the totals.

    Args:
        config: the run.
        records: the workload in any order.
        check: verify every invariant after every step.
        jumps: take equal decode steps in one, where costs allow it; all rows are the same.
        journal: is written beside.

    Raises:
        ConfigError: the parts do not go together.
        DataError: a time leaves its 64 bits.
    """
    setup, cost, ordered = own_setup(config), new_cost(config), numbered(records)
    kv = build_memory(setup)
    scheduler = build_scheduler(setup, kv)
    gauge = MemoryGauge(kv)
    simulator = Simulator(
        scheduler=scheduler,
        cost=cost,
        answers=_answers(config, ordered),
        check=check,
        jumps=_rule_of_jumps(config) if jumps and cost.is_level and not reuses_cells(config) else never,
        on_plan=gauge.look,
    )
    requests = (request_of(config, number, record) for number, record in enumerate(ordered, start=1))
    inbox, door = ArrivalInbox(requests), door_of(config.limits)
    guarded = None if door is None else GuardedInbox(inbox, door)
    steps = simulator.run_from(inbox) if guarded is None else guarded.follow(simulator.run_from(guarded))
    if journal is not None:
        num_tokens = sum(len(record.prompt_tokens or ()) for record in ordered)
        steps = journal.follow(steps, setup, max_runs=max(1, len(ordered)), max_tokens=max(1, num_tokens))
    return _rows(config, steps, gauge, kv, ordered, guarded.refused if guarded is not None else ())


def _answers(config: SimulationConfig, ordered: Sequence[WorkloadRecord]) -> Answers:
    """What requests say matters only where it may be reused."""
    if not reuses_cells(config):
        return NoAnswers()
    return KnownAnswers(answers_in(_turns(ordered)) if answers_return(config) else {})


def _turns(ordered: Sequence[WorkloadRecord]) -> Iterator[Turn]:
    for number, record in enumerate(ordered, start=1):
        notes = notes_of(record)
        yield Turn(
            request_id=RequestId(number),
            conversation=notes.session_id,
            turn=notes.turn or 0,
            prompt=record.prompt_tokens,
            max_tokens=record.max_new_tokens,
        )


_SETTLED: Final = frozenset({"fcfs", "priority", "shortest-prefill", "deadline", "longest-match"})
"""Policies whose order of those who wait stays while nothing but answers is computed."""


def _rule_of_jumps(config: SimulationConfig) -> Callable[[BatchPlan], bool]:
    """Whether the rows of equal steps say the same, if there are any.

    Who waits for a slot may wait for memory as well before these steps are over, since it gets fuller. And where the
    order of those who wait follows what others get, each step may name them in another one.
    """
    if config.trace == "off":
        return always
    if config.trace == "full" and config.policy not in _SETTLED:
        return lambda plan: not plan.deferrals
    if isinstance(config.kv, Slots):
        return always
    return lambda plan: Deferral.SLOTS not in plan.deferrals


def _rows(
    config: SimulationConfig,
    steps: Iterator[SimulatedStep],
    gauge: MemoryGauge,
    kv: Memory,
    ordered: Sequence[WorkloadRecord],
    refused: Sequence[Turned],
) -> Iterator[StepRow | SimRequestRow | SimTotals]:
    lives = OwnLives(ordered, is_looked_up=lambda record: scope_of(config, record) is not None)
    tally = StepTally(config.limits.rows, gauge.size, gauge.tokens_per_place)
    ended_at, spent, prefill_rows = 0, _TimeSpent(tally, gauge), 0
    for step in steps:
        ended_at = int(step.ended_at)
        prefill_rows += step.plan.shape.prefill_rows
        spent.add(step)
        lives.add(step)
        if step.outcome is not None and config.trace != "off":
            yield from _step_rows(step, gauge, config.trace)
    for each in refused:  # complete only now
        lives.refuse(each.request.request_id, each.reason)
    yield from lives.rows()
    yield _totals(ended_at, tally.figures(), kv, prefill_rows if reuses_cells(config) else None)


def _totals(ended_at: int, steps: StepFigures, kv: Memory, prefill_rows: int | None) -> SimTotals:
    """What a run knows at its end; the prompt rows are given where cells are reused."""
    figures = kv.reuse_figures()
    if figures is not None and prefill_rows is not None:
        reuse = reuse_totals(figures, prefill_rows)
        return SimTotals(ended_at, steps, reuse.num_evictions, reuse)
    return SimTotals(ended_at, steps, kv.counts.evictions if isinstance(kv, BlockManager) else 0)


class _TimeSpent:
    """Tells a tally what each stretch of time was spent on, from the first arrival on.

    An idle one is known when the next step begins.
    """

    def __init__(self, tally: StepTally, gauge: MemoryGauge) -> None:
        self._tally = tally
        self._gauge = gauge
        self._idle: SimulatedStep | None = None
        self._idle_full = Fullness(0, 0)
        self._has_begun = False  # somebody has arrived

    def add(self, step: SimulatedStep) -> None:
        """Count a step, and the idle time before it."""
        if self._idle is not None:
            held, tokens = self._idle_full
            duration = int(step.began_at - self._idle.ended_at)
            self._tally.idle(duration, waiting=self._idle.plan.num_waiting, kv_held=held, kv_tokens=tokens)
            self._idle = None
        self._has_begun = self._has_begun or bool(step.messages)
        if step.outcome is None:
            if self._has_begun:
                self._idle, self._idle_full = step, self._gauge.now()
            return
        plan, before = step.plan, int(step.began_at)
        num_rows, num_sequences = plan.shape.num_rows, len(plan.rows)
        for end, full in zip(map(int, step.ends), self._gauge.during(num_rows, len(step.ends)), strict=True):
            self._tally.step(
                end - before,
                rows=num_rows,
                sequences=num_sequences,
                waiting=plan.num_waiting,
                kv_held=full.held,
                kv_tokens=full.tokens,
            )
            before = end


def _step_rows(step: SimulatedStep, gauge: MemoryGauge, trace: Trace) -> Iterator[StepRow]:
    """One row; or one for each of equal steps, in which nothing but time and memory moves."""
    row = _step_row(step, gauge, trace)
    ends, began_at = step.ends, row.began_at_us
    for number, full in enumerate(gauge.during(len(step.plan.rows), len(ends) - 1)):
        ended_at = int(ends[number])
        yield replace(row, began_at_us=began_at, ended_at_us=ended_at, kv_held=full.held, step=row.step + number)
        began_at = ended_at
    if len(ends) > 1:
        row = replace(row, began_at_us=began_at, step=row.step + len(ends) - 1)
    yield row


def _step_row(step: SimulatedStep, gauge: MemoryGauge, trace: Trace) -> StepRow:
    plan = step.plan
    row = StepRow(
        began_at_us=int(step.began_at),
        decode_rows=plan.shape.decode_rows,
        deferred={str(reason): plan.deferrals[reason] for reason in sorted(plan.deferrals)},
        ended_at_us=int(step.ended_at),
        kv_held=gauge.now().held,
        num_running=plan.shape.num_running,
        num_waiting=plan.num_waiting,
        preempted=sum(isinstance(event, Preempted) for event in step.events),
        prefill_rows=plan.shape.prefill_rows,
        step=plan.step,
    )
    if trace != "full":
        return row
    return replace(
        row,
        decode_ids=[each.request.request_id for each in plan.rows if isinstance(each, DecodeRow)],
        deferred_ids=[Deferred(reason=str(each.reason), request_id=each.request_id) for each in plan.deferred],
        prefill_ids=[each.request.request_id for each in plan.rows if isinstance(each, PrefillChunk)],
    )


def request_of(
    config: SimulationConfig, number: int, record: WorkloadRecord, arrival_at: Time | None = None
) -> Request:
    """A record as the scheduler takes it; its tokens, and who goes first, only where they matter.

    `arrival_at` is when it arrives, if that is known only now.
    """
    at = record.arrival_time_us if arrival_at is None else arrival_at
    scope = scope_of(config, record)
    exact = None if scope is None else record.prompt_tokens
    order, patience_ms = order_of(config, record), config.limits.queue_timeout_ms
    return Request(
        request_id=RequestId(number),
        prompt=BlankTokens(record.prompt_token_count) if exact is None else tuple(exact),
        max_tokens=record.max_new_tokens,
        arrival_at=at,
        session_id=session_of(record) if reuses_cells(config) else None,
        cache_scope=scope,
        priority=order.priority,
        deadline_at=None if order.due_after is None else at + order.due_after,
        start_by=None if isinstance(patience_ms, UnsetType) else at + patience_ms * 1000,
        tenant=order.tenant,
    )
