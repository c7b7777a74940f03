"""CostFollower: the cost model of a running engine. It predicts, learns from each step, and says when to tell others.

The scheduler plans with a value that changes by a message only, so that a journal holds every change and a replay
repeats it; what is predicted and recorded is predicted with the same value. What was learned since is told when a
factor has moved enough, and seldom, since each message is a pass of the loop; other threads are told at once, since
they change what a step takes by tens of percent.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from arriero.core.events import CopySequence, Event, MoveSequence, RestoreSequence, SaveSequence
from arriero.core.ids import Time
from arriero.core.option_kinds import Threads
from arriero.core.plan import Row
from arriero.costmodel.calibrated import CalibratedCost
from arriero.costmodel.change import CostChange
from arriero.costmodel.online import OnlineCost

MOVES_KV: Final = (CopySequence, MoveSequence, SaveSequence, RestoreSequence)
"""Operations that take time which no model knows; a step with one says nothing about the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TellRules:
    """When others hear of what was learned.

    Attributes:
        moved: part by which a factor must have moved.
        every: microseconds between two messages, at least.
        look: microseconds between two looks at factors that have not moved enough.
    """

    moved: float = 0.02
    every: Time = 250_000
    look: Time = 100_000


TELL: Final = TellRules()


class CostFollower:
    """Owned by the actor."""

    def __init__(self, cost: CalibratedCost, rules: TellRules = TELL) -> None:
        """Start with the costs as they were calibrated."""
        self._calibrated = cost
        self._rules = rules
        self._online = OnlineCost(cost)
        self._in_use = cost
        self._threads = cost.threads  # of the last step
        self._told = replace(self._online.change(), threads=cost.threads)
        self._look_at: Time | None = None  # None: at the first step

    @property
    def cost(self) -> CalibratedCost:
        """What the scheduler plans with."""
        return self._in_use

    def observe(self, rows: Sequence[Row], took: Time, threads: Threads, *, pool: int) -> None:
        """Learn from a step that took so many microseconds, the host's share included."""
        if threads != self._threads:
            self._threads = threads
            self._online.use_threads(self._calibrated.with_threads(threads))
        self._online.observe(rows, took, pool=pool)

    def due(self, threads: Threads, now: Time) -> CostChange | None:
        """What is to be told now, if anything is; it counts as told.

        Args:
            threads: those that a plan can count on.
            now: on the engine's clock.
        """
        is_early = self._look_at is not None and now < self._look_at
        if is_early and threads == self._told.threads:
            return None
        change = replace(self._online.change(), threads=threads)
        if change.moved_from(self._told) <= self._rules.moved:
            self._look_at = now + self._rules.look
            return None
        self._told, self._look_at = change, now + self._rules.every
        return change

    def apply(self, change: CostChange) -> None:
        """The scheduler plans with it from now on."""
        self._in_use = self._calibrated.changed(change)


def says_something(events: Sequence[Event]) -> bool:
    """Whether the time of a step with these events is that of its rows."""
    return not any(isinstance(event, MOVES_KV) for event in events)
