"""OnlineCost: a calibrated model that follows its machine, one step at a time.

Few numbers move: for each number of threads a factor on what is fixed, on rows and on attention, and one on the host's
share. Two things move them:

    the machine's speed    changes at once for whatever is computed, as virtual machines do, and back again: every step
                           moves all factors of its threads alike, the more the longer it took, so that most of a
                           change is taken over within a second of computing
    what costs what        a step moves each factor a little, by how much larger than usual its share of that step is: a
                           decode step beside long prompts says more about passes than about long contexts

Factors are multiplied, never added to, so no cost becomes negative.

What a busy neighbour does must not be learned, since it passes:

    error = log(measured / predicted)
    far slower than predicted     no influence; counted as disturbance
    beyond four usual errors      as much influence as four usual errors have
    faster than predicted         believed: nobody makes a step faster than it is

`disturbance` is the share of steps that were far slower lately. A value that stays high says that the machine is not
the one that was calibrated, or has company.

Half of all steps take longer than a prediction that is right, so a promise needs more: `spread` is what one step in a
hundred exceeds lately. It grows with each step beyond it and shrinks a ninety-ninth as much with each of the others.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, expm1, log, log1p
from statistics import median
from typing import Final, NamedTuple

from arriero.costmodel.calibrated import CalibratedCost
from arriero.costmodel.change import CostChange, GroupFactors
from arriero.costmodel.passes import AnyRow, split
from arriero.costmodel.terms import TermGroup

_USUAL_AT_FIRST: Final = 0.05
_USUAL_LEAST: Final = 0.005
_USUAL_MOST: Final = 0.25
_USUAL_STEP: Final = 0.02
_PROMISE: Final = 0.99
_LATE_STEP: Final = 0.2  # in usual errors
_LATE_MOST: Final = 0.5
_RECENT: Final = 5
_DIGITS: Final = 6  # of a factor, when it is told


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowRules:
    """How a model follows.

    Attributes:
        gain: share of an error that one step takes back by what it was made of.
        settle: microseconds of steps in which about two thirds of what the last steps agree in are taken over by all
            factors of their threads alike.
        far: a step so many times as long as predicted is a disturbance.
        clip: influence is limited to so many usual errors.
        reach: a factor stays between 1 / reach and reach.
        memory: steps over which the disturbance and the usual shares are averaged.
    """

    gain: float = 0.02
    settle: float = 1_000_000.0
    far: float = 1.6
    clip: float = 4.0
    reach: float = 2.0
    memory: int = 64


FOLLOW: Final = FollowRules()


class Observed(NamedTuple):
    """What one step said.

    Attributes:
        predicted: microseconds, by the model as it was before this step.
        error: log(measured / predicted).
        is_far: far slower than predicted, so that nothing was learned from it.
    """

    predicted: float
    error: float
    is_far: bool


class OnlineCost:
    """Owned by whoever sees the steps; a scheduler gets a `CalibratedCost` made from it, in a message."""

    def __init__(self, cost: CalibratedCost, rules: FollowRules = FOLLOW) -> None:
        """Start with costs as they were calibrated, all factors 1."""
        assert cost.origin is None, "a change says all from the calibrated costs on"
        self._cost = cost
        self._rules = rules
        self._factors = {number: dict.fromkeys(TermGroup, 1.0) for number in cost.passes}
        self._host = 1.0
        self._shares = {number: dict.fromkeys(TermGroup, 0.0) for number in cost.passes}  # of a step, usually
        self._host_share = 0.0
        # what is left of the errors of the last steps, by the number of threads that took most of their time
        self._recent = {number: deque[float](maxlen=_RECENT) for number in cost.passes}
        self._usual = _USUAL_AT_FIRST
        self._late = log1p(cost.spread)
        self._disturbance = 0.0

    @property
    def disturbance(self) -> float:
        """Share of far slower steps, over the last few dozen."""
        return self._disturbance

    @property
    def usual_error(self) -> float:
        """The median of the absolute errors lately, as a part of the prediction."""
        return self._usual

    @property
    def factors(self) -> dict[int, dict[TermGroup, float]]:
        """What the calibrated costs are multiplied with, by number of threads; a copy."""
        return {number: dict(factors) for number, factors in self._factors.items()}

    @property
    def host_factor(self) -> float:
        """The same for the host's share."""
        return self._host

    def use_threads(self, cost: CalibratedCost) -> None:
        """The steps that follow are computed with the threads of `cost`, which has the same passes."""
        assert cost.passes.keys() == self._cost.passes.keys(), "the factors belong to these numbers of threads"
        self._cost = replace(self._cost, threads=cost.threads)

    def observe(self, rows: Sequence[AnyRow], took: float, *, pool: int = 0) -> Observed | None:
        """Learn from one step that took so many microseconds; None if it says nothing.

        Cost: that of one prediction, whatever happened before.
        """
        num_tokens = sum(row.wants_logits for row in rows)
        host = self._host * self._cost.host.time(len(rows), num_tokens)
        parts = self._parts(rows, pool)
        predicted = host + sum(parts.values())
        if predicted <= 0 or took <= 0:
            return None
        error = log(took / predicted)
        is_far = error > log(self._rules.far)
        self._disturbance += (is_far - self._disturbance) / self._rules.memory
        if not is_far:
            self._learn(error, predicted, parts, host)
        return Observed(predicted, error, is_far)

    @property
    def spread(self) -> float:
        """By which part of its prediction one step in a hundred came later lately; disturbances are left out."""
        return expm1(self._late)

    def change(self) -> CostChange:
        """What the calibrated costs have become; to be told to those who plan with them."""
        return CostChange(
            threads=self._cost.threads,
            factors=tuple(
                GroupFactors(number, *(round(factors[group], _DIGITS) for group in TermGroup))
                for number, factors in sorted(self._factors.items())
            ),
            host=round(self._host, _DIGITS),
            spread=round(self.spread, _DIGITS),
        )

    def refined(self) -> CalibratedCost:
        """The model as it is now; a value that does not change any more."""
        return self._cost.changed(self.change())

    def _parts(self, rows: Sequence[AnyRow], pool: int) -> dict[tuple[int, TermGroup], float]:
        """Microseconds of the decode call by what has a factor."""
        cost, threads = self._cost, self._cost.threads
        found: dict[tuple[int, TermGroup], float] = {}
        for one in split(rows, cost.rules, pool=pool):
            number = threads.decode if one.rows == 1 else threads.prefill
            for group, time in cost.passes[number].shares(one).items():
                key = (number, group)
                found[key] = found.get(key, 0.0) + time * self._factors[number][group]
        return found

    def _learn(self, error: float, predicted: float, parts: dict[tuple[int, TermGroup], float], host: float) -> None:
        clip = self._rules.clip * self._usual
        believed = max(-clip, min(clip, error))
        pull = _LATE_STEP * self._usual * (_PROMISE if error > self._late else 1 - _PROMISE)
        self._late += max(-pull, min(pull, error - self._late))
        self._late = max(0.0, min(_LATE_MOST, self._late))
        self._usual *= exp(_USUAL_STEP if abs(error) > self._usual else -_USUAL_STEP)
        self._usual = max(_USUAL_LEAST, min(_USUAL_MOST, self._usual))
        if parts:
            number = max(parts, key=parts.__getitem__)[0]
            self._follow_speed(number, error, predicted)
        squares = (host * host + sum(part * part for part in parts.values())) / predicted**2
        step = self._rules.gain * believed / squares
        for (number, group), part in parts.items():
            factors, shares = self._factors[number], self._shares[number]
            more = part / predicted - shares[group]
            factors[group] = self._bounded(factors[group] * exp(step * more))
            shares[group] += more / self._rules.memory
        more = host / predicted - self._host_share
        self._host = self._bounded(self._host * exp(step * more))
        self._host_share += more / self._rules.memory

    def _follow_speed(self, number: int, error: float, predicted: float) -> None:
        """Take over a part of what most of the last steps agree in that were computed by so many threads.

        A step that is late by itself moves nothing. Of other numbers of threads nothing is said: beside a neighbour who
        wants one of two cores, two threads are slow and one is not.
        """
        recent = self._recent[number]
        recent.append(error)
        by = -expm1(-predicted / self._rules.settle) * median(recent)
        for place in range(len(recent)):
            recent[place] -= by
        factor, factors = exp(by), self._factors[number]
        for group in factors:
            factors[group] = self._bounded(factors[group] * factor)
        self._host = self._bounded(self._host * factor)

    def _bounded(self, factor: float) -> float:
        return max(1 / self._rules.reach, min(self._rules.reach, factor))
