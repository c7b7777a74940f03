"""Policy: who goes first, and who yields when KV memory runs out."""

from collections.abc import Sequence
from typing import Protocol

from arriero.core.request import Request
from arriero.scheduler.progress import Progress


class Policy(Protocol):
    """An order over requests.

    The order is total and repeatable: a rank ends in the arrival number, which no two requests share.
    """

    def rank(self, request: Request, arrival_number: int) -> tuple[int | float, ...]:
        """The place in the queue; smaller goes first. Kept through waiting, preemption and resumption."""
        ...

    def victim(self, running: Sequence[Progress]) -> Progress | None:
        """Who yields, or None if nobody is to; `running` is in admission order and not empty."""
        ...


class FirstComeFirstServed:
    """Arrival order; the most recently admitted yields, so the oldest always gets on."""

    def rank(self, request: Request, arrival_number: int) -> tuple[int | float, ...]:
        """The arrival number alone."""
        del request
        return (arrival_number,)

    def victim(self, running: Sequence[Progress]) -> Progress:
        """The most recently admitted."""
        return running[-1]


class NobodyYields(FirstComeFirstServed):
    """Arrival order; who finds no room waits for others to end, with its memory held."""

    def victim(self, running: Sequence[Progress]) -> None:  # type: ignore[override]
        """Nobody."""
        del running
