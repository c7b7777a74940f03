"""A scheduler that is short of cells or slots, whose answers count their tokens, for tests of who yields."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from arriero.core.events import (
    Admitted,
    Event,
    Finished,
    KvOp,
    Preempted,
    TokenEmitted,
    harmed_sequence,
)
from arriero.core.ids import RequestId
from arriero.core.plan import BatchPlan, NoRoom, Sampled, StepOutcome
from arriero.core.request import FinishReason, Request
from arriero.kv.cells import CellLayout, CellManager
from arriero.kv.reuse import ReuseRules
from arriero.scheduler.admission import AtMost
from arriero.scheduler.draft import UNMETERED, PrefillBudget
from arriero.scheduler.invariants import check_scheduler
from arriero.scheduler.planners import DecodeFirst, PhasesApart
from arriero.scheduler.policies import FirstComeFirstServed, Policy
from arriero.scheduler.preemption import SwapRule
from arriero.scheduler.rules import SchedulerLimits, SchedulerRules
from arriero.scheduler.scheduler import Scheduler
from arriero.scheduler.starts import Following
from arriero.testing.simulation import count_up

ALWAYS: Final = SwapRule(row_time=1, answer_row_time=1)
EventT = TypeVar("EventT", bound=Event)


def sampled(plan: BatchPlan, *refused: KvOp) -> Sampled:
    """Every row gets the number of its token, but for those that a refused operation harmed."""
    harmed = {harmed_sequence(op) for op in refused}
    rows = [row for row in plan.rows if row.wants_logits and row.sequence_id not in harmed]
    return Sampled(tokens={row.sequence_id: count_up(row) for row in rows}, refused=refused)


def no_room(refused: tuple[KvOp, ...], plan: BatchPlan) -> NoRoom:
    """Memory is full, whatever was planned."""
    del plan
    return NoRoom(refused=refused)


@dataclass
class Pool:
    """A scheduler over a pool of 24 cells, or over streams; every answer counts its tokens from 0."""

    swap: SwapRule | None = ALWAYS
    swap_tokens: int = 100
    num_cells: int = 24
    budget: PrefillBudget = UNMETERED
    reuse: ReuseRules | None = None
    num_sequences: int = 4
    most_running: int | None = None
    max_chunk: int | None = None
    policy: Policy = field(default_factory=FirstComeFirstServed)
    displaces: bool = False
    num_steps: int = 0
    computed_plans: list[BatchPlan] = field(default_factory=list[BatchPlan])
    events: list[Event] = field(default_factory=list[Event])

    def __post_init__(self) -> None:
        unified = self.max_chunk is None
        limit = self.num_cells if unified else self.num_cells // self.num_sequences
        layout = CellLayout(
            num_sequences=self.num_sequences, num_cells=self.num_cells, sequence_limit=limit, unified=unified
        )
        starts = Following(min_rows=2) if self.reuse is not None else None
        self.scheduler = Scheduler(
            kv=CellManager(layout, reuse=self.reuse, swap_tokens=self.swap_tokens),
            planner=DecodeFirst(starts) if unified else PhasesApart(max_chunk=self.max_chunk or 0, starts=starts),
            policy=self.policy,
            limits=SchedulerLimits(num_rows=32, budget=self.budget, headroom_per_sequence=0),
            rules=SchedulerRules(
                start=AtMost(self.most_running or self.num_sequences),
                swap=self.swap,
                reuse=self.reuse,
                displaces=self.displaces,
            ),
        )

    def submit(self, *requests: Request) -> None:
        for each in requests:
            self.events += self.scheduler.submit(each, self.num_steps)

    def step(self, come: Callable[[BatchPlan], StepOutcome] = sampled) -> BatchPlan:
        plan = self.scheduler.plan(self.num_steps)
        self.num_steps += 1
        self.events += plan.events
        if plan.rows:
            outcome = come(plan)
            self.events += self.scheduler.commit(outcome, self.num_steps)
            self.computed_plans += [plan] if isinstance(outcome, Sampled) else []
        check_scheduler(self.scheduler)
        return plan

    def serve(self, *requests: Request) -> None:
        """To the end of all."""
        self.submit(*requests)
        while self.scheduler.has_work:
            self.step()
            assert self.num_steps < 300, "nobody gets on"
        usage = self.scheduler.snapshot().kv
        assert (usage.active_cells, usage.swapped_tokens, usage.swapped_requests) == (0, 0, 0)

    def serve_until_one_yields(self) -> Preempted:
        """Three requests, until cells run out for the first time."""
        self.submit(*three())
        while not self.of(Preempted):
            self.step()
        return self.of(Preempted)[0]

    def of(self, kind: type[EventT]) -> list[EventT]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def ends(self) -> dict[int, FinishReason]:
        return {event.request.request_id: event.reason for event in self.of(Finished)}

    @property
    def back(self) -> list[Admitted]:
        """Starts after a preemption."""
        return [event for event in self.of(Admitted) if event.resumed]

    def answer(self, request_id: int) -> list[int]:
        return [event.token for event in self.of(TokenEmitted) if event.request_id == request_id]

    def computed(self, request_id: int) -> list[int]:
        """Positions, in the order in which they were computed."""
        rows = [row for plan in self.computed_plans for row in plan.rows if row.request.request_id == request_id]
        return [position for row in rows for position in range(row.start, row.start + row.num_rows)]

    def has_served_three(self) -> bool:
        """Whether `three` got their whole answers."""
        return [self.answer(number) for number in (1, 2, 3)] == [list(range(10))] * 3


def request(
    request_id: int,
    *,
    prompt: Sequence[int] = (1, 2, 3, 4),
    max_tokens: int = 10,
    expires_at: int | None = None,
    scope: str | None = None,
    priority: int = 0,
) -> Request:
    return Request(
        request_id=RequestId(request_id),
        prompt=tuple(prompt),
        max_tokens=max_tokens,
        arrival_at=0,
        expires_at=expires_at,
        cache_scope=scope,
        priority=priority,
    )


def three() -> list[Request]:
    """Each needs 13 cells in the end."""
    return [request(number) for number in (1, 2, 3)]
