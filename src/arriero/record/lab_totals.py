"""What the request rows of one run say together."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from arriero.record.lab_config import FCFS_MODE, LabConfig
from arriero.record.lab_place import Place
from arriero.record.lab_rows import RequestRow, SummaryRow

FCFS_NULLS: Final[Mapping[str, None]] = MappingProxyType(
    dict.fromkeys(
        (
            "scheduling_iterations", "nonempty_batches", "idle_iterations", "total_scheduled_sequences",
            "max_scheduled_tokens", "current_allocated_blocks", "current_free_blocks", "peak_allocated_blocks",
            "kv_current_utilization", "kv_peak_utilization", "represented_kv_tokens", "internal_fragmentation_tokens",
            "cached_blocks", "shared_referenced_blocks", "prefix_token_hit_rate",
        ),
        None,
    )
)  # fmt: skip
"""Fields of the summary that serving one at a time does not have."""

_FCFS_ZEROS: Final = (
    "deferred_requests", "kv_capacity_deferrals", "prefix_lookups", "prefix_lookup_hits", "prefix_lookup_misses",
    "matched_prefix_blocks", "cache_eligible_prompt_tokens", "collision_verifications", "eviction_count",
)  # fmt: skip


class RequestSums:
    """Totals of the request rows so far; checks numbering and identity on the way."""

    def __init__(self, config: LabConfig) -> None:
        """Start from nothing."""
        self._config = config
        self._is_fcfs = config.execution_mode == FCFS_MODE
        self._names: set[str] = set()
        self._before: tuple[int, str] = (-1, "")
        self._sums = {"finished": 0, "prompt": 0, "scheduled": 0, "matched": 0, "generated": 0, "eligible": 0}
        self.last_finish = 0

    @property
    def num_requests(self) -> int:
        """Rows so far."""
        return len(self._names)

    def add(self, row: RequestRow, place: Place) -> None:
        """Count one row.

        Raises:
            DataError: an id is used twice or out of order.
        """
        place.require(row, {"internal_id": len(self._names) + 1})
        if row.request_id in self._names:
            raise place.broken("request_id", f"{row.request_id!a} was used before; give each its own")
        key = row.arrival_time_us, row.request_id
        if key < self._before:
            raise place.broken("internal_id", "is not in the order of (arrival_time_us, request_id); run again")
        self._before = key
        self._names.add(row.request_id)
        if self._is_fcfs:
            place.require(row, {"final_state": "Finished", "prompt_tokens_matched": 0})
        self._count(row)

    def _count(self, row: RequestRow) -> None:
        sums = self._sums
        sums["finished"] += row.final_state == "Finished"
        sums["prompt"] += row.prompt_tokens_original
        sums["scheduled"] += row.prompt_tokens_scheduled
        sums["matched"] += row.prompt_tokens_matched
        sums["generated"] += row.generated_tokens
        if self._config.prefix_cache.enabled and row.prompt_tokens is not None and row.admitted_time_us is not None:
            size = self._config.kv_cache.block_size_tokens
            sums["eligible"] += row.prompt_tokens_original // size * size
        self.last_finish = max(self.last_finish, row.finish_time_us or 0)

    def totals(self) -> dict[str, Any]:
        """What the summary must say about requests."""
        sums = self._sums
        own: dict[str, Any] = {
            "submitted": self.num_requests,
            "completed": sums["finished"],
            "cancelled": 0,
            "rejected": 0,
            "kv_allocation_failures": 0,
            "submitted_prompt_tokens": sums["prompt"],
            "scheduled_prefill_tokens": sums["scheduled"],
            "scheduled_decode_tokens": sums["generated"],
            "generated_tokens": sums["generated"],
            "matched_prefix_tokens": sums["matched"],
            "saved_simulated_prefill_tokens": sums["matched"],
        }
        if self._is_fcfs:
            return {**own, **dict.fromkeys(_FCFS_ZEROS, 0), "makespan_us": self.last_finish}
        return {**own, "cache_eligible_prompt_tokens": sums["eligible"]}

    def check_status(self, row: SummaryRow, place: Place) -> None:
        """Whether the run's status goes with what is left unfinished.

        Raises:
            DataError: not so.
        """
        unfinished = row.submitted - row.completed
        if row.run_status == "completed" and (unfinished or row.stalled):
            raise place.broken("run_status", f"completed, but {unfinished} are unfinished, {row.stalled} stalled")
        if row.run_status == "stalled" and not (unfinished and row.stalled == 1):
            raise place.broken("run_status", f"stalled, but {unfinished} are unfinished, {row.stalled} stalled")
