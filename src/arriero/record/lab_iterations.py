"""Rules of iteration rows, and what they say together: sums, maxima, and in which iterations a request appears."""

from collections import defaultdict
from dataclasses import dataclass, field
from operator import attrgetter, gt
from typing import Any, Final

from arriero.record.lab_config import LabConfig
from arriero.record.lab_place import Place
from arriero.record.lab_rows import IterationRow, RequestRow, exact

_SUMMED: Final = (
    "scheduling_iterations", "nonempty_batches", "idle_iterations", "stalled", "total_scheduled_sequences",
    "scheduled_prefill_tokens", "scheduled_decode_tokens", "deferred_requests", "kv_capacity_deferrals",
    "prefix_lookup_hits", "prefix_lookup_misses", "matched_prefix_tokens", "eviction_count",
)  # fmt: skip
_GREATEST: Final = ("max_batch_size", "max_scheduled_tokens", "kv_allocated")
_DERIVED: Final = (
    "policy", "scheduled_sequences", "scheduled_decode_tokens", "total_scheduled_tokens", "kv_free", "kv_utilization",
    "internal_fragmentation_tokens",
)  # fmt: skip
_LIMITED: Final = (
    "scheduled_sequences", "total_scheduled_tokens", "cached_blocks", "shared_referenced_blocks", "prefix_hits",
)  # fmt: skip
_derived_of: Final = attrgetter(*_DERIVED)


@dataclass(slots=True)
class Appearances:
    """In which iterations each request was computed, by internal id."""

    prefills: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])  # start, end
    decodes: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))  # ends
    deferred: set[int] = field(default_factory=set[int])

    def add(self, row: IterationRow, place: Place) -> None:
        """Note one row.

        Raises:
            DataError: a request is prefilled a second time, or decoded before.
        """
        prefills, decodes, end = self.prefills, self.decodes, row.end_time_us
        for each in row.decode_ids:
            if each not in prefills:
                raise place.broken("decode_ids", f"request {each} was not prefilled before; run again")
            decodes[each].append(end)
        for each in row.prefill_ids:
            if each in prefills:
                raise place.broken("prefill_ids", f"request {each} was prefilled before; run again")
            prefills[each] = row.start_time_us, end
        if row.deferred:
            self.deferred.update([deferral.request_id for deferral in row.deferred])

    def check(self, row: RequestRow, place: Place) -> None:
        """Compare a request's own moments with the iterations it appeared in, and forget them.

        Raises:
            DataError: names the field that differs.
        """
        start, end = self.prefills.pop(row.internal_id, (None, None))
        self.deferred.discard(row.internal_id)
        place.require(
            row,
            {
                "admitted_time_us": start,
                "decode_token_times_us": self.decodes.pop(row.internal_id, []),
            },
        )
        if row.final_state == "Finished" and not row.max_new_tokens:
            place.require(row, {"finish_time_us": end})

    def check_all_known(self, place: Place) -> None:
        """Whether every request that appeared has had its row.

        Raises:
            DataError: not so.
        """
        for field_name, ids in (("prefill_ids", self.prefills), ("deferred", self.deferred)):
            for each in ids:
                raise place.broken(field_name, f"request {each} has no row; run again")


@dataclass(slots=True)
class IterationSums:
    """Totals of the rows so far, and the last one."""

    config: LabConfig
    last: IterationRow | None = None
    sums: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_SUMMED, 0))
    maxima: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_GREATEST, 0))

    def add(self, row: IterationRow, place: Place) -> None:
        """Check one row against the configuration and the row before, and count it.

        Raises:
            DataError: names the field.
        """
        _check_lists(row, place)
        _check_identities(row, self.config, place)
        self._check_sequel(row, place)
        self._count(row)
        self.last = row

    def _check_sequel(self, row: IterationRow, place: Place) -> None:
        before = self.last
        number, began_at = (before.iteration_number + 1, before.end_time_us) if before else (1, 0)
        if row.iteration_number != number:
            place.require(row, {"iteration_number": number})
        if before is not None and before.stall:
            raise place.broken("iteration_number", "comes after a stalled iteration, which is the last; run again")
        # Stricter than the published check, which lets time pass between two iterations: an idle one says so instead.
        if row.start_time_us != began_at:
            raise place.broken("start_time_us", f"is not the end of the iteration before, {began_at}; run again")
        if row.end_time_us < row.start_time_us:
            raise place.broken("end_time_us", f"lies before start_time_us, {row.start_time_us}; run again")
        if row.stall and (row.scheduled_sequences or not row.deferred or row.end_time_us != row.start_time_us):
            raise place.broken("stall", "a stalled iteration defers, schedules nothing and takes no time; run again")
        if not (row.scheduled_sequences or row.stall) and row.deferred:
            raise place.broken("deferred", "an idle iteration has no candidates; run again")

    def _count(self, row: IterationRow) -> None:
        sums, maxima = self.sums, self.maxima
        sums["scheduling_iterations"] += 1
        sums["nonempty_batches"] += bool(row.scheduled_sequences)
        sums["idle_iterations"] += not (row.scheduled_sequences or row.stall)
        sums["stalled"] += row.stall
        sums["total_scheduled_sequences"] += row.scheduled_sequences
        sums["scheduled_prefill_tokens"] += row.scheduled_prefill_tokens
        sums["scheduled_decode_tokens"] += row.scheduled_decode_tokens
        if row.deferred:
            sums["deferred_requests"] += len(row.deferred)
            sums["kv_capacity_deferrals"] += [each.reason for each in row.deferred].count("KV capacity")
        sums["prefix_lookup_hits"] += row.prefix_hits
        sums["prefix_lookup_misses"] += row.prefix_misses
        sums["matched_prefix_tokens"] += row.matched_tokens
        sums["eviction_count"] += len(row.evicted_ids)
        maxima["max_batch_size"] = max(maxima["max_batch_size"], row.scheduled_sequences)
        maxima["max_scheduled_tokens"] = max(maxima["max_scheduled_tokens"], row.total_scheduled_tokens)
        maxima["kv_allocated"] = max(maxima["kv_allocated"], row.kv_allocated)

    def gauges(self) -> dict[str, Any]:
        """What the summary must say about the pool at the end."""
        blocks, last = self.config.kv_cache.total_blocks, self.last
        allocated = last.kv_allocated if last else 0
        return {
            "current_allocated_blocks": allocated,
            "current_free_blocks": blocks - allocated,
            "kv_current_utilization": exact(allocated / blocks),
            "represented_kv_tokens": last.represented_kv_tokens if last else 0,
            "internal_fragmentation_tokens": last.internal_fragmentation_tokens if last else 0,
            "cached_blocks": last.cached_blocks if last else 0,
            "shared_referenced_blocks": last.shared_referenced_blocks if last else 0,
        }


def _check_lists(row: IterationRow, place: Place) -> None:
    ids = row.prefill_ids + row.decode_ids
    if row.deferred:
        ids += [each.request_id for each in row.deferred]
    if len(set(ids)) != len(ids):
        raise place.broken("prefill_ids", "with decode_ids and deferred, hold a request twice; run again")
    if row.evicted_ids and len(set(row.evicted_ids)) != len(row.evicted_ids):
        raise place.broken("evicted_ids", "hold a block twice; run again")


def _check_identities(row: IterationRow, config: LabConfig, place: Place) -> None:
    blocks, size = config.kv_cache.total_blocks, config.kv_cache.block_size_tokens
    num_decodes, allocated = len(row.decode_ids), row.kv_allocated
    expected = (
        config.scheduling_policy,
        len(row.prefill_ids) + num_decodes,
        num_decodes,
        row.scheduled_prefill_tokens + num_decodes,
        blocks - allocated,
        exact(allocated / blocks),
        allocated * size - row.represented_kv_tokens,
    )
    if _derived_of(row) != expected:
        place.require(row, dict(zip(_DERIVED, expected, strict=True)))
    values = (
        row.scheduled_sequences,
        row.total_scheduled_tokens,
        row.cached_blocks,
        row.shared_referenced_blocks,
        row.prefix_hits + row.prefix_misses,
    )
    limits = (config.max_num_sequences, config.max_batched_tokens, allocated, allocated, len(row.prefill_ids))
    if any(map(gt, values, limits)):
        name, value, limit = next(each for each in zip(_LIMITED, values, limits, strict=True) if each[1] > each[2])
        raise place.broken(name, f"{value} is above {limit}; run again")
