"""The preset `mixed-decode`: the published simulator of rows and slots, on float milliseconds.

    fifo_context_pool     continuous starts    a call for each slot    each with n_batch rows of its own
    static_batching       all slots free       one call for all        n_batch rows together
    continuous_batching   continuous starts    one call for all        n_batch rows together

Everything is composed from objects of the scheduler; nothing here decides.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from arriero.core.errors import ConfigError, InvariantViolation
from arriero.core.events import Admitted, Finished
from arriero.core.ids import RequestId
from arriero.core.plan import DecodeRow
from arriero.core.request import BlankTokens, Request
from arriero.costmodel.models import CallMilliseconds, CostModel, SharedMilliseconds
from arriero.metrics.mixed_decode import MixedCost, MixedIteration, MixedLife, MixedPolicy, MixedRequest, MixedRun
from arriero.record.journal_schema import TimeLine
from arriero.record.journal_setup import (
    BySlotSetup,
    CallsApartSetup,
    FirstComeSetup,
    LimitsSetup,
    LowestFirstSetup,
    PlacesSetup,
    RulesSetup,
    Setup,
)
from arriero.sim.composition import build_scheduler
from arriero.sim.journal import SimulationJournal
from arriero.sim.mixed_checks import MixedChecks
from arriero.sim.simulator import ArrivalInbox, NoAnswers, SimulatedStep, Simulator


class MixedSetup(NamedTuple):
    """What a run is composed from."""

    policy: MixedPolicy
    num_slots: int
    n_batch: int
    cost: MixedCost

    def scheduler_setup(self) -> Setup:
        """What the scheduler is built from."""
        is_pool = self.policy is MixedPolicy.FIFO
        is_static = self.policy is MixedPolicy.STATIC
        return Setup(
            kv=PlacesSetup(num_sequences=self.num_slots),
            ids=LowestFirstSetup(),
            planner=CallsApartSetup() if is_pool else BySlotSetup(),
            policy=FirstComeSetup(),
            limits=LimitsSetup(
                num_rows=self.n_batch * self.num_slots if is_pool else self.n_batch,
                prefill_rows_per_seq=self.n_batch if is_pool else None,
                prefill_rows_per_step=None,
                headroom_per_sequence=0,
            ),
            rules=RulesSetup(start="all_slots_free" if is_static else "continuous", progress="decode_given"),
        )

    def new_cost(self) -> CostModel:
        """The cost model of the policy."""
        call = SharedMilliseconds(
            base=self.cost.base,
            prompt_row=self.cost.prompt_token,
            decode_row=self.cost.decode_token,
            active_slot=self.cost.active_slot,
            stream_emit=self.cost.stream_emit,
        )
        return CallMilliseconds(call) if self.policy is MixedPolicy.FIFO else call


def run_mixed_decode(
    policy: MixedPolicy,
    requests: Sequence[MixedRequest],
    *,
    num_slots: int,
    n_batch: int,
    cost: MixedCost,
    journal: SimulationJournal | None = None,
) -> MixedRun:
    """Run one policy on one workload; every invariant is checked in every iteration. A journal is written beside.

    Raises:
        ConfigError: the slots or rows cannot serve anybody.
        InvariantViolation: a rule of the published simulator broke.
    """
    if num_slots < 1 or n_batch < num_slots:
        message = f"{num_slots} slots and n_batch {n_batch}: use at least one slot, and a row for each"
        raise ConfigError(message)
    setup = MixedSetup(policy, num_slots, n_batch, cost)
    recorder = _Recorder(setup, requests)
    steps = mixed_steps(setup, requests)
    if journal is not None:
        steps = journal.follow(steps, setup.scheduler_setup(), TimeLine.MILLISECONDS)
    for step in steps:
        recorder.add(step)
    return recorder.run()


def mixed_steps(setup: MixedSetup, requests: Sequence[MixedRequest]) -> Iterator[SimulatedStep]:
    """The passes of one run, by the scheduler's own rules only."""
    scheduler = build_scheduler(setup.scheduler_setup())
    simulator = Simulator(scheduler=scheduler, cost=setup.new_cost(), answers=NoAnswers(), check=True)
    ordered = sorted(requests, key=lambda each: (each.arrival_ms, each.request_id))
    return simulator.run_from(ArrivalInbox(map(_request, ordered)), 0.0)


def _request(each: MixedRequest) -> Request:
    return Request(
        request_id=RequestId(each.request_id),
        prompt=BlankTokens(each.prompt_tokens),
        max_tokens=each.decode_tokens,
        arrival_at=each.arrival_ms,
    )


class _Recorder:
    """Turns steps into iterations and lives."""

    def __init__(self, setup: MixedSetup, requests: Sequence[MixedRequest]) -> None:
        self._checks = MixedChecks(setup.policy, num_slots=setup.num_slots, n_batch=setup.n_batch, requests=requests)
        self._requests = {each.request_id: each for each in requests}
        self._cost = setup.new_cost()
        self._assigned: dict[int, float] = {}
        self._first: dict[int, float] = {}
        self._finish: dict[int, float] = {}
        self._iterations: list[MixedIteration] = []

    def add(self, step: SimulatedStep) -> None:
        """Record a step; one without rows is a jump over idle time and no iteration."""
        if step.outcome is None:
            return
        self._checks.step(step)
        admitted = [event.request.request_id for event in step.events if isinstance(event, Admitted)]
        finished = [event.request.request_id for event in step.events if isinstance(event, Finished)]
        self._assigned.update(dict.fromkeys(admitted, step.began_at))
        self._finish.update(dict.fromkeys(finished, step.ended_at))
        for row in step.plan.rows:
            if isinstance(row, DecodeRow):
                self._first.setdefault(row.request.request_id, step.ended_at)
        shape = step.plan.shape
        self._iterations.append(
            MixedIteration(
                start_ms=step.began_at,
                end_ms=step.ended_at,
                prefill_rows=shape.prefill_rows,
                decode_rows=shape.decode_rows,
                active_slots=shape.num_running,
                decode_calls=len(shape.calls) or 1,
                cost_ms=self._cost.step_time(shape),
                admitted=len(admitted),
                completed=len(finished),
            )
        )

    def run(self) -> MixedRun:
        """Everything, once the loop has ended."""
        self._checks.end(self._iterations)
        lives = (
            MixedLife(self._requests[each], self._assigned[each], self._first[each], self._finish[each])
            for each in sorted(self._requests)
        )
        run = MixedRun(tuple(lives), tuple(self._iterations))
        if any(life.first_token_ms < life.assigned_at_ms or life.finish_ms < life.first_token_ms for life in run.lives):
            raise InvariantViolation("a request got its first token before its slot, or ended before its first token")
        return run
