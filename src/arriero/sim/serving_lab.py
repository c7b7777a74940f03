"""The preset `serving-lab`: the published simulator of blocks and a prefix cache, on whole microseconds.

    single_active_fcfs     one at a time, no memory limit, costs of a request alone
    continuous_batching    decode rows first or everything in arrival order, whole prompts, blocks, costs of a batch

Everything is composed from objects of the scheduler; nothing here decides. What is known to be wrong in the published
simulator is kept, except that it crashed where a canonical block was evicted beside a duplicate in use.
"""

import sys
from collections.abc import Iterator, Sequence

from arriero.core.errors import DataError
from arriero.core.ids import RequestId
from arriero.core.request import BlankTokens, Request
from arriero.costmodel.models import BatchMicroseconds, PhaseMicroseconds
from arriero.kv.block_figures import PUBLISHED
from arriero.kv.blocks import BlockManager
from arriero.kv.places import PlaceManager
from arriero.prefix.content import ContentIndex
from arriero.prefix.protocol import PrefixIndex
from arriero.record.lab_config import FCFS_MODE, LabConfig
from arriero.record.lab_rows import LabRow
from arriero.scheduler.admission import Continuous, OneAtATime
from arriero.scheduler.decode_given import DecodeGiven
from arriero.scheduler.policies import NobodyYields
from arriero.scheduler.scheduler import Scheduler, SchedulerLimits, SchedulerRules
from arriero.scheduler.whole_prompts import ArrivalOrder, DecodesThenPrompts, PromptBounds
from arriero.sim.lab_iterations import IterationRows
from arriero.sim.lab_lives import LabLives
from arriero.sim.lab_totals import BatchTotals, sequential_summary
from arriero.sim.simulator import ArrivalInbox, NoAnswers, SimulatedStep, Simulator
from arriero.workload.records import WorkloadRecord, numbered


def run_serving_lab(
    config: LabConfig, records: Sequence[WorkloadRecord], *, with_iterations: bool = True, check: bool = False
) -> Iterator[LabRow]:
    """Iteration rows as they happen, then request rows by internal id, then the summary row.

    Args:
        config: the run.
        records: the workload in any order.
        with_iterations: without them, runs of equal decode steps are jumped over; all other rows are the same.
        check: verify every invariant after every step.

    Raises:
        DataError: the whole run is refused: a prompt is longer than a step, or a time leaves its 64 bits.
    """
    ordered = numbered(records)
    if config.execution_mode == FCFS_MODE:
        return _run_sequential(config, ordered, check=check)
    _refuse_long_prompts(config, ordered)
    return _run_batches(config, ordered, with_iterations=with_iterations, check=check)


def _run_sequential(config: LabConfig, ordered: Sequence[WorkloadRecord], *, check: bool) -> Iterator[LabRow]:
    costs = config.backend
    simulator = Simulator(
        scheduler=Scheduler(
            kv=PlaceManager(1),
            planner=DecodesThenPrompts(),
            policy=NobodyYields(),
            limits=SchedulerLimits(num_rows=sys.maxsize, headroom_per_sequence=0),
            rules=SchedulerRules(fits=_anything_fits, start=OneAtATime(), progress=DecodeGiven),
        ),
        cost=PhaseMicroseconds(
            prefill_base=costs.prefill_base_us + costs.prefill_per_active_sequence_us,
            prefill_row=costs.prefill_per_token_us,
            decode_base=costs.decode_base_us + costs.decode_per_active_sequence_us,
        ),
        answers=NoAnswers(),
        jumps=True,
        check=check,
    )
    lives = LabLives(ordered)
    for step in _steps(simulator, ordered, is_cached=False):
        lives.add(step)
    yield from lives.rows()
    yield sequential_summary(lives)


def _run_batches(
    config: LabConfig, ordered: Sequence[WorkloadRecord], *, with_iterations: bool, check: bool
) -> Iterator[LabRow]:
    kv = new_blocks(config)
    simulator = Simulator(
        scheduler=new_scheduler(config, ordered, kv, names_deferred=with_iterations),
        cost=batch_cost(config),
        answers=NoAnswers(),
        jumps=not with_iterations,
        stops_when_stalled=True,
        check=check,
    )
    lives, totals = LabLives(ordered), BatchTotals(config)
    rows = IterationRows(config, kv) if with_iterations else None
    for step in _steps(simulator, ordered, is_cached=config.prefix_cache.enabled):
        if rows is not None:
            yield from rows.add(step)
        lives.add(step)
        totals.add(step)
    yield from lives.rows()
    yield totals.summary(lives, kv)


def new_blocks(config: LabConfig, index: PrefixIndex | None = None) -> BlockManager:
    """The memory of a configuration; `index` stands in for the usual one, which hashes nothing."""
    pool = config.kv_cache
    if not config.prefix_cache.enabled:
        return BlockManager(pool.total_blocks, pool.block_size_tokens, rules=PUBLISHED)
    if index is None:
        index = ContentIndex(pool.block_size_tokens)
    return BlockManager(pool.total_blocks, pool.block_size_tokens, index=index, rules=PUBLISHED)


def new_scheduler(
    config: LabConfig, records: Sequence[WorkloadRecord], kv: BlockManager, *, names_deferred: bool
) -> Scheduler:
    """A fresh scheduler of the continuous mode, for these requests."""
    step_tokens = config.max_batched_tokens
    lengths = [record.prompt_token_count for record in records]
    bounds = PromptBounds(
        fewest_rows=0 if config.prefix_cache.enabled else min(lengths, default=0),
        oversized=max(lengths, default=0) > step_tokens,
    )
    planner = DecodesThenPrompts(bounds) if config.scheduling_policy == "DecodeFirst" else ArrivalOrder(bounds)
    return Scheduler(
        kv=kv,
        planner=planner,
        policy=NobodyYields(),
        limits=SchedulerLimits(num_rows=step_tokens, headroom_per_sequence=0, num_sequences=config.max_num_sequences),
        rules=SchedulerRules(
            fits=_anything_fits, start=Continuous(), progress=DecodeGiven, names_deferred=names_deferred
        ),
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


def _steps(simulator: Simulator, ordered: Sequence[WorkloadRecord], *, is_cached: bool) -> Iterator[SimulatedStep]:
    requests = (_request(number, record, is_cached=is_cached) for number, record in enumerate(ordered, start=1))
    return simulator.run_from(ArrivalInbox(requests))


def _request(number: int, record: WorkloadRecord, *, is_cached: bool) -> Request:
    exact = record.prompt_tokens if is_cached else None
    return Request(
        request_id=RequestId(number),
        prompt=BlankTokens(record.prompt_token_count) if exact is None else tuple(exact),
        max_tokens=record.max_new_tokens,
        arrival_at=record.arrival_time_us,
        cache_scope=None if exact is None else "",
    )


def _anything_fits(request: Request, sequence_limit: int) -> None:
    """The published simulator refuses nobody: what can never fit waits until the run stalls."""
    del request, sequence_limit


def _refuse_long_prompts(config: LabConfig, ordered: Sequence[WorkloadRecord]) -> None:
    limit = config.max_batched_tokens
    for record in ordered:
        is_exact = config.prefix_cache.enabled and record.prompt_tokens is not None
        if record.prompt_token_count > limit and not is_exact:
            message = (
                f"request {record.request_id!a}: prompt_token_count exceeds max_batched_tokens; chunked prefill is not "
                f"implemented: {record.prompt_token_count} above {limit}; raise max_batched_tokens"
            )
            raise DataError(message, field="prompt_token_count")
