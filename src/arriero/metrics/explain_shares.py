"""Shares: how the time of one decode call is divided among decode rows and prompts.

    by cost   decode rows get what they would take alone, and each prompt what it adds to them;
              the time that was measured is divided in this proportion
    by rows   in proportion to the number of rows, where nobody knows what they cost

A prompt alone in a step gets all of it, and so do decode rows without prompts: then nothing has to be divided, and
nothing is asked. The parts are whole and add up to the time exactly.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from arriero.metrics.explain_parts import Basis


class Work(NamedTuple):
    """The rows of one request in a step."""

    request_id: int
    sequence_id: int
    start: int  # position of the first one
    num_rows: int
    wants_logits: bool
    is_decode: bool


RowsTime: TypeAlias = Callable[[Sequence[Work]], float]
"""What a decode call of these rows takes, ascending by sequence id, in any unit."""


class PromptTime(NamedTuple):
    """What the prompt rows of one request took."""

    work: Work
    time: int


class CallSplit(NamedTuple):
    """One decode call."""

    decode: int  # all decode rows together
    prompts: tuple[PromptTime, ...]


class Shares:
    """Divides calls, all in one way."""

    def __init__(self, time_of: RowsTime | None = None) -> None:
        """Without `time_of` time is divided in proportion to rows."""
        self._time_of = time_of

    @property
    def basis(self) -> Basis:
        """By what time is divided."""
        return Basis.ROWS if self._time_of is None else Basis.COST

    def divide(self, rows: Sequence[Work], time: int) -> CallSplit:
        """Divide a call.

        Args:
            rows: of the call, ascending by sequence id; those of a call of decode rows alone need not be given.
            time: what it took.
        """
        prompts = [row for row in rows if not row.is_decode]
        if not prompts:
            return CallSplit(time, ())
        num_decode = len(rows) - len(prompts)
        if num_decode == 0 and len(prompts) == 1:
            return CallSplit(0, (PromptTime(prompts[0], time),))
        decode, *each = apportion(time, self._weights(rows, prompts, num_decode))
        return CallSplit(decode, tuple(map(PromptTime, prompts, each)))

    def _weights(self, rows: Sequence[Work], prompts: Sequence[Work], num_decode: int) -> list[float]:
        """Of the decode rows together, then of each prompt."""
        if self._time_of is not None and any(weights := _added(self._time_of, rows, prompts, num_decode)):
            return weights
        return [num_decode, *(row.num_rows for row in prompts)]


def _added(time_of: RowsTime, rows: Sequence[Work], prompts: Sequence[Work], num_decode: int) -> list[float]:
    """What the decode rows take alone, and what each prompt adds to them; nothing costs less than nothing."""
    alone = time_of([row for row in rows if row.is_decode]) if num_decode else 0.0
    together = (time_of([row for row in rows if row.is_decode or row is prompt]) for prompt in prompts)
    return [max(0.0, alone), *(max(0.0, time - alone) for time in together)]


def apportion(amount: int, weights: Iterable[float]) -> list[int]:
    """Whole parts of an amount in proportion to weights, none of which is negative; together exactly the amount.

    Without any weight all parts are equal, as near as that can be.
    """
    given = list(weights)
    if not any(given):
        given = [1] * len(given)
    sums = list(accumulate(given))
    ends = [min(amount, int(amount * reached / sums[-1])) for reached in sums[:-1]]
    ends.append(amount)
    return [end - begin for begin, end in zip([0, *ends[:-1]], ends, strict=True)]
