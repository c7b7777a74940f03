"""`check_scheduler` is only as good as the mistakes it finds, so each rule is broken once."""

from collections.abc import Callable

import pytest

from arriero.core.errors import InvariantViolation
from arriero.core.ids import RequestId, SequenceId
from arriero.core.request import Request, RequestState
from arriero.kv.cells import CellLayout, CellManager
from arriero.scheduler.invariants import check_scheduler
from arriero.scheduler.planners import DecodeFirst
from arriero.scheduler.policies import FirstComeFirstServed
from arriero.scheduler.progress import Progress
from arriero.scheduler.rules import SchedulerLimits
from arriero.scheduler.scheduler import Scheduler
from arriero.testing.simulation import CountingAnswers


def two_running_one_waiting() -> Scheduler:
    layout = CellLayout(num_sequences=2, num_cells=32, sequence_limit=32, unified=True)
    scheduler = Scheduler(
        kv=CellManager(layout),
        planner=DecodeFirst(),
        policy=FirstComeFirstServed(),
        limits=SchedulerLimits(num_rows=8),
    )
    for each in (1, 2, 3):
        scheduler.submit(Request(request_id=RequestId(each), prompt=(1, 2, 3), max_tokens=4, arrival_at=0), 0)
    plan = scheduler.plan(0)
    scheduler.commit(CountingAnswers().to(plan), 0)
    check_scheduler(scheduler)
    return scheduler


def held_twice(scheduler: Scheduler) -> None:
    scheduler.inspect().running[1].sequence_id = SequenceId(0)


def held_by_nobody(scheduler: Scheduler) -> None:
    scheduler._slots.running.pop()


def one_computed_too_many(scheduler: Scheduler) -> None:
    scheduler.inspect().running[0].num_computed -= 1


def alive_nowhere(scheduler: Scheduler) -> None:
    view = scheduler.inspect()
    scheduler._slots.waiting.remove(view.waiting[0])


def alive_twice(scheduler: Scheduler) -> None:
    first = scheduler.inspect().running[0]
    scheduler._slots.waiting.add(first)


def waits_in_another_state(scheduler: Scheduler) -> None:
    scheduler.inspect().waiting[0].state = RequestState.DECODING


def waits_with_computed_tokens(scheduler: Scheduler) -> None:
    scheduler.inspect().waiting[0].num_computed = 1


def has_nothing_left(scheduler: Scheduler) -> None:
    progress = scheduler.inspect().running[0]
    progress.num_computed = progress.num_known
    scheduler._kv.grow(progress.held_sequence, 1)


def beyond_its_last_token(scheduler: Scheduler) -> None:
    progress: Progress = scheduler.inspect().waiting[0]
    progress.num_known += 4


def out_of_order(scheduler: Scheduler) -> None:
    scheduler._slots.running.reverse()


def two_behind(scheduler: Scheduler) -> None:
    scheduler.inspect().running[0].num_known += 1


RULES: dict[str, Callable[[Scheduler], None]] = {
    "two requests hold one sequence": held_twice,
    "sequences held and requests running differ": held_by_nobody,
    "places held and tokens that need a place differ": one_computed_too_many,
    "neither waits nor runs": alive_nowhere,
    "waits and runs at once": alive_twice,
    "waiting request is in another state": waits_in_another_state,
    "waiting request has computed tokens": waits_with_computed_tokens,
    "nothing left to compute": has_nothing_left,
    "alive beyond its last token": beyond_its_last_token,
    "not in admission order": out_of_order,
    "not exactly one token behind": two_behind,
}


@pytest.mark.parametrize("rule", RULES)
def test_a_broken_rule_is_named(rule: str) -> None:
    scheduler = two_running_one_waiting()
    RULES[rule](scheduler)
    with pytest.raises(InvariantViolation, match=rule):
        check_scheduler(scheduler)
