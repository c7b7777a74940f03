"""Predictions, threads and health of a running engine, in virtual time."""

import asyncio
import re
from dataclasses import replace

import pytest

from arriero.backend.synthetic import SyntheticBackend
from arriero.core.errors import ConfigError
from arriero.core.events import CopySequence
from arriero.core.ids import SequenceId, Time
from arriero.core.option_kinds import Threads
from arriero.core.plan import Interrupted
from arriero.costmodel.change import CostChange
from arriero.engine.cost_follower import TELL
from arriero.engine.engine import Engine
from arriero.engine.interrupter import Interrupter
from arriero.engine.journal import Journal
from arriero.engine.observer import StepRecord
from arriero.engine.options import EngineOptions
from arriero.engine.placement import Dedicated, Shared
from arriero.engine.step_control import Measured, build_control
from arriero.engine.thread_advisor import ShiftCause
from arriero.engine.thread_pace import ADVICE
from arriero.record.journal import JournalLines
from arriero.record.journal_reader import read_lines
from arriero.record.lines import LineList
from arriero.sim.replay import replay
from arriero.testing.clock import ManualClock
from arriero.testing.fakes import FaultyBackend, ScriptedBackend
from arriero.testing.faults import BlockedCall
from arriero.testing.machine import Machine
from tests.unit.engine.driving import ENDLESS, running
from tests.unit.engine.machines import MEMORY, TimedEngine, scaling_cost

COST = scaling_cost(1, 2)
OPTIONS = EngineOptions(check=True, cost=COST)
ADAPTS = replace(OPTIONS, adapts_threads=True)
BOTH = Threads(2, 2)


def ask(timed: TimedEngine, *, requests: int = 4, budget: int = 900) -> None:
    """Requests that decode for long, with prompts of different lengths."""
    for number in range(requests):
        timed.engine.submit([5] * (10 + 30 * number), budget, end_tokens=ENDLESS)


def ratios(records: list[StepRecord]) -> list[float]:
    return [(each.ended_at - each.began_at) / each.predicted_us for each in records if each.predicted_us]


# ── predictions ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_each_step_is_predicted_before_it_runs() -> None:
    timed = TimedEngine(Machine(COST, cores=2), OPTIONS)
    ask(timed)
    records = timed.run(100)
    assert all(record.predicted_us == COST.plan_time(record.plan) for record in records)
    assert all(record.threads == BOTH for record in records)
    assert all(0.9 < ratio < 1.1 for ratio in ratios(records))
    without_rows = [record for record in timed.log.records if record.outcome is None]
    assert without_rows
    assert all(record.predicted_us is None and record.threads is None for record in without_rows)


def test_without_a_profile_nothing_is_predicted_and_the_threads_are_left_alone() -> None:
    timed = TimedEngine(Machine(COST, cores=2), EngineOptions(check=True))
    ask(timed)
    records = timed.run(20)
    assert all(record.predicted_us is None and record.threads is None for record in records)
    assert timed.threads.told == []
    assert timed.engine.cost is None


def test_a_machine_that_became_slower_is_told_to_the_scheduler_and_predicted_right() -> None:
    machine = Machine(COST, cores=2, noise=0.01)
    machine.slowdown = 1.25
    timed = TimedEngine(machine, OPTIONS)
    ask(timed)
    records = timed.run(600)
    changes = [message for record in records for message in record.messages if isinstance(message, CostChange)]
    assert changes
    gaps = zip(changes_at(records), changes_at(records)[1:], strict=False)
    assert all(later - earlier >= TELL.every for earlier, later in gaps)
    assert timed.log.records[-1].snapshot.totals.recalibrations == len(changes)
    assert sum(ratios(records[:10])) / 10 > 1.1
    assert 0.97 < sum(ratios(records[-100:])) / 100 < 1.03
    cost = timed.actor.control.cost
    assert cost is not None
    assert cost.origin == COST


def changes_at(records: list[StepRecord]) -> list[float]:
    return [record.began_at for record in records if any(isinstance(each, CostChange) for each in record.messages)]


def test_a_journal_with_recalibrations_and_other_threads_is_replayed() -> None:
    machine = Machine(COST, cores=2, noise=0.01)
    machine.slowdown = 1.2
    options = replace(ADAPTS, itl_target_ms=40.0)
    sink = LineList()

    def before(record: StepRecord) -> None:
        machine.busy = 1 if 150 < record.plan.step < 400 else 0
        if record.plan.step % 90 == 0:
            timed.engine.submit([7] * 300, 20, end_tokens=ENDLESS)

    journal = Journal(sink, JournalLines(), FaultyBackend(ScriptedBackend(options=MEMORY)).limits, options)
    timed = TimedEngine(machine, options, before=before, observers=[journal])
    ask(timed, requests=3, budget=700)
    timed.run(600)
    threads = {
        message.threads
        for record in timed.log.records
        for message in record.messages
        if isinstance(message, CostChange)
    }
    assert {Threads(1, 1), BOTH} <= threads
    report = replay(read_lines(sink.lines), check=True)
    assert report.steps == len(timed.log.records)


# ── threads ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_beside_a_neighbour_fewer_threads_compute_and_later_all_again() -> None:
    machine = Machine(COST, cores=2, noise=0.02)

    def before(record: StepRecord) -> None:
        machine.busy = 1 if 50 <= record.plan.step < 300 else 0

    timed = TimedEngine(machine, ADAPTS, before=before)
    ask(timed)
    records = timed.run(890)
    shifts = [record.shift.cause for record in records if record.shift is not None]
    assert shifts == [ShiftCause.YIELDED, ShiftCause.RETURNED]
    prefill = {record.plan.step: record.threads.prefill for record in records if record.threads is not None}
    assert [prefill[step] for step in (40, 100, 250, 880)] == [2, 1, 1, 2]
    assert timed.threads.told[-1].prefill == 2
    assert len(timed.threads.told) < 20, "told only what has changed"
    assert timed.log.records[-1].snapshot.totals.thread_shifts == 2
    cost = timed.actor.control.cost
    assert cost is not None
    assert cost.threads == BOTH


def test_a_call_that_meets_a_neighbour_is_broken_off_and_nobody_waits_for_its_end() -> None:
    """The very step during which the neighbour comes; the answers are what they are without one."""
    machine = Machine(COST, cores=2, noise=0.02)
    machine.crowded = 100.0

    def before(record: StepRecord) -> None:
        machine.busy = 1 if 50 <= record.plan.step < 300 else 0

    sink = LineList()
    options = replace(ADAPTS, itl_target_ms=40.0)
    journal = Journal(sink, JournalLines(), SyntheticBackend(MEMORY).limits, options)
    timed = TimedEngine(machine, options, before=before, observers=[journal])
    ask(timed, budget=300)
    records = timed.run(2000)
    longest = max(record.ended_at - record.began_at for record in records)
    assert longest < 4 * 40_000 + ADVICE.grace + 20_000, "a call that is made to its end takes a second and more"
    broken_off = [record for record in records if isinstance(record.outcome, Interrupted)]
    totals = timed.log.records[-1].snapshot.totals
    assert 1 <= len(broken_off) == totals.overdue_calls == totals.interrupted_calls
    first = records.index(broken_off[0])
    assert records[first + 1].threads == Threads(1, 1)
    alone = TimedEngine(Machine(COST, cores=2), OPTIONS)
    ask(alone, budget=300)
    alone.run(2000)
    assert {each.request_id: each.tokens for each in timed.log.results} == {
        each.request_id: each.tokens for each in alone.log.results
    }
    report = replay(read_lines(sink.lines), check=True)
    assert report.steps == len(timed.log.records)


def test_a_step_that_moves_kv_has_more_patience_and_the_one_after_a_broken_one_has_no_end() -> None:
    timed = TimedEngine(Machine(COST, cores=2), ADAPTS)
    ask(timed)
    record = timed.run(3)[1]
    interrupter = Interrupter(lambda: None, None)
    control = build_control(ADAPTS, interrupter)

    def overdue_at() -> Time | None:
        call, foreseen = control.begin(record.plan, 1000, 201_000)  # a burst of messages was applied before
        found = None if call.interruptible is None else call.interruptible.overdue_at
        assert record.outcome is not None
        control.end(foreseen, Measured(record.plan, record.outcome, 2000, 900, 1))
        return found

    usual = overdue_at()
    assert usual is not None
    assert usual > 201_000 + ADVICE.grace, "patience begins with the call"
    control.see((CopySequence(SequenceId(0), SequenceId(1), 10),))
    assert overdue_at() == usual + ADVICE.moving
    assert overdue_at() == usual
    call, foreseen = control.begin(record.plan, 1000, 201_000)
    assert call.interruptible is not None
    interrupter.enter(call.interruptible)
    assert interrupter.end_overdue(usual)
    control.end(foreseen, Measured(record.plan, Interrupted(), usual, round(usual) - 1000, 1))
    assert overdue_at() is None


def test_threads_stay_as_configured_unless_they_may_adapt() -> None:
    machine = Machine(COST, cores=2)
    machine.busy = 1
    timed = TimedEngine(machine, OPTIONS)
    ask(timed)
    records = timed.run(100)
    assert {record.threads for record in records} == {BOTH}
    assert all(record.shift is None for record in records)


# ── options ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (EngineOptions(itl_target_ms=100), "--itl-target needs a cost profile; make one with `arriero calibrate`"),
        (EngineOptions(adapts_threads=True), "--adapt-threads needs a cost profile"),
        (EngineOptions(cost=COST, itl_target_ms=0), "--itl-target must be above 0"),
        (EngineOptions(interrupt_after_ms=-1), "--interrupt-after must be at least 0"),
        (EngineOptions(stuck_after_s=-1), "--stuck-after must be at least 0"),
    ],
)
def test_what_cannot_work_is_refused_with_the_remedy(options: EngineOptions, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Engine(ScriptedBackend(), options)


# ── health ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.anyio
@pytest.mark.parametrize("placement", [Dedicated(), Shared()], ids=["dedicated", "shared"])
async def test_work_without_steps_is_stuck_and_says_what_and_for_how_long(placement: Dedicated | Shared) -> None:
    blocked, clock = BlockedCall(1), ManualClock()
    async with running(FaultyBackend(ScriptedBackend(), blocked), placement, clock=clock) as engine:
        clock.advance(3_600_000_000)  # asleep for an hour
        assert not engine.health.stuck
        handle = engine.submit([1, 2, 3], 3, end_tokens=ENDLESS)
        await asyncio.to_thread(blocked.entered.wait)
        busy = engine.health
        assert (busy.has_work, busy.stuck, busy.step_age_us, busy.reason) == (True, False, 0, None)
        clock.advance(61_000_000)
        stuck = engine.health
        assert (stuck.alive, stuck.accepting, stuck.stuck) == (True, True, True)
        assert stuck.reason is not None
        assert re.fullmatch(r"no step has ended for 61\.0 s: step \d computes 1 decode rows .*", stuck.reason)
        blocked.release.set()
        await handle.result()
        await engine.ask_snapshot()
        well = engine.health
        assert (well.stuck, well.reason, well.step_age_us) == (False, None, 0)


def test_an_engine_that_was_not_started_is_not_stuck() -> None:
    health = Engine(ScriptedBackend()).health
    assert (health.alive, health.stuck, health.reason) == (False, False, "not started")
