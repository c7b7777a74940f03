"""The preset `serving-lab`: the published simulator of blocks and a prefix cache, on whole microseconds.

    single_active_fcfs     one at a time, no memory limit, costs of a request alone
    continuous_batching    decode rows first or everything in arrival order, whole prompts, blocks, costs of a batch

Everything is composed from objects of the scheduler; nothing here decides. What is known to be wrong in the published
simulator is kept, except that it crashed where a canonical block was evicted beside a duplicate in use.
"""

from collections.abc import Iterator, Sequence

from arriero.core.errors import DataError
from arriero.core.ids import RequestId
from arriero.core.request import BlankTokens, Request
from arriero.kv.blocks import BlockManager
from arriero.record.journal_setup import Setup
from arriero.record.lab_config import FCFS_MODE, LabConfig
from arriero.record.lab_rows import LabRow
from arriero.scheduler.whole_prompts import OversizedPrompt
from arriero.sim.composition import build_memory, build_scheduler
from arriero.sim.journal import SimulationJournal
from arriero.sim.lab_iterations import IterationRows
from arriero.sim.lab_lives import LabLives
from arriero.sim.lab_setup import SEQUENTIAL, batch_cost, batch_setup, sequential_cost
from arriero.sim.lab_totals import BatchTotals, sequential_summary
from arriero.sim.simulator import ArrivalInbox, NoAnswers, SimulatedStep, Simulator, always
from arriero.workload.records import WorkloadRecord, numbered


class RefusedRun(DataError):
    """One request refuses a whole run.

    Attributes:
        number: its internal id.
    """

    def __init__(self, message: str, number: int) -> None:
        """Keep the request beside the message."""
        super().__init__(message, field="prompt_token_count")
        self.number = number


def run_serving_lab(
    config: LabConfig,
    records: Sequence[WorkloadRecord],
    *,
    with_iterations: bool = True,
    check: bool = False,
    journal: SimulationJournal | None = None,
) -> Iterator[LabRow]:
    """Iteration rows as they happen, then request rows by internal id, then the summary row.

    Args:
        config: the run.
        records: the workload in any order.
        with_iterations: without them all other rows are the same.
        check: verify every invariant after every step.
        journal: is written beside.

    Raises:
        RefusedRun: a prompt is longer than a step. DataError: a time leaves its 64 bits.
    """
    ordered = numbered(records)
    if config.execution_mode == FCFS_MODE:
        return _run_sequential(config, _Run(ordered, is_cached=False, check=check, journal=journal))
    _refuse_long_prompts(config, ordered)
    run = _Run(ordered, is_cached=config.prefix_cache.enabled, check=check, journal=journal)
    return _run_batches(config, run, with_iterations=with_iterations)


class _Run:
    """The requests of one run, and how it is watched."""

    def __init__(
        self,
        ordered: Sequence[WorkloadRecord],
        *,
        is_cached: bool,
        check: bool,
        journal: SimulationJournal | None,
    ) -> None:
        self.ordered = ordered
        self.check = check
        self._is_cached = is_cached
        self._journal = journal

    def steps(self, simulator: Simulator, setup: Setup) -> Iterator[SimulatedStep]:
        """The passes of a simulator whose scheduler was built from `setup`."""
        numbered_records = enumerate(self.ordered, start=1)
        requests = (_request(number, record, is_cached=self._is_cached) for number, record in numbered_records)
        steps = simulator.run_from(ArrivalInbox(requests))
        steps = self._named(steps)
        if self._journal is None:
            return steps
        num_tokens = sum(len(record.prompt_tokens or ()) for record in self.ordered)
        return self._journal.follow(steps, setup, max_runs=max(1, len(self.ordered)), max_tokens=max(1, num_tokens))

    def _named(self, steps: Iterator[SimulatedStep]) -> Iterator[SimulatedStep]:
        try:
            yield from steps
        except OversizedPrompt as error:
            name = self.ordered[error.request_id - 1].request_id
            raise RefusedRun(f"request {name!a}: {error}", error.request_id) from None


def _run_sequential(config: LabConfig, run: _Run) -> Iterator[LabRow]:
    simulator = Simulator(
        scheduler=build_scheduler(SEQUENTIAL),
        cost=sequential_cost(config),
        answers=NoAnswers(),
        jumps=always,
        check=run.check,
    )
    lives = LabLives(run.ordered)
    for step in run.steps(simulator, SEQUENTIAL):
        lives.add(step)
    yield from lives.rows()
    yield sequential_summary(lives)


def _run_batches(config: LabConfig, run: _Run, *, with_iterations: bool) -> Iterator[LabRow]:
    setup = batch_setup(config, run.ordered, names_deferred=with_iterations)
    kv = build_memory(setup)
    assert isinstance(kv, BlockManager), "the setup says blocks"
    lives, totals = LabLives(run.ordered), BatchTotals(config)
    rows = IterationRows(config, kv) if with_iterations else None
    simulator = Simulator(
        scheduler=build_scheduler(setup, kv),
        cost=batch_cost(config),
        answers=NoAnswers(),
        jumps=always,
        stops_when_stalled=True,
        check=run.check,
        on_jump=None if rows is None else rows.look,
    )
    for step in run.steps(simulator, setup):
        if rows is not None:
            yield from rows.add(step)
        lives.add(step)
        totals.add(step)
    yield from lives.rows()
    yield totals.summary(lives, kv)


def _request(number: int, record: WorkloadRecord, *, is_cached: bool) -> Request:
    exact = record.prompt_tokens if is_cached else None
    return Request(
        request_id=RequestId(number),
        prompt=BlankTokens(record.prompt_token_count) if exact is None else tuple(exact),
        max_tokens=record.max_new_tokens,
        arrival_at=record.arrival_time_us,
        cache_scope=None if exact is None else "",
    )


def _refuse_long_prompts(config: LabConfig, ordered: Sequence[WorkloadRecord]) -> None:
    limit = config.max_batched_tokens
    for number, record in enumerate(ordered, start=1):
        is_exact = config.prefix_cache.enabled and record.prompt_tokens is not None
        if record.prompt_token_count > limit and not is_exact:
            message = (
                f"request {record.request_id!a}: prompt_token_count exceeds max_batched_tokens; chunked prefill is not "
                f"implemented: {record.prompt_token_count} above {limit}; raise max_batched_tokens"
            )
            raise RefusedRun(message, number)
