"""Origins: who computed what a sequence starts from, and from when until when others waited for it.

A plan names the requests that wait for a prefix, and not who computes it. But a request that waited starts from what it
waited for, and the operations that fill its sequence say where that lay: on the sequence of the request that computed
it, on one that was filled from there, or in the host store. So a start names its leaders afterwards:

    sequence 2 starts, 128 tokens cached            copied from sequence 0
    sequence 0 was computed by request 7            whose prompt was at them from 1.00 s to 1.30 s
    by the plans, the request on sequence 2 waited  from 1.10 s to 1.30 s: so it waited 0.20 s for request 7

The rest has no name: whoever ended before it started, or found that the prefix had gone, waited for somebody, too.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from arriero.metrics.explain_parts import Share

MAX_LINE: Final = 4
"""Requests that are looked at, one behind the other: who computed the beginning, and whoever went on from there."""


class Span(NamedTuple):
    """A stretch of time."""

    begin: int
    end: int


class Leader:
    """One start of a request, whose prompt others may wait for.

    Attributes:
        request_id: its name.
    """

    __slots__ = ("_ends", "_positions", "_spans", "request_id")

    def __init__(self, request_id: int) -> None:
        """Nobody has waited for it yet."""
        self.request_id = request_id
        self._spans: list[Span] = []
        self._positions: list[int] = []  # where it stood at the beginning of each of these steps, ascending
        self._ends: list[int] = []  # of these steps

    def lead(self, before: int, span: Span, position: int) -> None:
        """Its prompt was under way while others waited for some prefix.

        Args:
            before: the end of the step before; see `extend`.
            span: of the step.
            position: the first that was not computed before it.
        """
        extend(self._spans, before, span)
        self._positions.append(position)
        self._ends.append(span.end)

    def spans(self, num_tokens: int) -> list[Span]:
        """When it computed its first `num_tokens` tokens while somebody waited."""
        num_steps = bisect_left(self._positions, num_tokens)
        if not num_steps:
            return []
        last = self._ends[num_steps - 1]
        return [Span(span.begin, min(span.end, last)) for span in self._spans if span.begin < last]


Line: TypeAlias = tuple[Leader, ...]
"""Who computed what lies in a sequence: its own request, then the one from which that started, and so on."""


class Origins:
    """Lines of the sequences in use, of retained runs and of the host store; bounded by how many of these there are."""

    def __init__(self) -> None:
        """Nothing lies anywhere."""
        self._on: dict[int, Line] = {}
        self._stored: dict[int, Line] = {}
        self._filled: dict[int, Line] = {}  # sequences that are about to start from elsewhere
        self._swapped: set[int] = set()

    def begin_step(self) -> None:
        """A new step: what was saved and restored in the last one is done."""
        self._swapped.clear()

    def was_swapped(self, sequence_id: int) -> bool:
        """Whether this sequence was saved or restored in this step."""
        return sequence_id in self._swapped

    def copied(self, source: int, sequence_id: int) -> None:
        """A sequence gets the beginning of another one."""
        self._filled[sequence_id] = self._on.get(source, ())

    def moved(self, source: int, sequence_id: int) -> None:
        """A sequence takes everything of another one."""
        self._on[sequence_id] = self._on.pop(source, ())

    def saved(self, sequence_id: int, key: int) -> None:
        """The host store gets a sequence."""
        self._stored[key] = self._on.get(sequence_id, ())
        self._swapped.add(sequence_id)

    def restored(self, sequence_id: int, key: int) -> None:
        """A sequence gets something from the host store."""
        self._filled[sequence_id] = self._stored.get(key, ())
        self._swapped.add(sequence_id)

    def forgotten(self, key: int) -> None:
        """The host store forgets something."""
        self._stored.pop(key, None)

    def dropped(self, sequence_id: int) -> None:
        """A sequence is cleared."""
        self._on.pop(sequence_id, None)

    def start(self, leader: Leader, sequence_id: int, *, is_filled: bool) -> Line:
        """A request starts on a sequence; returns who computed what lies there already."""
        line = self._filled.pop(sequence_id, None)
        if line is None:
            line = self._on.get(sequence_id, ())  # it starts in the place of a run
        if not is_filled:
            line = ()
        self._on[sequence_id] = (leader, *line)[:MAX_LINE]
        return line

    def clear(self) -> None:
        """Forget everything: it is not known any more what happened."""
        self._on.clear()
        self._stored.clear()
        self._filled.clear()
        self._swapped.clear()


def waits(line: Line, spans: Sequence[Span], num_tokens: int) -> tuple[Share, ...]:
    """For how long a request waited for each of a line; no moment counts twice.

    Args:
        line: who computed what it started from, the nearest first.
        spans: when it waited for a prefix.
        num_tokens: how many tokens it did not compute itself.

    Returns:
        Shares that add up to `spans`; one has no name, where nobody of the line was at work.
    """
    found: list[Share] = []
    left = spans
    for leader in line:
        rest = _without(left, leader.spans(num_tokens))
        if time := length(left) - length(rest):
            found.append(Share(leader.request_id, time))
        left = rest
    if time := length(left):
        found.append(Share(None, time))
    return tuple(found)


def extend(spans: list[Span], before: int, span: Span) -> None:
    """Add a span, and the pause before it, too, if the last one reached until then: until `before`."""
    if spans and spans[-1].end == before:
        spans[-1] = Span(spans[-1].begin, span.end)
    else:
        spans.append(span)


def length(spans: Iterable[Span]) -> int:
    """All of them together."""
    return sum(span.end - span.begin for span in spans)


def _without(spans: Sequence[Span], holes: Iterable[Span]) -> Sequence[Span]:
    for hole in holes:
        parts = (
            part
            for span in spans
            for part in (Span(span.begin, min(span.end, hole.begin)), Span(max(span.begin, hole.end), span.end))
        )
        spans = [part for part in parts if part.begin < part.end]
    return spans
