"""A run in arriero's own mode: the scheduler of the engine, in virtual time."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from arriero.core.events import Preempted
from arriero.core.ids import RequestId
from arriero.core.plan import DecodeRow, PrefillChunk
from arriero.core.request import BlankTokens, Request
from arriero.kv.blocks import BlockManager
from arriero.metrics.steps import StepTally
from arriero.record.sim_rows import Deferred, SimRequestRow, SimTotals, StepRow
from arriero.record.simulation_config import Blocks, SimulationConfig, Trace
from arriero.sim.own_lives import OwnLives
from arriero.sim.own_memory import Fullness, MemoryGauge
from arriero.sim.own_setup import new_cost, new_kv, new_scheduler
from arriero.sim.simulator import ArrivalInbox, NoAnswers, SimulatedStep, Simulator
from arriero.workload.records import WorkloadRecord, numbered


def run_simulation(
    config: SimulationConfig, records: Sequence[WorkloadRecord], *, check: bool = False
) -> Iterator[StepRow | SimRequestRow | SimTotals]:
    """Step rows as the trace level says, then request rows by internal id, then the totals.

    Without step rows, runs of equal decode steps are jumped over; everything else is the same. With `check` every
    invariant is verified after every step.

    Raises:
        ConfigError: the parts do not go together.
        DataError: a time leaves its 64 bits.
    """
    kv, cost = new_kv(config), new_cost(config)
    scheduler = new_scheduler(config, kv)
    gauge = MemoryGauge(kv)
    simulator = Simulator(
        scheduler=scheduler,
        cost=cost,
        answers=NoAnswers(),
        check=check,
        jumps=config.trace == "off" and cost.is_level,
        on_plan=gauge.look,
    )
    return _rows(config, simulator, gauge, kv if isinstance(kv, BlockManager) else None, numbered(records))


def _rows(
    config: SimulationConfig,
    simulator: Simulator,
    gauge: MemoryGauge,
    blocks: BlockManager | None,
    ordered: Sequence[WorkloadRecord],
) -> Iterator[StepRow | SimRequestRow | SimTotals]:
    has_cache = isinstance(config.kv, Blocks) and config.kv.prefix_cache
    requests = (_request(number, record, is_cached=has_cache) for number, record in enumerate(ordered, start=1))
    lives = OwnLives(ordered, has_cache=has_cache)
    tally = StepTally(config.limits.rows, gauge.size, gauge.tokens_per_place)
    ended_at, spent = 0, _TimeSpent(tally, gauge)
    for step in simulator.run_from(ArrivalInbox(requests)):
        ended_at = int(step.ended_at)
        spent.add(step)
        lives.add(step)
        if step.outcome is not None and config.trace != "off":
            yield _step_row(step, gauge, config.trace)
    yield from lives.rows()
    yield SimTotals(ended_at, tally.figures(), 0 if blocks is None else blocks.counts.evictions)


class _TimeSpent:
    """Tells a tally what each stretch of time was spent on; an idle one is known when the next step begins."""

    def __init__(self, tally: StepTally, gauge: MemoryGauge) -> None:
        self._tally = tally
        self._gauge = gauge
        self._idle: SimulatedStep | None = None
        self._idle_full = Fullness(0, 0)

    def add(self, step: SimulatedStep) -> None:
        """Count a step, and the idle time before it."""
        if self._idle is not None:
            held, tokens = self._idle_full
            duration = int(step.began_at - self._idle.ended_at)
            self._tally.idle(duration, waiting=self._idle.plan.num_waiting, kv_held=held, kv_tokens=tokens)
            self._idle = None
        if step.outcome is None:
            self._idle, self._idle_full = step, self._gauge.now()
            return
        plan, before = step.plan, int(step.began_at)
        num_rows, num_sequences = plan.shape.num_rows, len(plan.rows)
        for end, full in zip(map(int, step.ends), self._gauge.during(num_rows, len(step.ends)), strict=True):
            self._tally.step(
                end - before,
                rows=num_rows,
                sequences=num_sequences,
                waiting=plan.num_waiting,
                kv_held=full.held,
                kv_tokens=full.tokens,
            )
            before = end


def _step_row(step: SimulatedStep, gauge: MemoryGauge, trace: Trace) -> StepRow:
    plan = step.plan
    row = StepRow(
        began_at_us=int(step.began_at),
        decode_rows=plan.shape.decode_rows,
        deferred={str(reason): plan.deferrals[reason] for reason in sorted(plan.deferrals)},
        ended_at_us=int(step.ended_at),
        kv_held=gauge.now().held,
        num_running=plan.shape.num_running,
        num_waiting=plan.num_waiting,
        preempted=sum(isinstance(event, Preempted) for event in step.events),
        prefill_rows=plan.shape.prefill_rows,
        step=plan.step,
    )
    if trace != "full":
        return row
    return replace(
        row,
        decode_ids=[each.request.request_id for each in plan.rows if isinstance(each, DecodeRow)],
        deferred_ids=[Deferred(reason=str(each.reason), request_id=each.request_id) for each in plan.deferred],
        prefill_ids=[each.request.request_id for each in plan.rows if isinstance(each, PrefillChunk)],
    )


def _request(number: int, record: WorkloadRecord, *, is_cached: bool) -> Request:
    exact = record.prompt_tokens if is_cached else None
    return Request(
        request_id=RequestId(number),
        prompt=BlankTokens(record.prompt_token_count) if exact is None else tuple(exact),
        max_tokens=record.max_new_tokens,
        arrival_at=record.arrival_time_us,
        cache_scope=None if exact is None else "",
    )
