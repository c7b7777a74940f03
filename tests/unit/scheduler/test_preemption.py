"""Who yields when cells run out, what becomes of its KV, and that nobody else is touched by it."""

from collections.abc import Callable
from functools import partial
from typing import Final

import pytest

from arriero.core.errors import ConfigError
from arriero.core.events import (
    Admitted,
    CancelById,
    CancelEverything,
    CancelWaiting,
    CopySequence,
    Event,
    Finished,
    ForgetSaved,
    Preempted,
    PreemptionCause,
    RestoreSequence,
    SaveSequence,
    TrimSequence,
)
from arriero.core.ids import RequestId, SequenceId
from arriero.core.request import CancelReason, FinishReason
from arriero.kv.reuse import ReuseRules
from arriero.scheduler.draft import PrefillBudget
from arriero.scheduler.invariants import check_scheduler
from arriero.scheduler.preemption import SwapRule
from arriero.scheduler.scheduler import Scheduler
from tests.unit.scheduler.pressed_pool import ALWAYS, Pool, no_room, request, sampled, three

# ── the rule ────────────────────────────────────────────────────────────────────────────────────────────────────────

RULE: Final = SwapRule(row_time=10, answer_row_time=40, token_time=1, swap_time=50)


@pytest.mark.parametrize(
    ("num_computed", "num_prompt", "num_elsewhere", "pays"),
    [
        (5, 20, 0, False),  # 55 against 50
        (6, 20, 0, True),  # 56 against 60
        (20, 20, 13, False),  # 70 against 70: a tie
        (20, 20, 12, True),
        (20, 20, 20, False),  # all of it is held by others
        (3, 2, 0, True),  # 53 against 60: an answer's row is dear
        (3, 2, 2, False),  # 53 against 40
        (3, 2, 9, False),
    ],
)
def test_a_swap_pays_where_it_takes_less_than_computing_what_nobody_else_holds(
    num_computed: int,
    num_prompt: int,
    num_elsewhere: int,
    pays: bool,  # noqa: FBT001 - a column
) -> None:
    assert RULE.pays(num_computed, num_prompt, num_elsewhere) is pays


def test_a_rule_without_costs_swaps_whatever_would_be_computed_again() -> None:
    assert ALWAYS.pays(1, 9)
    assert not ALWAYS.pays(9, 9, 9)


@pytest.mark.parametrize("name", ["row_time", "answer_row_time", "token_time", "swap_time"])
def test_what_is_no_duration_is_refused_by_name(name: str) -> None:
    numbers = {"row_time": 1, "answer_row_time": 1, "token_time": 0, "swap_time": 0} | {name: -1}
    with pytest.raises(ConfigError, match=f"^{name} of the swap rule must be"):
        SwapRule(**numbers)
    with pytest.raises(ConfigError, match="above 0, not 0"):
        SwapRule(row_time=0, answer_row_time=1)


# ── a pool that is too small for all ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("swap", [ALWAYS, None], ids=["swap", "recompute"])
def test_everybody_gets_its_whole_answer_however_short_cells_are(swap: SwapRule | None) -> None:
    for num_cells in range(13, 40):
        pool = Pool(swap=swap, num_cells=num_cells)
        pool.serve(*three())
        assert pool.ends == dict.fromkeys((1, 2, 3), FinishReason.LENGTH)
        assert pool.has_served_three()
        assert bool(pool.of(Preempted)) == (num_cells < 39)


def test_what_is_swapped_is_computed_once_and_what_is_not_is_computed_again() -> None:
    swapping, again = Pool(), Pool(swap=None)
    for pool in (swapping, again):
        pool.serve(*three())
        assert pool.of(Preempted)
    for number in (1, 2, 3):
        assert swapping.computed(number) == list(range(13))
    assert again.computed(3).count(0) > 1


def test_a_shortage_has_one_victim_the_last_admitted_and_the_others_miss_no_step() -> None:
    pool = Pool()
    pool.submit(*three())
    while pool.scheduler.has_work:
        num_before = len(pool.of(Preempted))
        pool.step()
        assert len(pool.of(Preempted)) <= num_before + 1
    assert pool.of(Preempted)[0].request_id == 3
    assert {event.request_id for event in pool.of(Preempted)} == {2, 3}
    first = [plan.step for plan in pool.computed_plans if any(row.request.request_id == 1 for row in plan.rows)]
    assert first == list(range(1, 11)), "the oldest has a row in every step"


def test_a_victim_says_what_became_of_its_kv_and_its_return_what_came_back() -> None:
    pool = Pool()
    pool.serve(*three())
    out, back = pool.of(Preempted), pool.back
    assert all(event.swapped and event.cause is PreemptionCause.NO_ROOM for event in out)
    assert sorted(event.num_computed for event in out) == sorted(event.num_swapped_in for event in back)
    assert all(event.num_cached == 0 and event.prefix is None for event in back)
    saves, restores = pool.of(SaveSequence), pool.of(RestoreSequence)
    assert [each.key for each in saves] == list(range(1, len(out) + 1))
    assert {(each.key, each.length) for each in saves} == {(each.key, each.length) for each in restores}
    assert {each.key for each in pool.of(ForgetSaved)} == {each.key for each in saves}
    assert all((each.scope, each.tokens) == ("", ()) for each in saves), "nobody may find it by its tokens"


def test_victims_come_back_in_the_order_of_their_arrival_and_nobody_starts_before_them() -> None:
    pool = Pool(num_sequences=8, num_cells=30)
    pool.serve(*(request(number, prompt=range(5), max_tokens=12) for number in range(1, 7)))
    waiting: set[int] = set()
    for event in pool.events:
        match event:
            case Preempted(request_id=request_id):
                waiting.add(request_id)
            case Admitted(request=started):
                assert all(started.request_id <= each for each in waiting), "an older one waits to come back"
                waiting.discard(started.request_id)
            case _:
                pass
    assert len(pool.of(Preempted)) >= 4


def test_a_victim_may_yield_again_and_is_kept_anew() -> None:
    pool = Pool(num_cells=26, num_sequences=5)
    pool.serve(*(request(number, max_tokens=14 - number) for number in range(1, 6)))
    by_request = [event.request_id for event in pool.of(Preempted)]
    assert any(by_request.count(number) > 1 for number in by_request)
    for number in range(1, 6):
        assert pool.computed(number) == list(range(4 + 14 - number - 1))


def test_room_outside_bounds_what_is_swapped_and_the_rest_is_computed_again() -> None:
    ways: dict[int, list[bool]] = {}
    for swap_tokens in (0, 5, 9, 100):
        pool = Pool(swap_tokens=swap_tokens, num_cells=20)
        pool.serve(*three())
        assert pool.has_served_three()
        ways[swap_tokens] = [event.swapped for event in pool.of(Preempted)]
    assert not any(ways[0])
    assert not any(ways[5]), "each of them has computed more than five"
    assert {*ways[9]} == {True, False}
    assert all(ways[100])


def test_a_rule_that_does_not_pay_computes_again() -> None:
    pool = Pool(swap=SwapRule(row_time=1, answer_row_time=1, swap_time=1000))
    pool.serve(*three())
    assert pool.of(Preempted)
    assert not pool.of(SaveSequence)


ENDS: dict[str, tuple[Callable[[Scheduler], tuple[Event, ...]], FinishReason]] = {
    "cancel": (lambda it: it.cancel(CancelById(RequestId(3)), 90), FinishReason.CANCELLED),
    "shutdown": (lambda it: it.cancel(CancelEverything(), 90), FinishReason.CANCELLED),
    "given up": (lambda it: it.cancel(CancelWaiting(), 90), FinishReason.ABORTED),
}


@pytest.mark.parametrize("way", ENDS)
def test_an_end_while_swapped_out_tells_the_store_first(way: str) -> None:
    pool = Pool()
    assert pool.serve_until_one_yields().swapped
    act, reason = ENDS[way]
    told, ended = act(pool.scheduler)
    assert told == ForgetSaved(pool.of(SaveSequence)[0].key)
    assert isinstance(ended, Finished)
    assert (ended.request.request_id, ended.reason, ended.sequence_id) == (3, reason, None)
    check_scheduler(pool.scheduler)
    assert pool.scheduler.snapshot().kv.swapped_tokens == 0


def test_a_time_out_while_swapped_out_tells_the_store_too() -> None:
    pool = Pool()
    pool.serve(request(1), request(2), request(3, expires_at=7))
    assert pool.ends[3] is FinishReason.CANCELLED
    assert pool.of(Finished)[0].cancel_reason is CancelReason.TIMEOUT
    assert pool.of(SaveSequence)[0].key == pool.of(ForgetSaved)[0].key
    assert pool.of(RestoreSequence) == [each for each in pool.of(RestoreSequence) if each.key > 1]


# ── memory that does not do what it is told ─────────────────────────────────────────────────────────────────────────


def test_memory_that_is_fuller_than_the_books_swaps_one_that_is_sound() -> None:
    for refused, swapped in (((), True), ((TrimSequence(SequenceId(2), 4),), False)):
        pool = Pool(num_cells=100)
        pool.submit(*three())
        pool.step()
        pool.step(partial(no_room, refused))
        assert [(event.request_id, event.swapped) for event in pool.of(Preempted)] == [(3, swapped)]
        pool.serve()
        assert pool.has_served_three()
        assert pool.computed(3).count(0) == 1 + (not swapped)


def test_a_sequence_that_memory_refused_to_change_is_not_swapped() -> None:
    pool = Pool(num_cells=100)
    pool.submit(*three())
    pool.step()
    pool.step(lambda plan: sampled(plan, TrimSequence(SequenceId(1), 0)))
    assert [(event.cause, event.swapped) for event in pool.of(Preempted)] == [(PreemptionCause.REFUSED, False)]


def test_a_refused_save_is_computed_again_and_nobody_else_is_touched() -> None:
    pool = Pool()
    pool.serve_until_one_yields()
    save = pool.of(SaveSequence)[0]
    pool.step(lambda plan: sampled(plan, save))
    assert pool.scheduler.snapshot().kv.swapped_tokens == 0
    pool.serve()
    assert pool.has_served_three()
    assert not [event for event in pool.of(Preempted) if event.cause is PreemptionCause.REFUSED]
    assert pool.computed(3).count(0) > 1


def test_a_refused_restore_is_computed_again_and_nobody_else_is_touched() -> None:
    pool = Pool()
    pool.serve_until_one_yields()
    while not pool.of(RestoreSequence):
        pool.step(lambda plan: sampled(plan, *(op for op in plan.events if isinstance(op, RestoreSequence))))
    last = pool.of(Preempted)[-1]
    assert (last.cause, last.swapped) == (PreemptionCause.REFUSED, False)
    pool.serve()
    assert pool.has_served_three()


REACHED: dict[str, Callable[[Pool], bool]] = {
    "within its prompt": lambda pool: 0 < len(pool.computed(3)) < 7,
    "within its answer": lambda pool: len(pool.answer(3)) == 2,
}


@pytest.mark.parametrize("place", REACHED)
def test_exact_composition_goes_on_where_it_was(place: str) -> None:
    pool = Pool(max_chunk=3, num_cells=3 * 30, num_sequences=3)
    pool.submit(*(request(number, prompt=range(7), max_tokens=6) for number in (1, 2, 3)))
    while not REACHED[place](pool):
        pool.step()
    pool.step(partial(no_room, ()))
    assert [(event.request_id, event.swapped) for event in pool.of(Preempted)] == [(3, True)]
    pool.serve()
    for number in (1, 2, 3):
        assert pool.computed(number) == list(range(12))
        assert pool.answer(number) == list(range(6))
    rows = [row for plan in pool.computed_plans for row in plan.rows]
    assert not [row for row in rows if row.num_rows == 1 and row.start < 7], "a chunk of one row"


# ── prefixes of others ──────────────────────────────────────────────────────────────────────────────────────────────

SHARED: Final = tuple(range(100, 116))


@pytest.mark.parametrize(("scope", "num_cells"), [("a", 24), (None, 40)])
def test_what_a_live_prefix_gives_is_not_worth_a_swap(scope: str | None, num_cells: int) -> None:
    rule = SwapRule(row_time=2, answer_row_time=2, token_time=1, swap_time=5)
    pool = Pool(swap=rule, reuse=ReuseRules(), num_cells=num_cells)
    pool.submit(request(1, prompt=(*SHARED, 1), scope=scope, max_tokens=8))
    pool.step()
    pool.serve(request(2, prompt=(*SHARED, 2), scope=scope, max_tokens=8))
    out = pool.of(Preempted)
    assert out
    assert all(event.swapped == (scope is None) for event in out)
    assert all(bool(event.num_cached) == (scope == "a") for event in pool.back)
    assert pool.answer(1) == pool.answer(2) == list(range(8))


def test_who_shares_a_victims_prefix_keeps_it() -> None:
    pool = Pool(reuse=ReuseRules(), num_cells=34)
    pool.submit(request(1, prompt=(7, 8, 9), max_tokens=20))
    pool.step()
    pool.submit(request(2, prompt=(*SHARED, 1), scope="a", max_tokens=12))
    pool.step()
    pool.serve(request(3, prompt=(*SHARED, 2), scope="a", max_tokens=4))
    assert pool.of(CopySequence)
    assert [len(pool.answer(number)) for number in (1, 2, 3)] == [20, 12, 4]
    assert {event.request_id for event in pool.of(Preempted)} >= {2}
    assert all(event.request_id != 1 for event in pool.of(Preempted))


def test_a_follower_of_a_leader_that_yields_is_served_all_the_same() -> None:
    pool = Pool(reuse=ReuseRules(), num_cells=30, budget=PrefillBudget(per_step=2))
    pool.submit(request(1, prompt=(7, 8, 9), max_tokens=22))
    for _ in range(6):
        pool.step()
    leader = request(2, prompt=SHARED, scope="a", max_tokens=3)
    follower = request(3, prompt=(*SHARED, 5), scope="a", max_tokens=3)
    pool.serve(leader, follower)
    out = pool.of(Preempted)
    assert out, "the leader had to yield while its follower waited"
    assert all(event.swapped and event.request_id == 2 for event in out)
    assert [len(pool.answer(number)) for number in (1, 2, 3)] == [22, 3, 3]
    assert pool.computed(2) == list(range(18)), "the leader goes on where it was"
    started = next(event for event in pool.of(Admitted) if event.request.request_id == 3)
    assert started.num_cached == len(SHARED), "and its follower shares what both begin with"
