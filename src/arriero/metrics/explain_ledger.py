"""Ledger: where the time of one request went so far, as it is written step by step.

Most steps of most requests are plain: a decode row, and the host. They are written by two additions, and a token after
them only moves a mark. Whatever else happens makes the gap that it lies in one to be explained.
"""

from collections.abc import Iterable
from typing import Final

from arriero.metrics.explain_parts import NOTHING, OTHERS_PREFILL, Gap, Share, Split, ranked

MOST_GAPS: Final = 16
"""Gaps that are kept of one request: the longest of those with something to explain."""

MOST_NAMED: Final = 64
"""Requests that are named as those whose prompts were waited for; what beyond them was least is put together."""


class Blame:
    """Who is to blame for how much, bounded."""

    __slots__ = ("_times",)

    def __init__(self) -> None:
        """Nobody."""
        self._times: dict[int | None, int] = {}

    def __bool__(self) -> bool:
        """Whether anybody is."""
        return bool(self._times)

    def add(self, request_id: int | None, time: int) -> None:
        """Some more for one request; None for several that are not named."""
        times = self._times
        times[request_id] = times.get(request_id, 0) + time
        if len(times) > 2 * MOST_NAMED:
            self._times = dict(_bounded(self.shares()))

    def take(self) -> tuple[Share, ...]:
        """All of it, the longest first; nobody is to blame afterwards."""
        taken = self.shares()
        self._times = {}
        return taken

    def shares(self) -> tuple[Share, ...]:
        """All of it, the longest first."""
        return ranked([Share(request_id, time) for request_id, time in self._times.items()])


class Ledger:
    """The books of one request.

    Attributes:
        spent: microseconds since its arrival, in the order of `PARTS`; plain steps are written here directly.
    """

    __slots__ = ("_blame", "_first", "_gaps", "_is_plain", "_mark", "_recent", "spent")

    def __init__(self) -> None:
        """Nothing was spent."""
        self.spent = list(NOTHING.values)
        self._mark = NOTHING.values  # at the last token
        self._first: Split | None = None
        self._is_plain = True  # since the last token
        self._recent = Blame()  # since the last token
        self._blame = Blame()
        self._gaps: list[Gap] = []

    def spend(self, part: int, time: int) -> None:
        """Something else than a plain step."""
        if time:
            self.spent[part] += time
            self._is_plain = False

    def blame(self, request_id: int, time: int) -> None:
        """The prompt rows of another request took so long."""
        if time:
            self.spend(OTHERS_PREFILL, time)
            self._recent.add(request_id, time)

    def token(self, index: int, at: int) -> None:
        """A token has come; 0 is the first one."""
        if self._is_plain and self._first is not None:
            self._mark = tuple(self.spent)
            return
        others = self._recent.take()
        for share in others:
            self._blame.add(*share)
        now = Split(tuple(self.spent))
        if self._first is None:
            self._first = now
        else:
            self._keep(Gap(index, at, now - Split(self._mark), others))
        self._mark = now.values
        self._is_plain = True

    def splits(self) -> tuple[Split, Split, Split]:
        """Until the first token, from there to the last one, and since then."""
        now = Split(tuple(self.spent))
        if self._first is None:
            return now, NOTHING, NOTHING
        last = Split(self._mark)
        return self._first, last - self._first, now - last

    def others(self) -> tuple[Share, ...]:
        """Whose prompt rows took how long, the longest first."""
        total = Blame()
        for share in (*self._blame.shares(), *self._recent.shares()):
            total.add(*share)
        return _bounded(total.shares())

    def gaps(self) -> tuple[Gap, ...]:
        """The longest ones, in the order of their tokens."""
        return tuple(sorted(self._gaps, key=lambda gap: gap.index))

    def _keep(self, gap: Gap) -> None:
        """Keep a gap if it is among the longest; of equal ones the earlier."""
        self._gaps.append(gap)
        if len(self._gaps) > MOST_GAPS:
            self._gaps.remove(min(self._gaps, key=lambda each: (each.split.total, -each.index)))


def _bounded(shares: Iterable[Share]) -> tuple[Share, ...]:
    """The same with at most so many names; ascending from the longest on."""
    every = tuple(shares)
    named, rest = every[:MOST_NAMED], every[MOST_NAMED:]
    if not rest:
        return every
    return (*named, Share(None, sum(share.time for share in rest)))
