"""What the scheduler hears of a machine that became slower, and when."""

from collections.abc import Sequence
from dataclasses import replace

from arriero.core.events import CopySequence, DropSequence, Event, SaveSequence, TrimSequence
from arriero.core.ids import RequestId, SavedKey, SequenceId
from arriero.core.option_kinds import Threads
from arriero.core.plan import DecodeRow, Row
from arriero.core.request import Request
from arriero.costmodel.terms import TermGroup
from arriero.engine.cost_follower import TELL, CostFollower, says_something
from tests.unit.engine.machines import scaling_cost

COST = scaling_cost(1, 2)
BOTH = Threads(2, 2)
SECOND = 1_000_000


def rows(number: int = 3) -> Sequence[Row]:
    request = Request(request_id=RequestId(1), prompt=(1, 2, 3), max_tokens=100, arrival_at=0)
    return [DecodeRow(request, SequenceId(each), 50, 7) for each in range(number)]


def watch(follower: CostFollower, times: float, *, steps: int = 200, threads: Threads = BOTH) -> None:
    """Steps that take so many times what was calibrated."""
    cost = COST.with_threads(threads)
    for number in range(steps):
        step = rows(2 + number % 3)
        follower.observe(step, round(times * cost.time(step)), threads, pool=0)


def test_a_machine_as_calibrated_is_not_worth_a_message() -> None:
    follower = CostFollower(COST)
    watch(follower, 1.0)
    change = follower.due(BOTH, 10 * SECOND)
    # the spread shrinks from what the profile says; no factor moves
    assert change is None or all(abs(factor - 1) < 0.01 for each in change.factors for factor in each[1:])
    assert follower.cost is COST


def test_a_slower_machine_is_told_and_predicted_from_then_on() -> None:
    follower = CostFollower(COST)
    watch(follower, 1.2)
    change = follower.due(BOTH, 10 * SECOND)
    assert change is not None
    assert follower.cost is COST, "the scheduler does not plan with it yet"
    follower.apply(change)
    assert 1.1 < follower.cost.time(rows()) / COST.time(rows()) < 1.3
    assert follower.due(BOTH, 20 * SECOND) is None, "told once"


def test_messages_are_so_much_apart_at_least() -> None:
    follower = CostFollower(COST)
    watch(follower, 1.2, steps=20)
    assert follower.due(BOTH, 0) is not None
    watch(follower, 1.5)
    assert follower.due(BOTH, TELL.every - 1) is None
    assert follower.due(BOTH, TELL.every) is not None


def test_other_threads_are_told_at_once() -> None:
    follower = CostFollower(COST)
    watch(follower, 1.2)
    assert follower.due(BOTH, 0) is not None
    change = follower.due(Threads(1, 1), 1)
    assert change is not None
    assert change.threads == Threads(1, 1)
    follower.apply(change)
    assert follower.cost.threads == Threads(1, 1)
    assert follower.due(Threads(1, 1), 2) is None


def test_each_number_of_threads_learns_for_itself() -> None:
    follower = CostFollower(COST)
    watch(follower, 1.25, threads=Threads(1, 1))
    change = follower.due(BOTH, 0)
    assert change is not None
    by_threads = {each.threads: each.by_group for each in change.factors}
    assert by_threads[1][TermGroup.ROWS] > 1.05
    assert by_threads[2] == dict.fromkeys(TermGroup, 1.0)


def test_a_neighbour_is_not_learned() -> None:
    follower = CostFollower(COST)
    watch(follower, 8.0)
    change = follower.due(BOTH, 0)
    assert change is None or all(factor == 1 for each in change.factors for factor in each[1:])


def test_every_change_counts_from_the_calibrated_costs() -> None:
    follower = CostFollower(COST)
    for _ in range(3):
        watch(follower, 1.2)
        change = follower.due(BOTH, 0) or follower.due(BOTH, 10**12)
        if change is not None:
            follower.apply(change)
    assert follower.cost.time(rows()) / COST.time(rows()) < 1.25
    assert replace(follower.cost, origin=None).passes.keys() == COST.passes.keys()


def test_steps_that_move_kv_say_nothing() -> None:
    first, second = SequenceId(0), SequenceId(1)
    quick: list[Event] = [DropSequence(first), TrimSequence(second, 3)]
    assert says_something(quick)
    for op in (CopySequence(first, second, 4), SaveSequence(first, SavedKey(1), 4)):
        assert not says_something([*quick, op])


def test_factors_that_have_not_moved_are_not_looked_at_in_every_step() -> None:
    follower = CostFollower(COST)
    assert follower.due(BOTH, 0) is None
    watch(follower, 1.2)
    assert follower.due(BOTH, TELL.look - 1) is None
    assert follower.due(BOTH, TELL.look) is not None
