"""Runs in virtual time under one policy: 10 ms a step, 1 ms a prompt row; times are microseconds."""

from collections.abc import Sequence
from dataclasses import dataclass

from arriero.core.events import Admitted, Event, Finished, Preempted, Queued, TokenEmitted
from arriero.core.ids import RequestId, Time
from arriero.core.request import Request
from arriero.kv.cells import CellLayout, CellManager
from arriero.kv.reuse import ReuseRules
from arriero.metrics.promotions import Promotions
from arriero.scheduler.admission import AtMost
from arriero.scheduler.draft import PrefillBudget
from arriero.scheduler.planners import DecodeFirst, PhasesApart
from arriero.scheduler.policies import Policy
from arriero.scheduler.rules import SchedulerLimits, SchedulerRules
from arriero.scheduler.scheduler import Scheduler
from arriero.scheduler.starts import Starts
from arriero.sim.simulator import Message, SimulatedStep, Simulator, Submission
from arriero.testing.simulation import CountingAnswers, LinearCost

MS = 1000
COST = LinearCost(10 * MS, per_prefill_row=MS)


def ask(
    request_id: int,
    prompt: int | tuple[int, ...] = 4,
    max_tokens: int = 4,
    at: Time = 0,
    *,
    priority: int = 0,
    deadline_at: Time | None = None,
    tenant: str | None = None,
    cache_scope: str | None = None,
) -> Request:
    """A request; a prompt of which only the length is given shares nothing with others."""
    tokens = (1000 + request_id, *range(prompt - 1)) if isinstance(prompt, int) else prompt
    return Request(
        request_id=RequestId(request_id),
        prompt=tokens,
        max_tokens=max_tokens,
        arrival_at=at,
        priority=priority,
        deadline_at=deadline_at,
        tenant=tenant,
        cache_scope=cache_scope,
    )


@dataclass(frozen=True)
class Run:
    """What came of it."""

    steps: list[SimulatedStep]

    @property
    def events(self) -> list[Event]:
        return [event for step in self.steps for event in step.events]

    @property
    def started(self) -> list[int]:
        """Requests in the order in which they took a slot, those that resume left out."""
        return [e.request.request_id for e in self.events if isinstance(e, Admitted) and not e.resumed]

    @property
    def yielded(self) -> list[int]:
        return [e.request_id for e in self.events if isinstance(e, Preempted)]

    @property
    def first_tokens(self) -> list[int]:
        """Requests in the order of their first tokens."""
        return [e.request_id for e in self.events if isinstance(e, TokenEmitted) and e.index == 0]

    def first_step(self, request_id: int) -> int:
        """The step that gave the first token."""
        return next(e.step for e in self.events if isinstance(e, TokenEmitted) and e.request_id == request_id)

    def start_of(self, request_id: int) -> Time:
        return next(e.at for e in self.events if isinstance(e, Admitted) and e.request.request_id == request_id)

    def answers(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for event in self.events:
            if isinstance(event, TokenEmitted):
                found.setdefault(event.request_id, []).append(event.token)
        return found

    def num_promoted(self) -> int:
        """Starts while somebody more urgent was waiting, as the metrics count them."""
        promotions, found = Promotions(), 0
        for event in self.events:
            if isinstance(event, Queued):
                promotions.came(event.request.priority)
            elif isinstance(event, Admitted):
                found += promotions.started(event.request.priority)
        return found

    def num_ended(self) -> int:
        return sum(isinstance(event, Finished) for event in self.events)


def new_scheduler(
    policy: Policy,
    *,
    slots: int = 1,
    num_cells: int = 4096,
    sequence_limit: int = 1024,
    starts: Starts | None = None,
    reuse: ReuseRules | None = None,
    per_step: int | None = None,
    per_sequence: int | None = None,
    exact: bool = False,
) -> Scheduler:
    """A scheduler of one pool of cells, with ids for retained runs beside the slots."""
    num_sequences = slots + (8 if reuse is not None else 0)
    layout = CellLayout(
        num_sequences=num_sequences, num_cells=num_cells, sequence_limit=min(sequence_limit, num_cells), unified=True
    )
    return Scheduler(
        kv=CellManager(layout, reuse=reuse),
        planner=PhasesApart(max_chunk=64, starts=starts) if exact else DecodeFirst(starts),
        policy=policy,
        limits=SchedulerLimits(
            num_rows=64, budget=PrefillBudget(per_sequence=per_sequence, per_step=per_step), headroom_per_sequence=0
        ),
        rules=SchedulerRules(start=AtMost(slots), reuse=reuse),
    )


def run(scheduler: Scheduler, requests: Sequence[Request | Message]) -> Run:
    """Until nothing is left; every invariant is checked after every step."""
    messages: list[Message] = [Submission(each) if isinstance(each, Request) else each for each in requests]
    simulator = Simulator(scheduler=scheduler, cost=COST, answers=CountingAnswers(), check=True)
    steps = list(simulator.run(messages))
    assert not scheduler.has_work, "requests are stalled"
    return Run(steps)
