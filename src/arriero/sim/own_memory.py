"""MemoryGauge: how full a memory is while a step runs, and in each of equal steps that are taken in one."""

from collections.abc import Iterator
from typing import NamedTuple

from arriero.core.plan import BatchPlan
from arriero.kv.blocks import BlockManager
from arriero.kv.cells import CellManager
from arriero.kv.places import PlaceManager


class Fullness(NamedTuple):
    """Places held, retained ones included, and tokens in them."""

    held: int
    tokens: int


class MemoryGauge:
    """Looks at a memory once a plan is made, before anything is given back.

    Attributes:
        size: places in all; 0 if there is no limit to them.
        tokens_per_place: 1 for cells, the block size for blocks.
    """

    def __init__(self, kv: CellManager | BlockManager | PlaceManager) -> None:
        self._kv = kv
        self.tokens_per_place = kv.block_size if isinstance(kv, BlockManager) else 1
        self.size = 0 if isinstance(kv, PlaceManager) else kv.usage().num_cells // self.tokens_per_place
        self._now = Fullness(0, 0)
        self._room_left: list[int] = []  # of each row's last block

    def look(self, plan: BatchPlan) -> None:
        """A plan was made, and has taken its places."""
        self._now = self.now()
        if isinstance(self._kv, BlockManager) and not plan.shape.prefill_chunks:
            self._room_left = [self._kv.room_left(row.sequence_id) for row in plan.rows]

    def now(self) -> Fullness:
        """How full it is at this moment."""
        if isinstance(self._kv, BlockManager):
            gauges = self._kv.gauges()
            return Fullness(gauges.allocated, gauges.tokens)
        if isinstance(self._kv, PlaceManager):
            return Fullness(0, 0)
        usage = self._kv.usage()
        held = usage.num_cells - usage.free_cells
        return Fullness(held, held)

    def during(self, num_rows: int, times: int) -> Iterator[Fullness]:
        """In each of so many equal steps of decode rows, from the one that was looked at on."""
        held, tokens = self._now
        size = self.tokens_per_place
        for step in range(times):
            grown = step * num_rows
            if self.size == 0:
                yield self._now
            elif isinstance(self._kv, BlockManager):
                blocks = sum(-(-max(0, step - room) // size) for room in self._room_left) if step else 0
                yield Fullness(held + blocks, tokens + grown)
            else:
                yield Fullness(held + grown, tokens + grown)
