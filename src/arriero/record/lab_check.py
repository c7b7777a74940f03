"""LabChecker: whether the rows of one run fit together, before anything is computed from them.

Rows are given one at a time, so that a run can be checked while it is written. What a row must be by itself stands in
`lab_requests.py` and `lab_iterations.py`.
"""

from typing import Any, Final

from arriero.record.lab_config import FCFS_MODE, LabConfig
from arriero.record.lab_iterations import Appearances, IterationSums
from arriero.record.lab_place import Place
from arriero.record.lab_requests import check_request
from arriero.record.lab_rows import IterationRow, LabRow, RequestRow, SummaryRow, exact
from arriero.record.lab_totals import FCFS_NULLS, RequestSums


class LabChecker:
    """Checks the native rows of one run, in the order of its file."""

    def __init__(self, config: LabConfig, file: str, *, with_iterations: bool = True) -> None:
        """Begin.

        Args:
            config: of the run.
            file: named in errors.
            with_iterations: whether iteration rows are kept; without them what they would show is not checked.
        """
        self._config: Final = config
        self._file: Final = file
        self._is_batching: Final = config.execution_mode != FCFS_MODE
        self._traces: Final = with_iterations and self._is_batching
        self._iterations: Final = IterationSums(config)
        self._appearances: Final = Appearances()
        self._requests: Final = RequestSums(config)
        self._summary: SummaryRow | None = None

    def add(self, row: LabRow, line: int) -> None:
        """Check the next row.

        Raises:
            DataError: names line and field.
        """
        place = Place(self._file, line)
        if self._summary is not None:
            raise place.broken("record_type", "comes after the summary, which is the last row; take it out")
        match row:
            case IterationRow():
                self._add_iteration(row, place)
            case RequestRow():
                check_request(row, place)
                self._requests.add(row, place)
                if self._traces:
                    self._appearances.check(row, place)
            case SummaryRow():
                self._add_summary(row, place)

    def finish(self, line: int) -> SummaryRow:
        """The summary row.

        Raises:
            DataError: there was none.
        """
        if self._summary is None:
            raise Place(self._file, line).broken("record_type", "the summary row is missing; run the simulation again")
        return self._summary

    def _add_iteration(self, row: IterationRow, place: Place) -> None:
        if not self._traces:
            raise place.broken("record_type", "no iteration row belongs here; take it out")
        if self._requests.num_requests:
            raise place.broken("record_type", "an iteration row comes after a request row; put it before")
        self._iterations.add(row, place)
        self._appearances.add(row, place)

    def _add_summary(self, row: SummaryRow, place: Place) -> None:
        self._appearances.check_all_known(place)
        policy = self._config.scheduling_policy if self._is_batching else None
        place.require(row, {"execution_mode": self._config.execution_mode, "scheduling_policy": policy})
        place.require(row, self._requests.totals())
        self._requests.check_status(row, place)
        if not self._is_batching:
            place.require(row, FCFS_NULLS)
            some = bool(row.submitted)
            place.require(row, {"average_batch_size": 1 if some else None, "max_batch_size": int(some)})
        else:
            self._check_batching(row, place)
        self._summary = row

    def _check_batching(self, row: SummaryRow, place: Place) -> None:
        blocks = self._config.kv_cache.total_blocks
        for field in FCFS_NULLS:
            if getattr(row, field) is None and field != "prefix_token_hit_rate":
                raise place.broken(field, "is null in continuous_batching; run again")
        peak = row.peak_allocated_blocks or 0
        batches, sequences = row.nonempty_batches or 0, row.total_scheduled_sequences or 0
        looked_up = row.cache_eligible_prompt_tokens
        expected: dict[str, Any] = {
            "average_batch_size": exact(sequences / batches) if batches else None,
            "kv_peak_utilization": exact(peak / blocks),
            "prefix_lookups": row.prefix_lookup_hits + row.prefix_lookup_misses,
            "matched_prefix_tokens": row.matched_prefix_blocks * self._config.kv_cache.block_size_tokens,
            "saved_simulated_prefill_tokens": row.matched_prefix_tokens,
            "prefix_token_hit_rate": exact(row.matched_prefix_tokens / looked_up) if looked_up else None,
        }
        place.require(row, expected)
        if self._traces:
            self._check_traced(row, place, peak)
        if peak > blocks:
            raise place.broken("peak_allocated_blocks", f"{peak} is above the pool of {blocks}; run again")

    def _check_traced(self, row: SummaryRow, place: Place, peak: int) -> None:
        iterations = self._iterations
        end = iterations.last.end_time_us if iterations.last else 0
        highest = iterations.maxima["kv_allocated"]
        place.require(row, iterations.sums)
        place.require(
            row,
            {
                **iterations.gauges(),
                "max_batch_size": iterations.maxima["max_batch_size"],
                "max_scheduled_tokens": iterations.maxima["max_scheduled_tokens"],
                "makespan_us": max(end, self._requests.last_finish),
            },
        )
        if peak < highest:
            raise place.broken("peak_allocated_blocks", f"{peak} is below the {highest} of an iteration; run again")
