"""StepTarget: how long a step may take in which somebody decodes, and how many prompt rows that leaves.

A reader sees the gap between two tokens, and that is the time of a step. So the time is what is promised, and rows
follow from it by the costs that were measured:

    limit   |-----------------------------------------------------|
            | decode rows | rows of prompts: as many as still fit | |
                                                  what a step may come later than predicted

Decode rows are never left out. The first prompt of a step gets some rows even where none fit, so that it comes to its
end; those behind it get what is left, and nothing where that is less than is worth a pass over the weights. Where
nobody decodes, nobody sees a gap, and the time is not looked at.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from arriero.core.errors import ConfigError
from arriero.core.ids import Time
from arriero.core.plan import Cap, OverTarget
from arriero.costmodel.calibrated import CalibratedCost
from arriero.costmodel.chunk_limit import rows_worth, with_chunk
from arriero.costmodel.passes import AnyRow, Stretch
from arriero.costmodel.terms import BLOCK_ROWS

LEAST_ROWS: Final = BLOCK_ROWS
"""Fewer cost nearly as much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTarget:
    """A promise about gaps between tokens, and what it takes to keep it.

    Attributes:
        limit: of a step with decode rows; microseconds, as `cost` counts them.
        cost: what steps take.
        least_rows: rows that the first prompt of a step gets, whatever they take; at least 1.
    """

    limit: Time
    cost: CalibratedCost
    least_rows: int = LEAST_ROWS

    def __post_init__(self) -> None:
        """Refuse a target that no step can keep, and prompts that would never get on.

        Raises:
            ConfigError: names the value.
        """
        if self.limit <= 0:
            raise ConfigError(f"an ITL target must be above 0, or None for none, not {self.limit}")
        if self.least_rows < 1:
            raise ConfigError(f"least_rows of an ITL target must be at least 1, not {self.least_rows}")

    @property
    def planned(self) -> int:
        """The largest prediction with which nearly all steps still keep the limit."""
        return int(self.limit / (1 + self.cost.spread))

    def rows(self, taken: Sequence[AnyRow], chunk: Stretch, pool: int = 0, *, apart: int = 0) -> int:
        """The rows of a chunk, of those that fit beside what a step has taken, with which its prompt gets on fastest.

        Args:
            taken: rows of the step, ascending by sequence id.
            chunk: all that its prompt could use now; its sequence is not among `taken`.
            pool: cells in use before the step; counts in the unified layout only.
            apart: microseconds that decode rows take which wait for a step of their own behind this one.
        """
        limit, least = self.planned - apart, min(self.least_rows, chunk.num_rows)
        return rows_worth(self.cost, taken, chunk, limit=limit, pool=pool, least=least)


class Allowance(NamedTuple):
    """How many rows a prompt may have in a step.

    Attributes:
        num_rows: 0 if none.
        cap: what kept others out; None if it got all that it could use.
        over: why the step takes longer than its target with them; None if it does not.
    """

    num_rows: int
    cap: Cap | None = None
    over: OverTarget | None = None


class MeteredStep:
    """A target, while one step is filled; owned by its caps."""

    __slots__ = ("_apart", "_has_chunk", "_is_spent", "_target")

    def __init__(self, target: StepTarget) -> None:
        """Nothing is taken yet."""
        self._target = target
        self._apart = 0
        self._has_chunk = False
        self._is_spent = False

    @property
    def counts_pool(self) -> bool:
        """Whether it matters how many cells are in use."""
        return self._target.cost.rules.unified

    @property
    def others_wait(self) -> bool:
        """Whether decode rows wait for a step of their own."""
        return self._apart > 0

    def let_wait(self, *groups: Sequence[AnyRow]) -> None:
        """One of these groups of decode rows comes in the step after this one, so their gap has both steps in it."""
        self._apart = max((self._target.cost.time(rows) for rows in groups), default=0)

    def allow(self, taken: Sequence[AnyRow], chunk: Stretch, pool: int) -> Allowance:
        """How much of a chunk may be taken beside decode rows; changes nothing."""
        if self._is_spent:
            return Allowance(0, Cap.ITL_TARGET)
        found = self._target.rows(taken, chunk, pool, apart=self._apart)
        if found == chunk.num_rows:
            return Allowance(found)
        least = min(self._target.least_rows, chunk.num_rows)
        if found < least and not self._has_chunk:
            return self._least(taken, chunk, pool, least)
        return Allowance(found if found >= least else 0, Cap.ITL_TARGET)

    def note(self, allowance: Allowance) -> None:
        """What a prompt was allowed was taken; once it was less than it could use, no other prompt gets any."""
        self._has_chunk = self._has_chunk or allowance.num_rows > 0
        self._is_spent = self._is_spent or allowance.cap is Cap.ITL_TARGET or allowance.over is not None

    def _least(self, taken: Sequence[AnyRow], chunk: Stretch, pool: int, num_rows: int) -> Allowance:
        """The least rows of a chunk, and whose time it is if the step does not keep the target with them."""
        target = self._target
        is_all = num_rows == chunk.num_rows
        part = chunk._replace(num_rows=num_rows, wants_logits=chunk.wants_logits and is_all)
        cap = None if is_all else Cap.ITL_TARGET
        if with_chunk(target.cost, taken, part, pool=pool).time + self._apart <= target.planned:
            return Allowance(num_rows, cap)
        decode_time = self._apart + (target.cost.time(taken, pool=pool) if taken else 0)
        over = OverTarget.DECODE_ROWS if decode_time > target.planned else OverTarget.LEAST_ROWS
        return Allowance(num_rows, cap, over)
