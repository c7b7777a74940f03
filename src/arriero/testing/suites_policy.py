"""What every policy passes, one of your own too.

`check_policy` runs all of `POLICY_CHECKS`, each with fresh policies; a test that wants a line for each takes the tuple.
Which order a policy makes is its own matter. The checks ask for what a scheduler relies on: that the order is total
and repeatable, that everybody who waits is offered once, that who yields is one of those who run, and that in the end
everybody is served, also where memory is short.
"""

from collections.abc import Callable, Sequence
from typing import Final

from arriero.core.events import Admitted, Event, Finished, Preempted
from arriero.core.ids import RequestId, SequenceId
from arriero.core.request import FinishReason, Request
from arriero.kv.cells import CellLayout, CellManager
from arriero.kv.reuse import ReuseRules
from arriero.scheduler.admission import AtMost
from arriero.scheduler.draft import PrefillBudget, StepDraft
from arriero.scheduler.planners import DecodeFirst, Planner
from arriero.scheduler.policies import Policy
from arriero.scheduler.progress import Progress
from arriero.scheduler.rules import SchedulerLimits, SchedulerRules
from arriero.scheduler.scheduler import Scheduler
from arriero.scheduler.starts import Following, InOrder, Starts
from arriero.scheduler.waiting import Offers
from arriero.sim.simulator import SimulatedStep, Simulator, Submission
from arriero.testing.simulation import CountingAnswers, LinearCost

MakePolicy = Callable[[], Policy]
PolicyCheck = Callable[[MakePolicy], None]

NUM_RUNNING: Final = 3
_COST: Final = LinearCost(10, per_decode_row=1, per_prefill_row=1)


def check_policy(make: MakePolicy) -> None:
    """Run every check.

    Raises:
        AssertionError: what the policy does wrong.
    """
    for check in POLICY_CHECKS:
        check(make)


class Probe:
    """Fills steps as `DecodeFirst`, and looks at what is offered before it does."""

    def __init__(self, starts: Starts) -> None:
        """Nothing was seen yet."""
        self.heads: dict[int, RequestId | None] = {}  # by pass, the request that was offered first
        self._planner: Planner = DecodeFirst(starts)
        self._num_passes = 0

    def fill(self, draft: StepDraft, running: Sequence[Progress], waiting: Offers) -> None:
        """Look, then fill.

        Raises:
            AssertionError: somebody is offered twice, or not at all, or the order changes while nobody starts.
        """
        offered = [each.request.request_id for each in waiting]
        assert len(set(offered)) == len(offered) == len(waiting), f"not everybody is offered once: {offered}"
        assert [each.request.request_id for each in waiting] == offered, "the order changes though nobody has started"
        head = waiting.head()
        assert waiting.head() is head, "the head changes though nobody has started"
        first = None if head is None else head.request.request_id
        assert first == (offered[0] if offered else None), "the head is not the first of the order"
        self.heads[self._num_passes] = first
        self._num_passes += 1
        self._planner.fill(draft, running, waiting)


def requests() -> list[Request]:
    """A few dozen of every kind: urgent and not, due and not, short and long, of three tenants and none."""
    found: list[Request] = []
    for number in range(36):
        shared = tuple(range(100, 100 + 8 * (number % 4)))
        own = tuple(1000 * number + each for each in range(3 + number * 7 % 11))
        at = 40 * (number // 3)
        found.append(
            Request(
                request_id=RequestId(number),
                prompt=(*shared, *own),
                max_tokens=1 + number * 5 % 19,
                arrival_at=at,
                cache_scope=None if number % 7 == 6 else "ab"[number % 2],
                priority=(number * 13 % 9) - 4,
                deadline_at=at + 100 * (number % 5) if number % 3 else None,
                tenant=(None, "a", "b", "c")[number * 3 % 4],
            )
        )
    return found


def serve(policy: Policy, starts: Starts | None = None) -> tuple[list[SimulatedStep], Probe]:
    """All of `requests` on three slots, with so few cells that some have to yield; every invariant is checked.

    Raises:
        AssertionError, InvariantViolation: the policy breaks a rule.
    """
    probe = Probe(InOrder() if starts is None else starts)
    layout = CellLayout(num_sequences=NUM_RUNNING + 3, num_cells=70, sequence_limit=64, unified=True)
    reuse = ReuseRules()
    scheduler = Scheduler(
        kv=CellManager(layout, reuse=reuse),
        planner=probe,
        policy=policy,
        limits=SchedulerLimits(num_rows=24, budget=PrefillBudget(per_step=12), headroom_per_sequence=0),
        rules=SchedulerRules(start=AtMost(NUM_RUNNING), reuse=reuse),
    )
    simulator = Simulator(scheduler=scheduler, cost=_COST, answers=CountingAnswers(), check=True)
    steps = list(simulator.run([Submission(request) for request in requests()]))
    assert not scheduler.has_work, "requests are left that never end"
    return steps, probe


def events_of(steps: Sequence[SimulatedStep]) -> list[Event]:
    """All events of a run, in order."""
    return [event for step in steps for event in step.events]


def is_a_policy(make: MakePolicy) -> None:
    """It has every verb, and says the same of its rows each time it is asked."""
    policy = make()
    assert isinstance(policy, Policy)
    assert policy.by_rank is make().by_rank


def ranks_are_total_and_repeatable(make: MakePolicy) -> None:
    """No two are equal; each ends in the arrival number, and another policy of the kind says the same."""
    first, second = make(), make()
    asked = requests()
    ranks = [first.rank(request, number) for number, request in enumerate(asked)]
    assert len(set(ranks)) == len(ranks)
    assert [rank[-1] for rank in ranks] == list(range(len(asked)))
    assert [second.rank(request, number) for number, request in enumerate(asked)] == ranks


def whoever_is_offered_first_starts_first(make: MakePolicy) -> None:
    """In every step in which somebody starts, and everybody who waits is offered once: see `Probe`."""
    steps, probe = serve(make())
    num_started = 0
    for number, step in enumerate(steps):
        started = [event.request.request_id for event in step.plan.events if isinstance(event, Admitted)]
        num_started += len(started)
        assert not started or started[0] == probe.heads[number]
    assert num_started >= len(requests())


def everybody_is_served_where_memory_is_short(make: MakePolicy) -> None:
    """Somebody has to yield, nobody fails, and every answer is as long as it was asked for, also with followers."""
    for starts in (InOrder(), Following(min_rows=2)):
        events = events_of(serve(make(), starts)[0])
        assert any(isinstance(event, Preempted) for event in events), "memory was never short: this shows nothing"
        ends = [event for event in events if isinstance(event, Finished)]
        assert {(end.reason, end.num_decoded - end.request.max_tokens) for end in ends} == {(FinishReason.LENGTH, 0)}
        assert len(ends) == len(requests())


def the_same_requests_give_the_same_decisions(make: MakePolicy) -> None:
    """Event by event and row by row, with fresh policies."""
    first, second = (serve(make(), Following(min_rows=2))[0] for _ in range(2))
    assert first == second


def who_yields_is_one_of_those_who_run(make: MakePolicy) -> None:
    """One alone, or one of several in any order of admission; or nobody."""
    policy = make()
    running: list[Progress] = []
    for number, request in enumerate(requests()[:6]):
        progress = Progress(request, policy.rank(request, number))
        progress.admit(SequenceId(number), number)
        running.append(progress)
        for group in ([progress], running):
            victim = policy.victim(group)
            assert victim is None or any(victim is each for each in group)
            assert policy.victim(group) is victim, "asked twice, it says another one"


POLICY_CHECKS: Final[tuple[PolicyCheck, ...]] = (
    is_a_policy,
    ranks_are_total_and_repeatable,
    who_yields_is_one_of_those_who_run,
    whoever_is_offered_first_starts_first,
    everybody_is_served_where_memory_is_short,
    the_same_requests_give_the_same_decisions,
)
