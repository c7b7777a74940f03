"""The order of one pass of the actor is a contract; this file pins it, phase by phase."""

from functools import partial
from itertools import groupby
from pathlib import Path

from arriero.core.events import CancelById, CancelTarget, Event
from arriero.core.ids import Epoch, RequestId, Time
from arriero.core.plan import BatchPlan, SimulatedOutcome
from arriero.core.request import Request
from arriero.engine.actor import PHASES, Actor, ActorOptions, Answer, Run, Settle, Wait
from arriero.engine.executor import Executor
from arriero.engine.handle import RequestHandle, Result
from arriero.engine.inbox import Cancel, Inbox, Submit
from arriero.engine.interrupter import Interrupter
from arriero.engine.observer import EngineSummary, Observers, StepRecord
from arriero.engine.open_requests import OpenRequests
from arriero.engine.step_control import StepControl
from arriero.kv.cells import CellLayout, CellManager
from arriero.scheduler.planners import DecodeFirst
from arriero.scheduler.policies import FirstComeFirstServed
from arriero.scheduler.rules import SchedulerLimits
from arriero.scheduler.scheduler import Scheduler
from arriero.testing.clock import ManualClock
from arriero.testing.fakes import ScriptedBackend

GOLDEN = Path(__file__).with_name("phase_order.txt")


class Noted(Scheduler):
    """A scheduler that writes each verb down."""

    phases: list[str]

    def submit(self, request: Request, now: Time) -> tuple[Event, ...]:
        self.phases.append("apply")
        return super().submit(request, now)

    def cancel(self, target: CancelTarget, now: Time) -> tuple[Event, ...]:
        self.phases.append("apply")
        return super().cancel(target, now)

    def plan(self, now: Time) -> BatchPlan:
        self.phases.append("plan")
        return super().plan(now)

    def commit(self, outcome: SimulatedOutcome, now: Time) -> tuple[Event, ...]:
        self.phases.append("commit")
        return super().commit(outcome, now)


class Recorder:
    """An observer that writes the end of each pass down."""

    def __init__(self, phases: list[str]) -> None:
        self._phases = phases

    def on_start(self, at: Time) -> None:
        """Not a phase."""

    def on_step(self, record: StepRecord) -> None:
        self._phases.append(f"record step {record.plan.step}")

    def on_end(self, result: Result) -> None:
        """Not a phase."""

    def on_close(self, summary: EngineSummary) -> None:
        """Not a phase."""


def submission(request: Request, epoch: Epoch) -> Submit:
    return Submit(request, RequestHandle(request.request_id, epoch, None, lambda _: None))


def one_life() -> list[str]:
    """One request of three tokens and one that is cancelled, driven by hand; every phase in order."""
    backend, inbox, phases = ScriptedBackend(), Inbox(), list[str]()
    limits = backend.limits
    layout = CellLayout(
        num_sequences=limits.num_sequences,
        num_cells=limits.num_cells,
        sequence_limit=limits.sequence_limit,
        unified=limits.unified,
    )
    scheduler = Noted(
        kv=CellManager(layout),
        planner=DecodeFirst(),
        policy=FirstComeFirstServed(),
        limits=SchedulerLimits(num_rows=limits.num_rows),
    )
    scheduler.phases = phases
    executor = Executor(backend, check=True)
    actor = Actor(
        scheduler,
        executor,
        inbox,
        options=ActorOptions(keep_alive=False, check=True),
        requests=OpenRequests(None),
        observers=Observers([Recorder(phases)]),
        clock=ManualClock(),
        control=StepControl(Interrupter(backend.interrupt, None)),
    )
    for number in (1, 2):
        request = Request(request_id=RequestId(number), prompt=(5, 6), max_tokens=1 + 2 * number, arrival_at=0)
        inbox.submit(partial(submission, request))
    steps = actor.loop()
    answer: Answer | None = None
    while True:
        try:
            need = steps.send(answer)
        except StopIteration:
            return phases
        match need:
            case Wait():
                phases.append("take")
                answer = inbox.take()
            case Settle(events):
                phases.append("settle")
                answer = executor.settle(events)
            case Run(plan):
                phases.append("run")
                answer = executor.run(plan)
                if plan.step == 2:
                    inbox.post(Cancel(CancelById(RequestId(2))))


def test_the_order_of_phases_is_pinned(blessing: bool) -> None:  # noqa: FBT001 - a fixture
    text = "\n".join(one_life()) + "\n"
    if blessing:
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()


def test_no_pass_leaves_the_published_order() -> None:
    passes: list[list[str]] = [[]]
    for phase in one_life():
        passes[-1].append(phase.partition(" ")[0])
        if phase.startswith("record"):
            passes.append([])
    for phases in passes[:-1]:
        rest = iter(PHASES)
        assert all(phase in rest for phase, _ in groupby(phases)), phases
