"""The patience of a `ThreadAdvisor`: when steps are too slow for too long, and when something may be tried again."""

from dataclasses import dataclass
from math import log
from typing import Final

from arriero.core.ids import Time


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvisorRules:
    """When the number of threads changes. Times are microseconds, errors logarithms of measured / predicted.

    Attributes:
        gain: part of a step that another number has to save before the shape alone changes it: threads that come and
            go cost some of it.
        allowance: error of a step that is nothing to worry about.
        most: error that counts of one step, at most.
        alarm: sum of errors beyond the allowance at which fewer threads are tried.
        trial_steps: steps of a trial.
        better: how many times faster fewer threads must be.
        quiet: how many times as long as predicted a probe may take that has gone well.
        probe_steps: probes that have to go well, one after another.
        probe_first, probe_most: from the yielding to the first probe; between two of them, at most.
        overdue: how many times as long as predicted a step may take before it is broken off.
        grace: what it may take beyond that, so that a short step is not broken off for a moment's pause.
        moving: what it may take beyond that if KV moves, which nothing predicts and llama.cpp may leave to the call.
        relapse: a return that lasts no longer was none.
        vain_first, vain_most: after a trial in vain until the next one; at most.
    """

    gain: float = 0.03
    allowance: float = log(1.3)
    most: float = log(4.0)
    alarm: float = 2.5
    trial_steps: int = 4
    better: float = 1.1
    quiet: float = 1.5
    probe_steps: int = 3
    probe_first: Time = 500_000
    probe_most: Time = 8_000_000
    overdue: float = 4.0
    grace: Time = 50_000
    moving: Time = 500_000
    relapse: Time = 4_000_000
    vain_first: Time = 5_000_000
    vain_most: Time = 60_000_000


ADVICE: Final = AdvisorRules()


class Unrest:
    """Whether steps have been far over prediction lately: a cumulative sum of their errors, as in Page's test.

    A step adds its bounded error less the allowance, and the sum never falls below 0. So one step says little, however
    long it took, a tenth of slow steps among quick ones says nothing, and a few slow ones in a row say all.
    """

    def __init__(self, rules: AdvisorRules) -> None:
        """Start quiet."""
        self._rules = rules
        self._sum = 0.0
        self._took = 0.0
        self._predicted = 0.0

    @property
    def slowdown(self) -> float:
        """How many times as long as predicted the steps took since it began; 1 where it is quiet."""
        return self._took / self._predicted if self._predicted else 1.0

    def add(self, took: float, predicted: float) -> bool:
        """Count one step; whether that is too much."""
        self._sum += min(log(took / predicted), self._rules.most) - self._rules.allowance
        if self._sum <= 0:
            self.reset()
            return False
        self._took += took
        self._predicted += predicted
        return self._sum >= self._rules.alarm

    def reset(self) -> None:
        """It is quiet."""
        self._sum = self._took = self._predicted = 0.0


class Pace:
    """When the next probe and the next trial are due."""

    def __init__(self, rules: AdvisorRules) -> None:
        """Nothing is under way."""
        self._rules = rules
        self._probe_at: Time | None = None
        self._probe_wait = rules.probe_first
        self._good_probes = 0
        self._returned_at: Time | None = None
        self._try_at: Time | None = None
        self._vain_wait = rules.vain_first

    # ── probes: more threads ────────────────────────────────────────────────────────────────────────────────────────

    def is_due(self, now: Time, *, is_small: bool) -> bool:
        """Whether this step is to be a probe; one that is not small only if no small one came for another wait."""
        if self._probe_at is None:
            return False
        return now >= (self._probe_at if is_small else self._probe_at + self._probe_wait)

    def probed(self, now: Time, *, well: bool) -> bool:
        """A probe went well or did not; whether that was the last one that was needed."""
        if well:
            self._good_probes += 1
            return self._good_probes >= self._rules.probe_steps
        self._wait_longer(now)
        return False

    def yielded(self, now: Time) -> None:
        """Fewer threads compute from now on, for a new reason."""
        self._probe_wait = self._rules.probe_first
        self._vain_wait = self._rules.vain_first
        self._good_probes = 0
        self._probe_at = now + self._probe_wait

    def returned(self, now: Time, *, is_back: bool) -> None:
        """More threads compute from now on; all of them, or there is more to probe at once."""
        self._good_probes = 0
        self._returned_at = now
        self._probe_at = None if is_back else now

    def has_relapsed(self, now: Time) -> bool:
        """Whether steps that are slow now say that the last return came too early; then the next one comes later."""
        returned_at, self._returned_at = self._returned_at, None
        if returned_at is None or now - returned_at > self._rules.relapse:
            return False
        self._wait_longer(now)
        return True

    # ── trials: fewer threads ───────────────────────────────────────────────────────────────────────────────────────

    def may_try(self, now: Time) -> bool:
        """Whether a trial may begin."""
        return self._try_at is None or now >= self._try_at

    def tried_in_vain(self, now: Time) -> None:
        """A trial gained nothing."""
        self._try_at = now + self._vain_wait
        self._vain_wait = min(2 * self._vain_wait, self._rules.vain_most)

    def _wait_longer(self, now: Time) -> None:
        self._good_probes = 0
        self._probe_wait = min(2 * self._probe_wait, self._rules.probe_most)
        self._probe_at = now + self._probe_wait
