"""ThreadAdvisor: how many threads compute the next step.

By shape: the numbers at which the step's rows take least, by the cost model, among those that were calibrated and that
the configuration allows. Passes of one row have a number of their own.

Beside a neighbour: compute threads meet at a barrier hundreds of times a step. Where one of them has to share its core
with somebody else, all wait for it, and a step takes five to fifty times as long; with one thread fewer than cores are
free it takes what it always takes. So there is a ceiling, which moves:

    steady ──steps far over prediction──▶ trial of the next lower number, for some steps
    trial  ──faster by a tenth or more──▶ steady below it; else steady as before, and no other trial for a while
    below  ──now and then───────────────▶ probe: one step with the next higher number
    probe  ──quiet, three in a row──────▶ steady there; a slow one ends it, and the next one comes later

Who returned too early yields again without a trial, and waits twice as long.

One step that meets a neighbour can take a hundred times as long, which no later decision mends. So a step has a time by
which it is broken off, as long as fewer threads could compute it; it is as good a reason for a trial as any sum.
Nothing here reads a clock or computes: a step's rows go in, threads come out, and what the step took comes back.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from arriero.core.ids import Time
from arriero.core.option_kinds import Threads
from arriero.costmodel.calibrated import CalibratedCost
from arriero.costmodel.passes import AnyRow
from arriero.engine.thread_pace import ADVICE, AdvisorRules, Pace, Unrest
from arriero.engine.thread_shape import StepTimes, best_threads, step_times


class ShiftCause(StrEnum):
    """Why the ceiling moved, or did not."""

    YIELDED = "yielded"  # to a neighbour
    RETURNED = "returned"  # it is quiet
    IN_VAIN = "in_vain"  # fewer threads were tried and were no faster


class ThreadShift(NamedTuple):
    """What has changed.

    Attributes:
        cause: why.
        threads: the most that compute from now on.
        before: the most that did.
        slowdown: how many times as long as predicted the steps took that were the reason.
    """

    cause: ShiftCause
    threads: int
    before: int
    slowdown: float

    @property
    def words(self) -> str:
        """One line for a person."""
        if self.cause is ShiftCause.RETURNED:
            return f"the machine is quiet again: computing with {self.threads} threads, no longer with {self.before}"
        found = f"steps took {self.slowdown:.1f} times as long as predicted with {self.before} threads"
        if self.cause is ShiftCause.YIELDED:
            return f"{found}, since something else keeps the machine busy: computing with {self.threads}"
        return f"{found} and fewer were no faster: this machine is slower than the one that was calibrated"


class Advice(NamedTuple):
    """How to compute a step.

    Attributes:
        threads: of its passes.
        time: microseconds that the decode call will take.
        host: what the rest of the step will take.
        used: the number that computes the larger part of it.
        before: what the call would take under the ceiling before the trial; `time` where there is no trial.
        is_probe: whether more threads compute than the ceiling allows.
    """

    threads: Threads
    time: float
    host: float
    used: int
    before: float
    is_probe: bool


@dataclass(slots=True)
class _Trial:
    """Fewer threads, on approval.

    Attributes:
        ceiling: the one that was left.
        slowdown: of the steps under it.
        is_bound: whether that is only a lower bound, since the step was broken off.
        steps: so far.
        took, time, before: microseconds of their decode calls: measured, predicted, and predicted under that ceiling.
    """

    ceiling: int
    slowdown: float
    is_bound: bool = False
    steps: int = 0
    took: float = 0.0
    time: float = 0.0
    before: float = 0.0

    @property
    def own_slowdown(self) -> float:
        """How many times as long as predicted its steps took."""
        return self.took / self.time

    def is_won(self, better: float) -> bool:
        """Whether fewer threads are faster by this factor, or would be if the step had not been broken off."""
        if self.before * self.slowdown > better * self.took:
            return True
        return self.is_bound and 2 * self.own_slowdown <= self.slowdown


class ThreadAdvisor:
    """Owned by whoever runs the steps: `choose` before each one, `observe` after it."""

    def __init__(self, threads: Threads, numbers: Sequence[int], rules: AdvisorRules = ADVICE) -> None:
        """Start quiet.

        Args:
            threads: those that are configured; never more.
            numbers: those that were calibrated; the configured ones are among them.
            rules: when to change.
        """
        self._configured = threads
        self._rules = rules
        self._numbers = sorted(number for number in numbers if number <= max(threads.decode, threads.prefill))
        self._ceiling = self._numbers[-1]
        self._now = threads
        self._trial: _Trial | None = None
        self._unrest = Unrest(rules)
        self._pace = Pace(rules)

    @property
    def ceiling(self) -> int:
        """The most threads that compute, but for probes; during a trial the number on trial."""
        return self._ceiling

    @property
    def threads(self) -> Threads:
        """What a plan can count on: the configured numbers, under the ceiling; a probe changes nothing.

        Nor does a trial, unless it follows a step that was broken off: then next to nothing speaks for as many threads
        as before, and steps that were planned for them would take too long for certain. Where such a trial goes on to
        the next lower number, so do plans.
        """
        trial = self._trial
        return self._under(self._ceiling if trial is None or trial.is_bound else trial.ceiling)

    def choose(self, cost: CalibratedCost, rows: Sequence[AnyRow], now: Time, *, pool: int = 0) -> Advice:
        """Threads for a step of these rows, ascending by sequence id.

        Cost: one split of the rows into passes, and their terms for each number.
        """
        times = step_times(cost, rows, self._numbers, pool=pool)
        advice = self._best(times, self._ceiling)
        if self._trial is None and (higher := self._next_higher()) is not None:
            # beside a neighbour a probe takes many times as long, so it waits for a step without prompts
            is_small = all(row.num_rows == 1 for row in rows)
            if self._pace.is_due(now, is_small=is_small):
                probe = self._best(times, higher)
                advice = probe if probe.is_probe else advice
        self._now = advice.threads
        return advice

    def observe(self, advice: Advice, took: float, now: Time) -> ThreadShift | None:
        """A decode call was made as advised and took so many microseconds; what changes from now on."""
        if advice.is_probe:
            return self._probed(advice, took, now)
        if self._trial is not None:
            return self._tried(self._trial, advice, took, now)
        if advice.used == self._numbers[0]:
            return None  # there is nothing to yield
        if not self._unrest.add(took, advice.time):
            return None
        slowdown = self._unrest.slowdown
        self._unrest.reset()
        if self._pace.has_relapsed(now):
            return self._move(ShiftCause.YIELDED, self._next_lower(advice.used), slowdown)
        if self._pace.may_try(now):
            self._begin_trial(advice.used, slowdown)
        return None

    def patience(self, advice: Advice, now: Time, *, moves_kv: bool = False) -> Time | None:
        """How long a call that is made as advised may take before it is broken off; None: for ever."""
        if advice.time <= 0 or advice.used == self._numbers[0] or not (advice.is_probe or self._pace.may_try(now)):
            return None  # nothing is predicted, or computing it again would gain nothing
        extra = self._rules.moving if moves_kv else 0
        return self._rules.grace + extra + round(self._rules.overdue * advice.time)

    def broke_off(self, advice: Advice, took: float, now: Time) -> ThreadShift | None:
        """A call was made as advised and broken off after so many microseconds; what changes from now on."""
        if advice.is_probe or self._trial is not None:
            return self.observe(advice, took, now)
        self._unrest.reset()
        slowdown = took / advice.time
        if self._pace.has_relapsed(now):
            return self._move(ShiftCause.YIELDED, self._next_lower(advice.used), slowdown)
        self._begin_trial(advice.used, slowdown, is_bound=True)
        return None

    # ── the state machine ───────────────────────────────────────────────────────────────────────────────────────────

    def _begin_trial(self, used: int, slowdown: float, *, is_bound: bool = False) -> None:
        self._trial = _Trial(self._ceiling, slowdown, is_bound)
        self._ceiling = self._next_lower(used)

    def _tried(self, trial: _Trial, advice: Advice, took: float, now: Time) -> ThreadShift | None:
        trial.steps += 1
        trial.took += took
        trial.time += advice.time
        trial.before += advice.before
        if trial.steps < self._rules.trial_steps:
            return None
        self._trial = None
        lower, self._ceiling = self._ceiling, trial.ceiling
        slowdown = trial.own_slowdown
        is_crowded = slowdown > self._rules.quiet and lower > self._numbers[0]
        if trial.is_won(self._rules.better):
            self._pace.yielded(now)
            shift = self._move(ShiftCause.YIELDED, lower, trial.slowdown)
            if is_crowded:
                self._begin_trial(lower, slowdown)
            return shift
        if is_crowded:  # several cores are wanted, so one step down shows nothing yet
            self._begin_trial(lower, trial.slowdown, is_bound=trial.is_bound)
            return None
        self._pace.tried_in_vain(now)
        return self._move(ShiftCause.IN_VAIN, self._ceiling, trial.slowdown)

    def _probed(self, advice: Advice, took: float, now: Time) -> ThreadShift | None:
        slowdown = took / advice.time
        if not self._pace.probed(now, well=slowdown <= self._rules.quiet):
            return None
        higher = self._next_higher()
        assert higher is not None, "a probe is above the ceiling"
        self._unrest.reset()
        self._pace.returned(now, is_back=higher == self._numbers[-1])
        return self._move(ShiftCause.RETURNED, higher, slowdown)

    def _move(self, cause: ShiftCause, ceiling: int, slowdown: float) -> ThreadShift:
        before, self._ceiling = self._ceiling, ceiling
        return ThreadShift(cause, ceiling, before, slowdown)

    # ── numbers ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _best(self, times: StepTimes, ceiling: int) -> Advice:
        threads = self._best_threads(times, ceiling)
        time, used = times.time(threads), times.used(threads)
        before = time if self._trial is None else times.time(self._best_threads(times, self._trial.ceiling))
        return Advice(threads, time, times.host, used, before, is_probe=used > self._ceiling)

    def _best_threads(self, times: StepTimes, ceiling: int) -> Threads:
        return best_threads(times, self._now, self._under(ceiling), self._numbers, gain=self._rules.gain)

    def _under(self, ceiling: int) -> Threads:
        """The configured numbers under a ceiling; both are calibrated, and so is every ceiling."""
        return Threads(min(self._configured.decode, ceiling), min(self._configured.prefill, ceiling))

    def _next_lower(self, number: int) -> int:
        return max(each for each in self._numbers if each < number)

    def _next_higher(self) -> int | None:
        return min((each for each in self._numbers if each > self._ceiling), default=None)
