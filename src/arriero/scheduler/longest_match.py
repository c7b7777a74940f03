"""LongestMatch: whoever finds most of its prompt in memory starts first, within bounds.

    arrival order   A    B    C    D    E    F ...          the first `window` are looked at
    found           0    80   20   80   0    ?
    offered         B    D    C    A    E    F ...          equal ones by arrival

What lies in memory is used before it has to make room, so less is computed in all; the price is paid by those who find
nothing. It is bounded: each start before an older one counts for that one, and who was overtaken so often is passed by
nobody any more:

    overtaken       0    0    max  0    0                    B before A, but nobody behind C before C
    offered         B    C    A | D    E

A look costs a search in memory for each. So the order is made only in steps in which somebody may start, and kept for
some steps if nobody did: where KV is short that happens in each of many steps, and little changes between them.
"""

from collections.abc import Container, Iterator, Sequence
from itertools import islice
from typing import Final

from arriero.core.errors import ConfigError
from arriero.core.plan import Row
from arriero.core.request import RequestState
from arriero.scheduler.draft import StepDraft
from arriero.scheduler.policies import FirstComeFirstServed
from arriero.scheduler.progress import Progress
from arriero.scheduler.waiting import Offers, Rank, WaitingQueue

WINDOW: Final = 64
MAX_OVERTAKES: Final = 16

_KEPT_STEPS: Final = 8
"""Steps after which an order is made anew, though nobody started by it."""


class Matches:
    """The latest order of the window, and how often each of it was overtaken.

    Attributes:
        order: the window, the longest match first; another list whenever it changes.
    """

    def __init__(self, window: int, max_overtakes: int) -> None:
        """Nobody was looked at."""
        self.order: list[Progress] = []
        self._size = window
        self._max_overtakes = max_overtakes
        self._overtaken: dict[Rank, int] = {}  # of those who wait; who is missing was never overtaken
        self._found: list[tuple[Progress, int]] = []  # the window by arrival, and the tokens found of each
        self._num_steps = 0  # computed since then
        self._offered: tuple[Progress, int] | None = None  # the one offered last, and its latest admission then

    def look(self, waiting: WaitingQueue, draft: StepDraft) -> None:
        """Make the order anew, unless the same requests have been looked at in one of the last steps."""
        window = list(islice(waiting, self._size))
        if self._num_steps < _KEPT_STEPS and window == [progress for progress, _ in self._found]:
            return
        ranks = {each.rank for each in window}
        self._overtaken = {rank: number for rank, number in self._overtaken.items() if rank in ranks}
        self._found = [(each, draft.lookup(each).num_tokens) for each in window]
        self._num_steps = 0
        self._sort()

    def offer(self, progress: Progress) -> None:
        """It is offered a slot now; whether it took it is seen by the next `settle`."""
        self._offered = (progress, progress.admission)

    def settle(self) -> None:
        """If the one offered last has started, those it passed were overtaken once more."""
        offered, self._offered = self._offered, None
        if offered is None or offered[0].admission == offered[1]:
            return
        is_full = False
        for each, _ in self._found:
            if each.rank >= offered[0].rank:
                break
            if each.state is RequestState.WAITING:
                number = self._overtaken[each.rank] = self._overtaken.get(each.rank, 0) + 1
                is_full = is_full or number == self._max_overtakes
        if is_full:
            self._sort()

    def count_steps(self, times: int) -> None:
        """So many steps were computed."""
        self._num_steps += times

    def _sort(self) -> None:
        """By the length of what was found; nobody passes one who was overtaken as often as may be."""
        self.order = []
        stretch: list[tuple[Progress, int]] = []
        for progress, num_tokens in self._found:
            stretch.append((progress, num_tokens))
            if self._overtaken.get(progress.rank, 0) >= self._max_overtakes:
                self.order += _longest_first(stretch)
                stretch.clear()
        self.order += _longest_first(stretch)


class MatchOffers:
    """Those who wait, in one step: the window by match, then the others by arrival."""

    def __init__(self, waiting: WaitingQueue, draft: StepDraft, matches: Matches) -> None:
        """Nobody is looked at before somebody may start."""
        self._waiting = waiting
        self._draft = draft
        self._matches = matches
        self._has_looked = False

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def __iter__(self) -> Iterator[Progress]:
        """Each of them once; where nobody can start, by arrival."""
        given: set[Rank] = set()
        while (progress := self._longest(given)) is not None:
            given.add(progress.rank)
            yield progress
        for progress in self._waiting:
            if progress.rank not in given:
                yield progress

    def head(self) -> Progress | None:
        """The longest match that has not started."""
        longest = self._longest(())
        return self._waiting.head() if longest is None else longest

    def _longest(self, given: Container[Rank]) -> Progress | None:
        """Offer the next one of the window, but for those given; O(window) at most, and None if nobody can start."""
        if self._draft.closed_to_all() is not None:
            return None
        if self._has_looked:
            self._matches.settle()
        else:
            self._matches.look(self._waiting, self._draft)
            self._has_looked = True
        for progress in self._matches.order:
            if progress.state is RequestState.WAITING and progress.rank not in given:
                self._matches.offer(progress)
                return progress
        return None


class LongestMatch(FirstComeFirstServed):
    """The longest match first, among the first of the queue; who yields is as with first come, first served."""

    def __init__(self, *, window: int = WINDOW, max_overtakes: int = MAX_OVERTAKES) -> None:
        """Look at so many, and let each be overtaken so often.

        Raises:
            ConfigError: nobody would be looked at, or the bound is negative.
        """
        if window < 1 or max_overtakes < 0:
            message = f"a window of {window} and {max_overtakes} overtakes; at least 1 and 0 are needed"
            raise ConfigError(message)
        self.window = window
        self.max_overtakes = max_overtakes
        self._matches = Matches(window, max_overtakes)

    def queue(self, waiting: WaitingQueue, draft: StepDraft) -> Offers:
        """The longest match first."""
        self._matches.settle()
        return MatchOffers(waiting, draft, self._matches)

    def served(self, rows: Sequence[Row], times: int) -> None:
        """Orders grow old by steps."""
        del rows
        self._matches.count_steps(times)


def _longest_first(stretch: list[tuple[Progress, int]]) -> list[Progress]:
    """Of equal ones the older one first, as they stand."""
    return [progress for progress, _ in sorted(stretch, key=lambda each: -each[1])]
