"""From a configuration of the published lab to what its scheduler is built from, and to its costs."""

import sys
from collections.abc import Sequence
from typing import Final

from arriero.costmodel.models import BatchMicroseconds, PhaseMicroseconds
from arriero.kv.block_figures import PUBLISHED
from arriero.record.journal_setup import (
    AnythingFits,
    BlocksSetup,
    LimitsSetup,
    LowestFirstSetup,
    NobodyYieldsSetup,
    PlacesSetup,
    RequestIdsSetup,
    RulesSetup,
    Setup,
    WholePromptsSetup,
)
from arriero.record.lab_config import LabConfig
from arriero.workload.records import WorkloadRecord

SEQUENTIAL: Final = Setup(
    kv=PlacesSetup(num_sequences=1),
    ids=LowestFirstSetup(),
    planner=WholePromptsSetup(order="decodes_then_prompts", fewest_rows=0, oversized=False),
    policy=NobodyYieldsSetup(),
    limits=LimitsSetup(
        num_rows=sys.maxsize, prefill_rows_per_seq=None, prefill_rows_per_step=None, headroom_per_sequence=0
    ),
    rules=RulesSetup(start="one_at_a_time", progress="decode_given", fits=AnythingFits()),
)
"""The mode `single_active_fcfs`, whatever else its configuration says."""


def batch_setup(config: LabConfig, records: Sequence[WorkloadRecord], *, names_deferred: bool) -> Setup:
    """The mode `continuous_batching`, for these requests."""
    step_tokens, pool, has_cache = config.max_batched_tokens, config.kv_cache, config.prefix_cache.enabled
    lengths = [record.prompt_token_count for record in records]
    return Setup(
        kv=BlocksSetup(
            num_blocks=pool.total_blocks,
            block_size=pool.block_size_tokens,
            is_cached=has_cache,
            release_refreshes=PUBLISHED.release_refreshes,
            deepest_first=PUBLISHED.deepest_first,
            has_heirs=PUBLISHED.has_heirs,
            shares_at_once=PUBLISHED.shares_at_once,
        ),
        ids=RequestIdsSetup(),
        planner=WholePromptsSetup(
            order="decodes_then_prompts" if config.scheduling_policy == "DecodeFirst" else "arrival_order",
            fewest_rows=0 if has_cache else min(lengths, default=0),
            oversized=max(lengths, default=0) > step_tokens,
        ),
        policy=NobodyYieldsSetup(),
        limits=LimitsSetup(
            num_rows=step_tokens,
            prefill_rows_per_seq=None,
            prefill_rows_per_step=None,
            headroom_per_sequence=0,
            num_sequences=config.max_num_sequences,
        ),
        rules=RulesSetup(progress="decode_given", fits=AnythingFits(), names_deferred=names_deferred),
    )


def batch_cost(config: LabConfig) -> BatchMicroseconds:
    """The cost model of the continuous mode."""
    costs = config.backend
    return BatchMicroseconds(
        base=costs.batch_base_us,
        prefill_row=costs.batch_prefill_per_token_us,
        decode_row=costs.batch_decode_per_sequence_us,
        sequence=costs.batch_active_sequence_overhead_us,
    )


def sequential_cost(config: LabConfig) -> PhaseMicroseconds:
    """The cost model of one request at a time."""
    costs = config.backend
    return PhaseMicroseconds(
        prefill_base=costs.prefill_base_us + costs.prefill_per_active_sequence_us,
        prefill_row=costs.prefill_per_token_us,
        decode_base=costs.decode_base_us + costs.decode_per_active_sequence_us,
    )
