"""Policy: who goes first, and who yields when KV memory runs out.

    arrival     policies.py         first come, first served
    a rank      ranked.py           known when a request comes: priority, length, deadline
    service     fair_share.py       what its tenant was given so far
    memory      longest_match.py    what it would find there today

A policy of somebody's own is one more class; `ranked.Ranked` leaves it one method to write.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from arriero.core.plan import Row
from arriero.core.request import Request
from arriero.scheduler.draft import StepDraft
from arriero.scheduler.progress import Progress
from arriero.scheduler.waiting import Offers, Rank, WaitingQueue


@runtime_checkable
class Policy(Protocol):
    """An order over requests; deterministic, and without a clock of its own.

    One object serves one scheduler, since it may keep books between the calls. Requests are told apart by their
    ranks; of a tenant only matters which requests have the same one, not how it is called.
    """

    @property
    def by_rank(self) -> bool:
        """Whether those who run get their rows by rank, so that a new prompt may pass an older one; else by admission.

        Decode rows are given to everybody either way. Where memory ends, the order decides who gets on.
        """
        ...

    def rank(self, request: Request, arrival_number: int) -> Rank:
        """The place in the queue; smaller goes first. Kept through waiting, preemption and resumption.

        The order is total and repeatable: a rank ends in the arrival number, which no two requests share.
        """
        ...

    def queue(self, waiting: WaitingQueue, draft: StepDraft) -> Offers:
        """In which order those who wait are offered a slot in the step that is being planned.

        Called once for each plan, before anybody is offered anything. Where ranks say it all, `waiting` itself: the
        scheduler then knows that the order will be the same in the next step.
        """
        ...

    def victim(self, running: Sequence[Progress]) -> Progress | None:
        """Who yields, or None if nobody is to; `running` is in admission order and not empty."""
        ...

    def served(self, rows: Sequence[Row], times: int) -> None:
        """A step has computed these rows, its decode rows so many times in a row. Their requests may have ended."""
        ...


class FirstComeFirstServed:
    """Arrival order; the most recently admitted yields, so the oldest always gets on.

    Attributes:
        by_rank: rows go by admission.
    """

    by_rank: bool = False

    def rank(self, request: Request, arrival_number: int) -> Rank:
        """The arrival number alone."""
        del request
        return (arrival_number,)

    def queue(self, waiting: WaitingQueue, draft: StepDraft) -> Offers:
        """By rank."""
        del draft
        return waiting

    def victim(self, running: Sequence[Progress]) -> Progress | None:
        """The most recently admitted."""
        return running[-1]

    def served(self, rows: Sequence[Row], times: int) -> None:
        """Makes no difference."""


class NobodyYields(FirstComeFirstServed):
    """Arrival order; who finds no room waits for others to end, with its memory held."""

    def victim(self, running: Sequence[Progress]) -> None:
        """Nobody."""
        del running
