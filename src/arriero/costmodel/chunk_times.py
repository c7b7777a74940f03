"""ChunkTimes: what one step takes with different numbers of rows of one chunk.

Beside decode rows in streams of their own, a chunk takes part in one pass of the step with its first row, or with none,
and goes on alone. So everything but its own passes is the same whatever its length, and is predicted once.

    ids 0 1 2 4 decode, a chunk of n rows on id 3:

                pass   ids          rows of each
                1      0 1 2 3 4    1               the same for every n
                2      3            n - 1

In one pool, and beside other prompts, where every row can change every pass, each number is predicted as a whole.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, NamedTuple

from arriero.costmodel.calibrated import CalibratedCost
from arriero.costmodel.passes import AnyRow, Stretch, split

_MARGIN: Final = 1e-6
_SHARE: Final = 1e-12
"""More than sums can differ that were added up in another order; a time is rounded up where that could matter."""


class _Fixed(NamedTuple):
    """What does not depend on the chunk's length: microseconds, and rows of the chunk that are in them."""

    time: float
    num_rows: int


class ChunkTimes:
    """Times of a step, each predicted once."""

    def __init__(self, cost: CalibratedCost, rows: Sequence[AnyRow], chunk: Stretch, *, pool: int = 0) -> None:
        """Predict what is the same for every length; the arguments are those of `rows_within`."""
        self._cost = cost
        self._chunk = chunk
        self._pool = pool
        place = bisect_left(rows, chunk.sequence_id, key=lambda row: row.sequence_id)
        self._before, self._after = rows[:place], rows[place:]
        self._num_tokens = sum(row.wants_logits for row in rows)
        self._fixed = self._predict_others() if self._is_simple(rows) else None
        self._known: dict[int, int] = {}

    def time(self, num_rows: int) -> int:
        """Microseconds with so many rows of the chunk, from 1 to all; never less than `CalibratedCost.time` says."""
        known = self._known.get(num_rows)
        if known is not None:
            return known
        # With one row the step may be one pass of single rows, whose graph need not be new.
        if self._fixed is None or num_rows == 1:
            part = self._part(0, num_rows)
            found = self._cost.time([*self._before, part, *self._after], pool=self._pool)
        else:
            found = self._time_alone(self._fixed, num_rows)
        self._known[num_rows] = found
        return found

    def in_blocks(self, num_rows: int, block: int) -> int:
        """The most rows of the chunk, of at most so many, with which its last pass is made of whole blocks of rows."""
        fixed = self._fixed
        if fixed is not None:
            others = -fixed.num_rows
        else:
            others = len(self._before) + len(self._after) if self._cost.rules.unified else 0
        return num_rows - (num_rows + others) % self._cost.rules.micro_batch % block

    def _is_simple(self, rows: Sequence[AnyRow]) -> bool:
        rules = self._cost.rules
        return not rules.unified and len(rows) < rules.micro_batch and all(row.num_rows == 1 for row in rows)

    def _predict_others(self) -> _Fixed:
        """The passes without the chunk, or with its first row where an id beside its own has one."""
        own, before, after = self._chunk.sequence_id, self._before, self._after
        is_beside = bool(before and before[-1].sequence_id == own - 1) or bool(
            after and after[0].sequence_id == own + 1
        )
        first = (Stretch(own, self._chunk.start, 1, wants_logits=False),) if is_beside else ()
        return _Fixed(self._decode_time([*before, *first, *after]), len(first))

    def _time_alone(self, fixed: _Fixed, num_rows: int) -> int:
        part = self._part(fixed.num_rows, num_rows)
        num_entries = len(self._before) + 1 + len(self._after)
        host = self._cost.host.time(num_entries, self._num_tokens + part.wants_logits)
        time = host + fixed.time + self._decode_time([part])
        return round(time + time * _SHARE + _MARGIN)

    def _part(self, skipped: int, num_rows: int) -> Stretch:
        """The first rows of the chunk, but for those that others have taken with them."""
        own, start, whole, wants_logits = self._chunk
        return Stretch(own, start + skipped, num_rows - skipped, wants_logits and num_rows == whole)

    def _decode_time(self, rows: Sequence[AnyRow]) -> float:
        """Of these rows as a part of a step, which has another shape than the one before."""
        cost = self._cost
        return sum(cost.costs(one).time(one) for one in split(rows, cost.rules, is_first=True))
