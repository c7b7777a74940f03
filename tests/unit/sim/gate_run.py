"""A small driver over the scheduler's verbs, for tests that count steps: no clock but the step number."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from arriero.core.events import (
    AdmissionSource,
    Admitted,
    CancelById,
    CancelIgnored,
    CancelObserved,
    CancelTarget,
    DropSequence,
    Event,
    Finished,
    Queued,
    Rejected,
    TokenEmitted,
)
from arriero.core.ids import Epoch, RequestId
from arriero.core.plan import BatchPlan
from arriero.core.request import Request
from arriero.kv.cells import CellLayout, CellManager
from arriero.kv.sequence_ids import PooledIds
from arriero.scheduler.draft import UNMETERED, PrefillBudget
from arriero.scheduler.invariants import check_scheduler
from arriero.scheduler.planners import DecodeFirst
from arriero.scheduler.policies import FirstComeFirstServed
from arriero.scheduler.rules import SchedulerLimits
from arriero.scheduler.scheduler import Scheduler
from arriero.sim.simulator import Answers
from arriero.testing.simulation import CountingAnswers

PROMPT = (1, 2, 3, 4, 5, 6)
BUDGETS = (8, 64, 256)


@dataclass
class Life:
    """What became of one request."""

    admitted: Admitted | None = None
    tokens: list[int] = field(default_factory=list)
    token_steps: list[int] = field(default_factory=list)
    observed: CancelObserved | None = None
    finished: Finished | None = None

    @property
    def end(self) -> Finished:
        """The end, which must have come."""
        assert self.finished is not None, "the request has not ended"
        return self.finished

    @property
    def start(self) -> Admitted:
        """The admission, which must have come."""
        assert self.admitted is not None, "the request was not admitted"
        return self.admitted

    @property
    def pos_max(self) -> int:
        """Highest position in KV when its sequence was cleared."""
        return self.end.num_computed - 1


@dataclass
class GateRun:
    """Steps until nothing is left, or nothing can go on; `boundary` is called before each plan with the last step."""

    scheduler: Scheduler
    answers: Answers = field(default_factory=CountingAnswers)
    lives: dict[int, Life] = field(default_factory=dict)
    plans: list[BatchPlan] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    step: int = 0

    def submit(self, request_id: int, max_tokens: int, *, preloaded: bool = False, prompt: tuple[int, ...] = PROMPT,
               epoch: int = 0) -> None:  # fmt: skip
        """Hand over a request."""
        request = Request(
            request_id=RequestId(request_id), prompt=prompt, max_tokens=max_tokens, arrival_at=self.step,
            epoch=Epoch(epoch), preloaded=preloaded,
        )  # fmt: skip
        self._hear(self.scheduler.submit(request, self.step))

    def cancel(self, *request_ids: int) -> None:
        """Cancel by id."""
        for request_id in request_ids:
            self.post(CancelById(RequestId(request_id)))

    def post(self, target: CancelTarget) -> None:
        """Hand over any cancel."""
        self._hear(self.scheduler.cancel(target, self.step))

    def cancel_after(self, num_tokens: int, *request_ids: int) -> Callable[[int], None]:
        """A boundary that cancels each of these as soon as it has so many tokens."""
        left = set(request_ids)

        def boundary(_: int) -> None:
            for request_id in sorted(left):
                if request_id in self.lives and len(self.lives[request_id].tokens) == num_tokens:
                    left.remove(request_id)
                    self.cancel(request_id)

        return boundary

    def run(self, boundary: Callable[[int], None] = lambda _: None, *, max_steps: int = 2000) -> None:
        """Go on until a plan has no rows and nobody will change that."""
        for _ in range(max_steps):
            boundary(self.step)
            plan = self.one_step()
            if not plan.rows and plan.wake_at is None:
                return
        message = f"not at an end after {max_steps} steps"
        raise AssertionError(message)

    def one_step(self) -> BatchPlan:
        """Plan, answer, commit, check."""
        plan = self.scheduler.plan(self.step)
        self.plans.append(plan)
        self.step = plan.step
        self._hear(plan.events)
        if plan.rows:
            self._hear(self.scheduler.commit(self.answers.to(plan), self.step))
        check_scheduler(self.scheduler)
        return plan

    def plan_of(self, step: int) -> BatchPlan:
        """The plan of a step by its number."""
        return next(plan for plan in self.plans if plan.step == step)

    def prefill_rows(self, request_id: int) -> list[int]:
        """Rows of each chunk of a request."""
        return [
            row.num_rows
            for plan in self.plans
            for row in plan.rows
            if row.request.request_id == request_id and row.start < len(row.request.prompt)
        ]

    def admissions(self, source: AdmissionSource) -> Iterator[tuple[int, int, int]]:
        """(step, request id, sequence id) of each admission from a source, in order."""
        for event in self.events:
            if isinstance(event, Admitted) and event.source is source:
                yield event.step, event.request.request_id, event.sequence_id

    def count(self, kind: type[Event]) -> int:
        """How many events of a kind were told."""
        return sum(isinstance(event, kind) for event in self.events)

    def _hear(self, events: tuple[Event, ...]) -> None:
        self.events += events
        for event in events:
            match event:
                case Queued(request):
                    self.lives[request.request_id] = Life()
                case Admitted(request):
                    self.lives[request.request_id].admitted = event
                case TokenEmitted(request_id):
                    self.lives[request_id].tokens.append(event.token)
                    self.lives[request_id].token_steps.append(event.step)
                case CancelObserved(request_id):
                    self.lives[request_id].observed = event
                case Finished(request=request):
                    self.lives[request.request_id].finished = event
                case Rejected() | CancelIgnored() | DropSequence():
                    pass
                case _:
                    message = f"unexpected: {event}"
                    raise AssertionError(message)


@dataclass
class Gate:
    """A run with the published pools, and the supply of ids itself, whose pools a gate may look at."""

    run: GateRun
    ids: PooledIds


def gate(
    num_sequences: int,
    *,
    num_preloaded: int = 0,
    reuse_completed: bool = False,
    num_rows: int = 1024,
    budget: PrefillBudget = UNMETERED,
    answers: Answers | None = None,
) -> Gate:
    """A scheduler as the gates of the published prototype have it: one large pool, no preemption."""
    ids = PooledIds(num_sequences, num_preloaded=num_preloaded, reuse_completed=reuse_completed)
    layout = CellLayout(num_sequences=num_sequences, num_cells=32_768, sequence_limit=32_768, unified=True)
    scheduler = Scheduler(
        kv=CellManager(layout, ids),
        planner=DecodeFirst(),
        policy=FirstComeFirstServed(),
        limits=SchedulerLimits(num_rows=num_rows, budget=budget),
    )
    return Gate(GateRun(scheduler, answers if answers is not None else CountingAnswers()), ids)


def preload_mix(run: GateRun, num_requests: int) -> None:
    """Preloaded requests 0 ... with budgets 8, 64, 256 in turn."""
    for request_id in range(num_requests):
        run.submit(request_id, BUDGETS[request_id % 3], preloaded=True)
