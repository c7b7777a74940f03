"""IterationRows: the passes of the published lab's loop, one row each."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, Self

from msgspec.structs import replace

from arriero.core.plan import BatchPlan, DecodeRow, Deferral, PrefillChunk, StepShape
from arriero.kv.block_figures import BlockGauges
from arriero.kv.blocks import BlockManager
from arriero.record import lab_rows
from arriero.record.lab_config import LabConfig
from arriero.record.lab_rows import IterationRow, exact
from arriero.sim.own_memory import MemoryGauge
from arriero.sim.simulator import SimulatedStep

REASONS: Final[Mapping[Deferral, lab_rows.Reason]] = MappingProxyType({
    Deferral.ROWS: "token budget",
    Deferral.SEQUENCES: "sequence budget",
    Deferral.KV: "KV capacity",
})
"""Our words → the published ones."""


class IterationRows:
    """One row a step; idle time becomes a row when its end is known, and the end of the run none.

    Equal decode steps that were taken in one have a row each: nothing but time and the memory's gauges moves in them.
    """

    def __init__(self, config: LabConfig, kv: BlockManager) -> None:
        """`kv` is asked for its gauges after each step."""
        policy = config.scheduling_policy
        assert policy != "FCFS", "one request at a time has no iterations"
        self._policy: lab_rows.BatchPolicy = policy
        self._num_blocks = config.kv_cache.total_blocks
        self._kv = kv
        self._memory = MemoryGauge(kv)
        self._before = kv.gauges()
        self._number = 0
        self._idle: IterationRow | None = None

    def look(self, plan: BatchPlan) -> None:
        """Equal steps begin with this plan: note how full the memory is in the first of them."""
        self._memory.look(plan)
        self._before = self._kv.gauges()

    def add(self, step: SimulatedStep) -> Iterator[IterationRow]:
        """The rows that a step completes: that of the idle time before it, and its own."""
        if self._idle is not None:
            yield replace(self._idle, end_time_us=int(step.began_at))
            self._idle = None
        ends = step.ends
        if len(ends) == 1:
            yield self._row(_Shared.of(step.plan), self._kv.gauges(), int(step.began_at), int(ends[0]))
        elif ends:
            yield from self._equal_rows(step)
        else:
            at, is_stall = int(step.began_at), is_stalled(step)
            row = self._row(_Shared.of(step.plan), self._kv.gauges(), at, at, is_stall=is_stall)
            if is_stall:
                yield row
            else:
                self._idle = row

    def _equal_rows(self, step: SimulatedStep) -> Iterator[IterationRow]:
        shared, start = _Shared.of(step.plan), int(step.began_at)
        num_blocks, before, last = self._num_blocks, self._before, len(step.ends) - 1
        for number, full in enumerate(self._memory.during(len(step.plan.rows), last)):
            end = int(step.ends[number])
            gauges = before._replace(allocated=full.held, free=num_blocks - full.held, tokens=full.tokens)
            yield self._row(shared, gauges, start, end)
            start = end
        yield self._row(shared, self._kv.gauges(), start, int(step.ends[last]))  # here somebody may have ended

    def _row(
        self, shared: "_Shared", gauges: BlockGauges, start: int, end: int, *, is_stall: bool = False
    ) -> IterationRow:
        self._number += 1
        shape = shared.shape
        return IterationRow(
            cached_blocks=gauges.cached,
            decode_ids=shared.decode_ids,
            deferred=shared.deferred,
            end_time_us=end,
            evicted_ids=list(self._kv.take_evicted()),
            internal_fragmentation_tokens=gauges.allocated * self._kv.block_size - gauges.tokens,
            iteration_number=self._number,
            kv_allocated=gauges.allocated,
            kv_free=gauges.free,
            kv_utilization=exact(gauges.allocated / self._num_blocks),
            matched_tokens=shared.num_matched,
            policy=self._policy,
            prefill_ids=shared.prefill_ids,
            prefix_hits=shared.num_hits,
            prefix_misses=shared.num_misses,
            represented_kv_tokens=gauges.tokens,
            scheduled_decode_tokens=shape.decode_rows,
            scheduled_prefill_tokens=shape.prefill_rows,
            scheduled_sequences=len(shared.prefill_ids) + len(shared.decode_ids),
            shared_referenced_blocks=gauges.leased,
            stall=is_stall,
            start_time_us=start,
            total_scheduled_tokens=shape.num_rows,
        )


class _Shared(NamedTuple):
    """What the rows of equal steps have in common."""

    shape: StepShape
    prefill_ids: list[int]
    decode_ids: list[int]
    deferred: list[lab_rows.Deferral]
    num_matched: int = 0
    num_hits: int = 0
    num_misses: int = 0

    @classmethod
    def of(cls, plan: BatchPlan) -> Self:
        """That of a plan."""
        rows, shape = plan.rows, plan.shape
        deferred = [
            lab_rows.Deferral(reason=REASONS[reason], request_id=request_id) for request_id, reason in plan.deferred
        ]
        if not shape.prefill_chunks:
            return cls(shape, [], [row.request.request_id for row in rows], deferred)
        prefills = [row for row in rows if type(row) is PrefillChunk]
        looked_up = [row.start for row in prefills if row.request.cache_scope is not None]
        num_hits = len(looked_up) - looked_up.count(0)
        return cls(
            shape,
            [row.request.request_id for row in prefills],
            [row.request.request_id for row in rows if type(row) is DecodeRow],
            deferred,
            sum(looked_up),
            num_hits,
            len(looked_up) - num_hits,
        )


def is_stalled(step: SimulatedStep) -> bool:
    """Whether requests are alive and none of them can get on."""
    return step.outcome is None and (step.plan.num_waiting > 0 or step.plan.shape.num_running > 0)
