"""Who gives its slot to a request that goes before it, and when nobody does."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.core.events import Admitted, Preempted, PreemptionCause
from arriero.kv.reuse import ReuseRules
from arriero.scheduler.draft import PrefillBudget
from arriero.scheduler.preemption import SwapRule
from arriero.scheduler.ranked import Priority
from tests.unit.scheduler.pressed_pool import ALWAYS, Pool, request


def house(*, displaces: bool = True, swap: SwapRule | None = ALWAYS, max_chunk: int | None = None) -> Pool:
    """Two slots, with cells enough for three requests, under priorities."""
    return Pool(
        policy=Priority(1000), displaces=displaces, swap=swap, num_sequences=2, num_cells=80, max_chunk=max_chunk
    )


@pytest.mark.parametrize("swap", [ALWAYS, None], ids=["swap", "recompute"])
@pytest.mark.parametrize("max_chunk", [None, 3], ids=["pool", "exact"])
def test_a7_an_urgent_request_takes_the_slot_of_the_least_urgent_in_the_next_step(
    swap: SwapRule | None, max_chunk: int | None
) -> None:
    pool = house(swap=swap, max_chunk=max_chunk)
    pool.submit(request(1, priority=9), request(2, priority=10), request(3, priority=10))
    while len(pool.answer(2)) < 3:
        pool.step()
    pool.submit(request(4, max_tokens=2, priority=0))
    plan = pool.step()
    started = next(event for event in plan.events if isinstance(event, Admitted))
    assert (started.request.request_id, pool.of(Preempted)[0].request_id) == (4, 2)
    assert pool.of(Preempted)[0].cause is PreemptionCause.DISPLACED
    pool.serve()
    assert len(pool.of(Preempted)) == 1, "exactly one victim"
    assert [event.request.request_id for event in pool.back] == [2]
    starts: list[int] = [event.request.request_id for event in pool.of(Admitted)]
    assert starts.index(3) > len(starts) - 1 - starts[::-1].index(2), "it comes back before those behind it"
    assert [pool.answer(number) for number in (1, 2, 3)] == [list(range(10))] * 3
    assert (pool.computed(2).count(0) == 1) == (swap is not None)


def test_where_it_is_not_asked_for_an_urgent_request_takes_the_next_free_slot() -> None:
    pool = house(displaces=False)
    pool.submit(request(1, priority=10), request(2, priority=10), request(3, priority=10))
    pool.step()
    pool.serve(request(4, priority=0))
    assert not pool.of(Preempted)
    assert [event.request.request_id for event in pool.of(Admitted)] == [1, 2, 4, 3]


@pytest.mark.parametrize(("num_cells", "num_out"), [(35, 0), (34, 1), (28, 1), (27, 0)])
def test_in_a_pool_cells_are_made_as_well_if_one_victim_makes_enough(num_cells: int, num_out: int) -> None:
    pool = Pool(policy=Priority(1000), displaces=True, num_cells=num_cells)
    pool.submit(request(1, prompt=range(10), max_tokens=2, priority=5), request(2, prompt=range(6), priority=9))
    pool.step()
    pool.submit(request(3, prompt=range(17), max_tokens=1))
    pool.step()
    assert [event.request_id for event in pool.of(Preempted)] == [2] * num_out
    assert (pool.of(Admitted)[-1].request.request_id == 3) == (num_cells != 27)
    pool.serve()
    assert [len(pool.answer(number)) for number in (1, 2, 3)] == [2, 10, 1]


def test_ids_that_are_there_for_runs_only_are_no_free_slots() -> None:
    pool = Pool(policy=Priority(1000), displaces=True, num_sequences=3, num_cells=80, most_running=2)
    pool.submit(request(1, priority=5), request(2, priority=9))
    pool.step()
    pool.submit(request(3))
    pool.step()
    assert [event.request_id for event in pool.of(Preempted)] == [2]
    pool.serve()


def test_what_can_share_a_prefix_needs_fewer_cells_and_displaces_nobody() -> None:
    pool = Pool(policy=Priority(1000), displaces=True, reuse=ReuseRules(), num_cells=40)
    prompt = tuple(range(20))
    pool.submit(request(1, prompt=prompt, scope="a", priority=9, max_tokens=10))
    pool.step()
    pool.submit(request(2, prompt=(*prompt, 5), scope="a", max_tokens=2))
    pool.step()
    assert pool.of(Admitted)[-1].num_cached == 20
    pool.serve()
    assert not pool.of(Preempted)


def test_nobody_is_displaced_for_a_free_slot_for_an_equal_or_for_one_that_does_not_fit() -> None:
    pool = house()
    pool.submit(request(1, priority=5))
    pool.step()
    pool.serve(request(2), request(3, priority=5))
    assert not pool.of(Preempted)
    pool = house()
    pool.submit(request(1, prompt=range(50), max_tokens=20), request(2, priority=5))
    for _ in range(3):
        pool.step()
    pool.serve(request(3, prompt=range(40), max_tokens=2, priority=1))
    assert not pool.of(Preempted), "the cells of the second would not do"


def test_first_come_first_served_displaces_nobody() -> None:
    pool = Pool(displaces=True, num_sequences=2, num_cells=80)
    pool.submit(request(1, priority=10), request(2, priority=10))
    pool.step()
    pool.serve(request(3, priority=0))
    assert not pool.of(Preempted)


@pytest.mark.parametrize(("num_steps", "num_waits"), [(1, 2), (2, 1), (3, 0)])
def test_who_waits_for_a_prefix_displaces_nobody_until_it_is_computed(num_steps: int, num_waits: int) -> None:
    budget = PrefillBudget(per_step=4)
    pool = Pool(policy=Priority(1000), displaces=True, reuse=ReuseRules(), num_sequences=2, num_cells=90, budget=budget)
    pool.submit(request(1, priority=9, max_tokens=30))
    pool.step()
    shared = tuple(range(100, 112))
    pool.submit(request(2, prompt=(*shared, *range(20)), scope="a", priority=5))
    for _ in range(num_steps):
        pool.step()
    pool.submit(request(3, prompt=(*shared, 1, 2, 3), scope="a", max_tokens=2, priority=0))
    for _ in range(num_waits):
        pool.step()
        assert not pool.of(Preempted), "the slot would stay empty, or somebody behind it would get it"
    pool.step()
    assert [event.request_id for event in pool.of(Preempted)] == [1]
    started = pool.of(Admitted)[-1]
    assert (started.request.request_id, started.num_cached) == (3, len(shared))
    pool.serve()
    assert len(pool.of(Preempted)) == 1
    assert [len(pool.answer(number)) for number in (1, 2, 3)] == [30, 10, 2]


ARRIVALS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(1, 12)), min_size=1, max_size=12)


@given(ARRIVALS, st.sampled_from([26, 40, 200]), st.sampled_from([0, 20, 500]))
def test_everybody_comes_to_its_end_and_each_arrival_displaces_one_at_most(
    arrivals: list[tuple[int, int, int]], num_cells: int, swap_tokens: int
) -> None:
    pool = Pool(policy=Priority(5), displaces=True, num_sequences=3, num_cells=num_cells, swap_tokens=swap_tokens)
    for number, (steps, priority, max_tokens) in enumerate(arrivals):
        pool.submit(replace(request(number, max_tokens=max_tokens, priority=priority), arrival_at=pool.num_steps))
        for _ in range(steps):
            pool.step()
    pool.serve()
    for number, (_, _, max_tokens) in enumerate(arrivals):
        assert pool.answer(number) == list(range(max_tokens))
        assert swap_tokens < 500 or pool.computed(number) == list(range(4 + max_tokens - 1))
    displaced = [event for event in pool.of(Preempted) if event.cause is PreemptionCause.DISPLACED]
    assert len(displaced) <= len(arrivals)
