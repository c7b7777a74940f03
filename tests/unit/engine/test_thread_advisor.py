"""How many threads compute: by shape, beside a neighbour, and after it; all in virtual time."""

from collections.abc import Callable, Iterator
from itertools import cycle, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.core.ids import Time
from arriero.core.option_kinds import Threads
from arriero.costmodel.calibrated import CalibratedCost
from arriero.costmodel.passes import Stretch
from arriero.engine.thread_advisor import ShiftCause, ThreadAdvisor, ThreadShift
from arriero.engine.thread_pace import ADVICE, Unrest
from arriero.engine.thread_shape import best_threads, step_times
from arriero.testing.machine import CROWDED, Machine
from tests.unit.engine.machines import scaling_cost

SECOND = 1_000_000
Rows = list[Stretch]


def decode(number: int, start: int = 100) -> Rows:
    return [Stretch(each, start, 1, wants_logits=True) for each in range(number)]


def chunk(num_rows: int) -> Rows:
    return [Stretch(0, 0, num_rows, wants_logits=False)]


class Run:
    """An advisor on a machine, step by step."""

    def __init__(self, machine: Machine, cost: CalibratedCost, shapes: Iterator[Rows]) -> None:
        self.machine = machine
        self.cost = cost
        self.advisor = ThreadAdvisor(cost.threads, tuple(cost.passes))
        self.now: Time = 0
        self.shifts: list[tuple[Time, ThreadShift]] = []
        self.used: list[int] = []
        self.broken_off: list[Time] = []
        self._shapes = shapes

    def steps(self, number: int) -> Time:
        """So many of them; how long they took."""
        began = self.now
        for rows in islice(self._shapes, number):
            self._step(rows)
        return self.now - began

    def until(self, over: Callable[[], bool], *, within: float) -> None:
        """Steps until something has happened, in so many microseconds."""
        limit = self.now + within
        while not over():
            assert self.now < limit, f"not within {within / SECOND} s: {self.shifts}"
            self.steps(1)

    @property
    def causes(self) -> list[ShiftCause]:
        return [shift.cause for _, shift in self.shifts]

    def _step(self, rows: Rows) -> None:
        """As the engine does: broken off where patience ends, and then planned again and made to its end."""
        if self._take(rows, may_break=True):
            self._take(rows, may_break=False)

    def _take(self, rows: Rows, *, may_break: bool) -> bool:
        advice = self.advisor.choose(self.cost, rows, self.now)
        took: Time = self.machine.decode_time(rows, advice.threads)
        patience = self.advisor.patience(advice, self.now) if may_break else None
        is_broken_off = patience is not None and took > patience
        observe = self.advisor.broke_off if is_broken_off else self.advisor.observe
        if is_broken_off:
            assert patience is not None
            took = patience
            self.broken_off.append(took)
        self.now += took + 200
        self.used.append(advice.used)
        if (shift := observe(advice, took, self.now)) is not None:
            self.shifts.append((self.now, shift))
        return is_broken_off


def run(
    *numbers: int, cores: int | None = None, noise: float = 0.03, shapes: list[Rows] | None = None, seed: int = 1
) -> Run:
    cost = scaling_cost(*numbers)
    machine = Machine(cost, cores=cores or max(numbers), noise=noise, seed=seed)
    return Run(machine, cost, cycle(shapes or [decode(4), decode(4), decode(4), decode(4) + chunk_on(4, 60)]))


def chunk_on(sequence_id: int, num_rows: int) -> Rows:
    return [Stretch(sequence_id, 0, num_rows, wants_logits=False)]


# ── by shape ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_each_kind_of_pass_gets_the_number_at_which_it_takes_least() -> None:
    # a row alone: 2400 + 1600 with one thread, 2800 + 800 with two; 200 rows gain far more
    cost = scaling_cost(1, 2, 4)
    advisor = ThreadAdvisor(Threads(4, 4), (1, 2, 4))
    assert advisor.choose(cost, chunk(200), 0).threads.prefill == 4
    alone = advisor.choose(cost, decode(1), 0)
    assert alone.threads == Threads(2, 4)
    assert alone.used == 2
    assert alone.time == pytest.approx(2000 + 800 + 800)
    assert alone.host == 100 + 10 + 20


def test_a_change_that_gains_next_to_nothing_is_not_made() -> None:
    cost = scaling_cost(1, 2)
    times = step_times(cost, decode(1), (1, 2))
    assert times.single == {1: 4000, 2: 3600}
    both = Threads(2, 2)
    assert best_threads(times, Threads(1, 2), both, (1, 2), gain=0.05).decode == 2
    assert best_threads(times, Threads(1, 2), both, (1, 2), gain=0.2).decode == 1


def test_what_has_no_passes_keeps_its_number() -> None:
    times = step_times(scaling_cost(1, 2, 4), decode(3), (1, 2, 4))
    assert best_threads(times, Threads(1, 2), Threads(4, 4), (1, 2, 4), gain=0.03) == Threads(1, 4)


def test_configured_numbers_are_never_exceeded() -> None:
    cost = scaling_cost(1, 2, 4).with_threads(Threads(1, 2))
    advisor = ThreadAdvisor(Threads(1, 2), (1, 2, 4))
    for rows in (decode(1), decode(3), chunk(200)):
        threads = advisor.choose(cost, rows, 0).threads
        assert threads.decode == 1
        assert threads.prefill <= 2


# ── quiet ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", range(5))
def test_a_quiet_machine_keeps_all_its_threads(seed: int) -> None:
    quiet = run(1, 2, noise=0.1, seed=seed)
    quiet.steps(3000)
    assert quiet.shifts == []
    assert set(quiet.used) == {2}


def test_a_slow_step_now_and_then_is_no_reason() -> None:
    steady = run(1, 2)
    for number in range(2000):
        steady.machine.slowdown = 7.0 if number % 12 == 0 else 1.0
        steady.steps(1)
    assert steady.shifts == []


def test_unrest_is_a_sum_that_forgets() -> None:
    unrest = Unrest(ADVICE)
    assert not any(unrest.add(1000, 100) or unrest.add(100, 100) for _ in range(2))
    unrest.reset()
    assert [unrest.add(1000, 100) for _ in range(3)] == [False, False, True]
    assert unrest.slowdown == pytest.approx(10)
    for _ in range(20):
        unrest.add(100, 100)
    assert unrest.slowdown == 1.0


# ── steps that are broken off ───────────────────────────────────────────────────────────────────────────────────────


def test_a_step_that_meets_a_neighbour_is_broken_off_and_computed_by_fewer_threads() -> None:
    """Made to its end it would take a hundred times as long."""
    crowded = run(1, 2, shapes=[decode(4) + chunk_on(4, 60)])
    crowded.machine.crowded = 100.0
    crowded.steps(50)
    usual = crowded.steps(1)
    crowded.machine.busy = 1
    assert crowded.steps(1) < 8 * usual + ADVICE.grace
    assert len(crowded.broken_off) == 1
    assert crowded.used[-1] == 1
    assert crowded.advisor.threads == Threads(1, 1), "the next plan is made for one thread"
    crowded.until(lambda: bool(crowded.shifts), within=SECOND)
    assert crowded.causes == [ShiftCause.YIELDED]


def test_patience_is_a_multiple_of_the_prediction_and_a_moment() -> None:
    advisor, cost = ThreadAdvisor(Threads(2, 2), (1, 2)), scaling_cost(1, 2)
    advice = advisor.choose(cost, chunk(200), 0)
    usual = ADVICE.grace + round(ADVICE.overdue * advice.time)
    assert advisor.patience(advice, 0) == usual
    assert advisor.patience(advice, 0, moves_kv=True) == usual + ADVICE.moving


def test_what_one_thread_computes_is_never_broken_off() -> None:
    single = run(1)
    single.machine.slowdown = 50.0
    single.steps(50)
    assert single.broken_off == []


def test_a_pause_of_the_whole_machine_costs_half_a_second_of_fewer_threads() -> None:
    paused = run(1, 2)
    paused.steps(50)
    paused.machine.slowdown = 100.0
    paused._take(decode(4), may_break=True)
    paused.machine.slowdown = 1.0
    paused.until(lambda: paused.causes == [ShiftCause.YIELDED, ShiftCause.RETURNED], within=SECOND)
    paused.steps(1000)
    assert len(paused.shifts) == 2


def test_a_machine_that_is_far_slower_whatever_the_threads_keeps_them() -> None:
    slow = run(1, 2)
    slow.machine.slowdown = 12.0
    slow.until(lambda: slow.now > 60 * SECOND, within=61 * SECOND)
    assert set(slow.causes) == {ShiftCause.IN_VAIN}
    assert slow.advisor.ceiling == 2
    assert 1 <= len(slow.broken_off) <= len(slow.shifts), "none is broken off while a trial would be in vain"


def test_beside_others_that_also_slow_one_thread_it_still_yields() -> None:
    """One thread at half its speed is no faster than four times the prediction of two, but that was only a bound."""
    crowded = run(1, 2, shapes=[chunk(200)])
    crowded.machine.crowded = 100.0
    crowded.machine.busy = 1
    crowded.machine.slowdown = 1.9
    crowded.until(lambda: bool(crowded.shifts), within=5 * SECOND)
    assert crowded.causes == [ShiftCause.YIELDED]


def test_probes_beside_a_neighbour_are_broken_off() -> None:
    crowded = run(1, 2)
    crowded.machine.crowded = 100.0
    crowded.machine.busy = 1
    crowded.until(lambda: crowded.now > 30 * SECOND, within=31 * SECOND)
    assert crowded.causes == [ShiftCause.YIELDED]
    assert len(crowded.broken_off) >= 4
    assert sum(crowded.broken_off) < 0.05 * crowded.now


# ── a neighbour ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_beside_a_neighbour_one_thread_fewer_computes_within_a_few_steps() -> None:
    crowded = run(1, 2)
    crowded.steps(50)
    crowded.machine.busy = 1
    before = len(crowded.used)
    crowded.until(lambda: crowded.advisor.ceiling == 1 and bool(crowded.shifts), within=SECOND)
    assert len(crowded.used) - before <= 12
    ((_, shift),) = crowded.shifts
    assert (shift.cause, shift.threads, shift.before) == (ShiftCause.YIELDED, 1, 2)
    assert shift.slowdown > CROWDED / 2
    assert "something else keeps the machine busy" in shift.words
    assert crowded.advisor.threads == Threads(1, 1)


def test_with_fewer_threads_the_work_is_done_far_sooner() -> None:
    shapes = [decode(4), decode(4) + chunk_on(4, 60)]
    adapted, cost = run(1, 2, shapes=shapes), scaling_cost(1, 2)
    adapted.machine.busy = 1
    took = adapted.steps(2000)
    stubborn = Machine(cost, cores=2, noise=0.03)
    stubborn.busy = 1
    as_configured = sum(stubborn.decode_time(rows, Threads(2, 2)) for rows in islice(cycle(shapes), 2000))
    assert took < as_configured / 3


def test_probes_are_few_and_short_while_the_neighbour_stays() -> None:
    crowded = run(1, 2)
    crowded.machine.busy = 1
    crowded.until(lambda: bool(crowded.shifts), within=SECOND)
    before = len(crowded.used)
    crowded.until(lambda: crowded.now > 60 * SECOND, within=61 * SECOND)
    used = crowded.used[before:]
    # 0.5, 1, 2, 4 s, then every 8 s
    assert 7 <= used.count(2) <= 12
    assert used.count(2) < 0.01 * len(used)
    assert crowded.causes == [ShiftCause.YIELDED]


def test_a_probe_is_made_of_a_step_without_prompts_if_one_comes() -> None:
    crowded = run(1, 2, shapes=[decode(4) + chunk_on(4, 60)] * 5 + [decode(4)])
    crowded.machine.busy = 1
    crowded.until(lambda: bool(crowded.shifts), within=5 * SECOND)
    probed: list[Rows] = []
    for rows in islice(cycle([decode(4) + chunk_on(4, 60)] * 5 + [decode(4)]), 2000):
        advice = crowded.advisor.choose(crowded.cost, rows, crowded.now)
        took = crowded.machine.decode_time(rows, advice.threads)
        crowded.now += took
        crowded.advisor.observe(advice, took, crowded.now)
        if advice.is_probe:
            probed.append(rows)
    assert probed
    assert all(rows == decode(4) for rows in probed)


def test_where_every_step_has_a_prompt_it_is_probed_all_the_same() -> None:
    crowded = run(1, 2, shapes=[decode(4) + chunk_on(4, 60)])
    crowded.machine.busy = 1
    crowded.until(lambda: crowded.advisor.ceiling == 1 and bool(crowded.shifts), within=5 * SECOND)
    crowded.machine.busy = 0
    crowded.until(lambda: crowded.advisor.ceiling == 2, within=5 * SECOND)


def test_when_it_is_quiet_again_all_threads_come_back() -> None:
    crowded = run(1, 2)
    crowded.machine.busy = 1
    crowded.steps(2000)
    assert crowded.advisor.ceiling == 1
    crowded.machine.busy = 0
    crowded.until(lambda: crowded.advisor.ceiling == 2, within=ADVICE.probe_most + SECOND)
    crowded.steps(2000)
    assert crowded.causes == [ShiftCause.YIELDED, ShiftCause.RETURNED]
    assert "quiet again" in crowded.shifts[-1][1].words
    assert set(crowded.used[-1000:]) == {2}


def test_a_neighbour_that_comes_and_goes_is_yielded_to_without_a_trial_and_probed_later() -> None:
    restless = run(1, 2)
    restless.machine.busy = 1
    restless.until(lambda: restless.causes[-1:] == [ShiftCause.YIELDED], within=SECOND)
    yielded_at = restless.now
    restless.machine.busy = 0
    restless.until(lambda: restless.causes[-1:] == [ShiftCause.RETURNED], within=2 * SECOND)
    restless.machine.busy = 1
    before = len(restless.used)
    restless.until(lambda: restless.causes[-1:] == [ShiftCause.YIELDED], within=SECOND)
    assert len(restless.used) - before <= 5, "no trial was needed"
    first_wait = restless.shifts[1][0] - yielded_at
    again_at = restless.now
    restless.machine.busy = 0
    restless.until(lambda: restless.causes[-1:] == [ShiftCause.RETURNED], within=4 * SECOND)
    assert restless.now - again_at > 1.5 * first_wait


@pytest.mark.parametrize(("busy", "ceiling"), [(1, 4), (3, 4), (5, 2), (7, 1)])
def test_as_many_threads_are_left_as_there_are_free_cores(busy: int, ceiling: int) -> None:
    large = run(1, 2, 4, 8, cores=8)
    large.machine.busy = busy
    large.steps(600)
    assert large.advisor.ceiling == ceiling
    large.machine.busy = 0
    large.until(lambda: large.advisor.ceiling == 8, within=30 * SECOND)


def test_where_fewer_threads_do_not_help_nothing_changes_and_trials_become_rare() -> None:
    """Somebody uses the memory's bandwidth, or the machine is not the one that was calibrated."""
    slow = run(1, 2)
    slow.machine.slowdown = 3.0
    slow.until(lambda: slow.now > 120 * SECOND, within=121 * SECOND)
    assert set(slow.causes) == {ShiftCause.IN_VAIN}
    assert 3 <= len(slow.shifts) <= 6  # after 5, 10, 20, 40 s ...
    assert slow.advisor.ceiling == 2
    assert slow.used.count(1) <= 6 * ADVICE.trial_steps
    assert "slower than the one that was calibrated" in slow.shifts[0][1].words


def test_one_thread_has_nothing_to_yield() -> None:
    single = run(1)
    single.machine.slowdown = 50.0
    single.steps(500)
    assert single.shifts == []
    assert set(single.used) == {1}


@given(
    st.lists(st.tuples(st.sampled_from([1, 3, 40, 200]), st.floats(0.3, 40)), min_size=1, max_size=300),
    st.sampled_from([(1,), (1, 2), (1, 2, 4), (2, 3)]),
)
def test_whatever_steps_take_the_threads_are_calibrated_and_allowed(
    seen: list[tuple[int, float]], numbers: tuple[int, ...]
) -> None:
    cost = scaling_cost(*numbers)
    advisor = ThreadAdvisor(cost.threads, numbers)
    now = 0
    for num_rows, ratio in seen:
        rows = decode(num_rows) if num_rows < 4 else chunk(num_rows)
        advice = advisor.choose(cost, rows, now)
        assert {advice.threads.decode, advice.threads.prefill} <= set(numbers)
        assert advice.used <= max(advisor.ceiling, *(numbers if advice.is_probe else (0,)))
        now += round(advice.time * ratio)
        shift = advisor.observe(advice, advice.time * ratio, now)
        assert advisor.ceiling in numbers
        assert shift is None or shift.words
        assert advisor.threads.prefill in numbers
