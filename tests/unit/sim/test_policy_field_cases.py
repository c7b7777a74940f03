"""Rows of the field cases about who goes first, in virtual time: 10 ms a step, 1 ms a prefill row."""

from collections.abc import Callable

import pytest

from arriero.core.events import Finished, Preempted
from arriero.core.ids import RequestId
from arriero.core.request import Request
from arriero.scheduler.fair_share import FairShare
from arriero.scheduler.policies import FirstComeFirstServed, Policy
from arriero.scheduler.ranked import EarliestDeadline, Priority, ShortestPrefill
from tests.unit.scheduler.policy_runs import MS, Run, ask, new_scheduler, run


def short_behind_long(policy: Policy) -> Run:
    requests = [ask(1, 450, 8), ask(2, 5, 8, at=10 * MS)]
    return run(new_scheduler(policy, slots=4, per_step=32), requests)


def test_a3_under_first_come_first_served_a_short_request_waits_behind_a_long_prefill() -> None:
    assert short_behind_long(FirstComeFirstServed()).first_tokens[0] == 1


def test_a3_where_prefills_share_the_budget_a_short_request_comes_first() -> None:
    scheduler = new_scheduler(FirstComeFirstServed(), slots=4, per_sequence=16, per_step=32)
    found = run(scheduler, [ask(1, 450, 8), ask(2, 5, 8, at=10 * MS)])
    assert found.first_tokens == [2, 1]
    assert [found.first_step(number) for number in (2, 1)] == [2, -(-450 // 16)]


@pytest.mark.parametrize(
    ("make", "order"),
    [
        (lambda: ShortestPrefill(MS), [2, 1]),
        (lambda: EarliestDeadline(0), [1, 2]),
        (lambda: Priority(MS), [1, 2]),
        (FairShare, [1, 2]),
    ],
)
def test_a3_the_order_is_the_documented_one_on_every_run(make: Callable[[], Policy], order: list[int]) -> None:
    first, second = (short_behind_long(make()) for _ in range(2))
    assert first.steps == second.steps
    assert first.first_tokens == order


def test_a5_a_background_request_gets_its_turn_after_two_seconds() -> None:
    # each takes 20 ms for its prompt and 30 ms for three more tokens; the next one is there when it ends
    others = [ask(n, 10, 4, at=(n - 1) * 50 * MS, priority=0) for n in range(1, 81)]
    background = ask(1000, 10, 4, at=MS, priority=10)
    found = run(new_scheduler(Priority(200 * MS)), [*others, background])
    assert 2000 * MS <= found.start_of(1000) - MS <= 2050 * MS
    assert [n for n in found.started if n != 1000] == list(range(1, 81)), "the order of the others is unchanged"
    assert found.num_promoted() == 1


def test_a5_without_ageing_enough_it_waits_until_the_stream_ends() -> None:
    others = [ask(n, 10, 4, at=(n - 1) * 50 * MS, priority=0) for n in range(1, 81)]
    found = run(new_scheduler(Priority(1000 * MS)), [*others, ask(1000, 10, 4, at=MS, priority=10)])
    assert found.started[-1] == 1000
    assert found.num_promoted() == 0


def test_a7_an_urgent_request_takes_the_next_slot_ahead_of_all_who_wait() -> None:
    running = [ask(n, 8, 100 + n, at=n, priority=10) for n in range(1, 5)]
    waiting = [ask(n, 8, 4, at=10 * MS, priority=10) for n in range(5, 9)]
    urgent = ask(100, 8, 4, at=20 * MS, priority=0)
    found = run(new_scheduler(Priority(1000 * MS), slots=4), [*running, *waiting, urgent])
    assert not any(isinstance(event, Preempted) for event in found.events)
    assert found.started[4] == 100
    first_end = next(event for event in found.events if isinstance(event, Finished))
    assert found.start_of(100) == first_end.at, "in the step in which a slot was free"


def requests_of_two(num_each: int) -> list[Request]:
    return [ask(n, 4, 4, tenant="a" if n < num_each else "b") for n in range(2 * num_each)]


def test_a_key_that_sends_first_does_not_push_the_other_one_back() -> None:
    found = run(new_scheduler(FairShare()), requests_of_two(6))
    halves = ["a" if number < 6 else "b" for number in found.started]
    assert halves == ["a", "b"] * 6
    plain = run(new_scheduler(FirstComeFirstServed()), requests_of_two(6))
    assert plain.started == [RequestId(number) for number in range(12)]
