"""IterationRows: the passes of the published lab's loop, one row each."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from arriero.core.plan import DecodeRow, Deferral, PrefillChunk
from arriero.kv.blocks import BlockManager
from arriero.record import lab_rows
from arriero.record.lab_config import LabConfig
from arriero.record.lab_rows import IterationRow, exact
from arriero.sim.simulator import SimulatedStep

REASONS: Final[Mapping[Deferral, lab_rows.Reason]] = MappingProxyType({
    Deferral.ROWS: "token budget",
    Deferral.SEQUENCES: "sequence budget",
    Deferral.KV: "KV capacity",
})
"""Our words → the published ones."""


class IterationRows:
    """One row a step; idle time becomes a row when its end is known, and the end of the run none."""

    def __init__(self, config: LabConfig, kv: BlockManager) -> None:
        """`kv` is asked for its gauges after each step."""
        policy = config.scheduling_policy
        assert policy != "FCFS", "one request at a time has no iterations"
        self._policy: lab_rows.BatchPolicy = policy
        self._num_blocks = config.kv_cache.total_blocks
        self._kv = kv
        self._number = 0
        self._idle: IterationRow | None = None

    def add(self, step: SimulatedStep) -> Iterator[IterationRow]:
        """The rows that a step completes: that of the idle time before it, and its own."""
        if self._idle is not None:
            yield replace(self._idle, end_time_us=int(step.began_at))
            self._idle = None
        if step.outcome is not None:
            yield self._row(step, end=step.ended_at, is_stall=False)
        elif is_stalled(step):
            yield self._row(step, end=step.ended_at, is_stall=True)
        else:
            self._idle = self._row(step, end=step.ended_at, is_stall=False)

    def _row(self, step: SimulatedStep, *, end: float, is_stall: bool) -> IterationRow:
        self._number += 1
        plan, gauges = step.plan, self._kv.gauges()
        prefills = [row for row in plan.rows if isinstance(row, PrefillChunk)]
        looked_up = [row.start for row in prefills if row.request.cache_scope is not None]
        num_hits = sum(start > 0 for start in looked_up)
        shape = plan.shape
        return IterationRow(
            cached_blocks=gauges.cached,
            decode_ids=[row.request.request_id for row in plan.rows if isinstance(row, DecodeRow)],
            deferred=[
                lab_rows.Deferral(reason=REASONS[each.reason], request_id=each.request_id) for each in plan.deferred
            ],
            end_time_us=int(end),
            evicted_ids=list(self._kv.take_evicted()),
            internal_fragmentation_tokens=gauges.allocated * self._kv.block_size - gauges.tokens,
            iteration_number=self._number,
            kv_allocated=gauges.allocated,
            kv_free=gauges.free,
            kv_utilization=exact(gauges.allocated / self._num_blocks),
            matched_tokens=sum(row.start for row in prefills),
            policy=self._policy,
            prefill_ids=[row.request.request_id for row in prefills],
            prefix_hits=num_hits,
            prefix_misses=len(looked_up) - num_hits,
            represented_kv_tokens=gauges.tokens,
            scheduled_decode_tokens=shape.decode_rows,
            scheduled_prefill_tokens=shape.prefill_rows,
            scheduled_sequences=len(plan.rows),
            shared_referenced_blocks=gauges.leased,
            stall=is_stall,
            start_time_us=int(step.began_at),
            total_scheduled_tokens=shape.num_rows,
        )


def is_stalled(step: SimulatedStep) -> bool:
    """Whether requests are alive and none of them can get on."""
    return step.outcome is None and (step.plan.num_waiting > 0 or step.plan.shape.num_running > 0)
