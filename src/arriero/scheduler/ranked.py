"""Orders that are known when a request comes: each is one rank, and nothing is kept between steps.

    rank of                 smaller goes first                          a request is overtaken only by those who come
    Priority                arrival + level x ageing                    within (its level - theirs) x ageing
    ShortestPrefill         arrival + prompt tokens x token time        within (its tokens - theirs) x token time
    EarliestDeadline        deadline; without one arrival + patience    with an earlier deadline

Ageing is in the rank itself: who has waited for long is a small number, so nothing has to be raised as time passes,
and the order of any two requests never changes. So nobody starves under the first two, however many come, and under
the third only behind those who are due earlier.

Rows follow the same order. A prompt that came later but ranks better gets its rows first, and where memory ends, who
ranks last yields; whoever ranks first always gets on.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Final, final, overload

from arriero.core.errors import ConfigError
from arriero.core.ids import Time
from arriero.core.plan import Row
from arriero.core.request import Request
from arriero.scheduler.draft import StepDraft
from arriero.scheduler.progress import Progress
from arriero.scheduler.waiting import Offers, Rank, WaitingQueue

_rank: Final = attrgetter("rank")


class Ranked(ABC):
    """A policy that is its rank; one of your own derives from it and says `rank`.

    Attributes:
        by_rank: rows go by rank.
    """

    by_rank: bool = True

    @abstractmethod
    def rank(self, request: Request, arrival_number: int) -> Rank:
        """See `Policy.rank`."""

    def queue(self, waiting: WaitingQueue, draft: StepDraft) -> Offers:
        """By rank."""
        del draft
        return waiting

    def victim(self, running: Sequence[Progress]) -> Progress | None:
        """The one that ranks last."""
        return max(running, key=_rank)

    def served(self, rows: Sequence[Row], times: int) -> None:
        """Makes no difference."""
        del rows, times


class Priority(Ranked):
    """Urgent requests first; waiting makes everybody more urgent."""

    def __init__(self, ageing: Time) -> None:
        """`ageing` is the waiting that is worth one level of priority; 0 leaves the order of arrival.

        Raises:
            ConfigError: it is negative.
        """
        self.ageing = _checked("ageing", ageing)

    def rank(self, request: Request, arrival_number: int) -> Rank:
        """When it would have to come to go first without a priority."""
        return (request.arrival_at + request.priority * self.ageing, arrival_number)


class ShortestPrefill(Ranked):
    """Short prompts first; a long one waits for those that come soon after it, and for no others."""

    def __init__(self, token_time: Time) -> None:
        """`token_time` is the waiting that is worth one token of the prompt; 0 leaves the order of arrival.

        Raises:
            ConfigError: it is negative.
        """
        self.token_time = _checked("token time", token_time)

    def rank(self, request: Request, arrival_number: int) -> Rank:
        """When an empty prompt would have to come to go first. What a cache holds of it is not looked at."""
        return (request.arrival_at + len(request.prompt) * self.token_time, arrival_number)


class EarliestDeadline(Ranked):
    """Whoever is due first; that a deadline has passed changes nothing."""

    def __init__(self, patience: Time) -> None:
        """Who names no deadline is taken to be due so long after its arrival.

        Raises:
            ConfigError: it is negative.
        """
        self.patience = _checked("patience", patience)

    def rank(self, request: Request, arrival_number: int) -> Rank:
        """When it is due."""
        due_at = request.arrival_at + self.patience if request.deadline_at is None else request.deadline_at
        return (due_at, arrival_number)


@final
class ByRank(Sequence[Progress]):
    """Those who run, by rank instead of by admission: a view, which is in order whenever it is looked at.

    O(n log n) each time it is gone through, or O(n) where it is in order already.
    """

    __slots__ = ("_running", "_turn")

    def __init__(self, running: Sequence[Progress], turn: Callable[[Progress], Rank]) -> None:
        """Look at `running`, which others change, in the order of `turn`."""
        self._running = running
        self._turn = turn

    def __len__(self) -> int:
        """How many run."""
        return len(self._running)

    def __iter__(self) -> Iterator[Progress]:
        """In the order of this moment, whatever changes meanwhile."""
        return iter(self._ordered())

    @overload
    def __getitem__(self, index: int) -> Progress: ...
    @overload
    def __getitem__(self, index: slice) -> list[Progress]: ...
    def __getitem__(self, index: int | slice) -> Progress | list[Progress]:
        """One of them, or several."""
        return self._ordered()[index]

    def _ordered(self) -> list[Progress]:
        return sorted(self._running, key=self._turn)


def _checked(name: str, duration: Time) -> Time:
    if duration < 0:
        message = f"{name} must be at least 0, not {duration}"
        raise ConfigError(message)
    return duration
