"""The summary row of a run of the published lab."""

from arriero.core.plan import Deferral
from arriero.kv.blocks import BlockManager
from arriero.record.lab_config import FCFS_MODE, LabConfig
from arriero.record.lab_rows import SummaryRow, exact
from arriero.sim.lab_iterations import is_stalled
from arriero.sim.lab_lives import LabLives
from arriero.sim.simulator import SimulatedStep


class BatchTotals:
    """Sums over the steps of the continuous mode; a step that was counted several times weighs so much."""

    def __init__(self, config: LabConfig) -> None:
        """Start with nothing."""
        self._config = config
        self._num_batches = 0
        self._num_idle = 0
        self._num_sequences = 0
        self._max_sequences = 0
        self._max_tokens = 0
        self._prefill_tokens = 0
        self._num_deferred = 0
        self._num_kv_deferred = 0
        self._is_stalled = False
        self._has_idle_end = False  # the last step was idle; it counts once another one follows

    def add(self, step: SimulatedStep) -> None:
        """Take over what a step did."""
        if self._has_idle_end:
            self._num_idle += 1
            self._has_idle_end = False
        plan, times = step.plan, len(step.ends)
        if plan.deferrals:
            weight = max(1, times)
            self._num_deferred += weight * sum(plan.deferrals.values())
            self._num_kv_deferred += weight * plan.deferrals.get(Deferral.KV, 0)
        if times:
            num_sequences = len(plan.rows)
            self._num_batches += times
            self._num_sequences += times * num_sequences
            self._prefill_tokens += plan.shape.prefill_rows
            self._max_sequences = max(self._max_sequences, num_sequences)
            self._max_tokens = max(self._max_tokens, plan.shape.num_rows)
        elif is_stalled(step):
            self._is_stalled = True
        else:
            self._has_idle_end = True

    def summary(self, lives: LabLives, kv: BlockManager) -> SummaryRow:
        """The row, once the loop has ended."""
        counts, gauges, num_blocks = kv.counts, kv.gauges(), self._config.kv_cache.total_blocks
        batches, policy = self._num_batches, self._config.scheduling_policy
        assert policy != "FCFS", "one request at a time has another summary"
        eligible = counts.eligible_tokens
        return SummaryRow(
            average_batch_size=exact(self._num_sequences / batches) if batches else None,
            cache_eligible_prompt_tokens=eligible,
            cached_blocks=gauges.cached,
            cancelled=0,
            collision_verifications=kv.num_collisions,
            completed=lives.num_completed,
            current_allocated_blocks=gauges.allocated,
            current_free_blocks=gauges.free,
            deferred_requests=self._num_deferred,
            eviction_count=counts.evictions,
            execution_mode="continuous_batching",
            generated_tokens=lives.num_generated,
            idle_iterations=self._num_idle,
            internal_fragmentation_tokens=gauges.allocated * kv.block_size - gauges.tokens,
            kv_allocation_failures=0,
            kv_capacity_deferrals=self._num_kv_deferred,
            kv_current_utilization=exact(gauges.allocated / num_blocks),
            kv_peak_utilization=exact(gauges.peak / num_blocks),
            makespan_us=lives.ended_at,
            matched_prefix_blocks=counts.matched_blocks,
            matched_prefix_tokens=counts.matched_tokens,
            max_batch_size=self._max_sequences,
            max_scheduled_tokens=self._max_tokens,
            nonempty_batches=batches,
            peak_allocated_blocks=gauges.peak,
            prefix_lookup_hits=counts.hits,
            prefix_lookup_misses=counts.lookups - counts.hits,
            prefix_lookups=counts.lookups,
            prefix_token_hit_rate=exact(counts.matched_tokens / eligible) if eligible else None,
            rejected=0,
            represented_kv_tokens=gauges.tokens,
            run_status="stalled" if self._is_stalled else "completed",
            saved_simulated_prefill_tokens=counts.matched_tokens,
            scheduled_decode_tokens=lives.num_generated,
            scheduled_prefill_tokens=self._prefill_tokens,
            scheduling_iterations=batches + self._num_idle + self._is_stalled,
            scheduling_policy=policy,
            shared_referenced_blocks=gauges.leased,
            stalled=int(self._is_stalled),
            submitted=lives.num_submitted,
            submitted_prompt_tokens=lives.num_submitted_tokens,
            total_scheduled_sequences=self._num_sequences,
        )


def sequential_summary(lives: LabLives) -> SummaryRow:
    """The row of a run with one request at a time; what only batches have is null."""
    has_any = lives.num_submitted > 0
    return SummaryRow(
        average_batch_size=1 if has_any else None,
        cache_eligible_prompt_tokens=0,
        cached_blocks=None,
        cancelled=0,
        collision_verifications=0,
        completed=lives.num_completed,
        current_allocated_blocks=None,
        current_free_blocks=None,
        deferred_requests=0,
        eviction_count=0,
        execution_mode=FCFS_MODE,
        generated_tokens=lives.num_generated,
        idle_iterations=None,
        internal_fragmentation_tokens=None,
        kv_allocation_failures=0,
        kv_capacity_deferrals=0,
        kv_current_utilization=None,
        kv_peak_utilization=None,
        makespan_us=lives.ended_at if has_any else 0,
        matched_prefix_blocks=0,
        matched_prefix_tokens=0,
        max_batch_size=int(has_any),
        max_scheduled_tokens=None,
        nonempty_batches=None,
        peak_allocated_blocks=None,
        prefix_lookup_hits=0,
        prefix_lookup_misses=0,
        prefix_lookups=0,
        prefix_token_hit_rate=None,
        rejected=0,
        represented_kv_tokens=None,
        run_status="completed",
        saved_simulated_prefill_tokens=0,
        scheduled_decode_tokens=lives.num_generated,
        scheduled_prefill_tokens=lives.num_scheduled_tokens,
        scheduling_iterations=None,
        scheduling_policy=None,
        shared_referenced_blocks=None,
        stalled=0,
        submitted=lives.num_submitted,
        submitted_prompt_tokens=lives.num_submitted_tokens,
        total_scheduled_sequences=None,
    )
