"""Orders by rank: who starts, who gets rows, who yields, and that nobody waits for ever."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.core.errors import ConfigError
from arriero.core.events import TokenEmitted
from arriero.core.ids import SequenceId
from arriero.core.plan import PrefillChunk
from arriero.core.request import LEAST_URGENT, MOST_URGENT, Request
from arriero.kv.reuse import ReuseRules
from arriero.scheduler.policies import FirstComeFirstServed, Policy
from arriero.scheduler.progress import Progress
from arriero.scheduler.ranked import ByRank, EarliestDeadline, Priority, Ranked, ShortestPrefill
from arriero.scheduler.starts import Following
from tests.unit.scheduler.policy_runs import MS, Run, ask, new_scheduler, run

LEVEL = 100 * MS


def served(policy: Policy, *requests: Request, slots: int = 1, per_step: int | None = None) -> Run:
    return run(new_scheduler(policy, slots=slots, per_step=per_step), requests)


# ── who starts ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_urgent_start_first_and_equals_by_arrival() -> None:
    priorities = [3, -2, 0, -2, 100, -100]
    found = served(Priority(LEVEL), *(ask(n, at=n, priority=level) for n, level in enumerate(priorities)))
    assert found.started == [0, 5, 1, 3, 2, 4], "the first one was alone when it came"


def test_waiting_makes_up_for_levels_and_not_a_microsecond_too_early() -> None:
    busy = ask(0, max_tokens=90)  # until 900 ms
    patient = ask(1, at=0, priority=4)
    just_too_late = ask(2, at=4 * LEVEL)
    just_in_time = ask(3, at=4 * LEVEL - 1)
    assert served(Priority(LEVEL), busy, patient, just_too_late, just_in_time).started == [0, 3, 1, 2]


def test_without_ageing_the_order_is_that_of_arrival() -> None:
    found = served(Priority(0), *(ask(n, at=n, priority=-n) for n in range(5)))
    assert found.started == [0, 1, 2, 3, 4]


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(MOST_URGENT, LEAST_URGENT)), min_size=2, max_size=40),
    st.integers(0, 20),
)
def test_nobody_is_overtaken_by_those_who_come_after_its_bound(arrivals: list[tuple[int, int]], ageing: int) -> None:
    policy = Priority(ageing)
    arrivals.sort(key=lambda each: each[0])
    ranked = [(policy.rank(ask(n, at=at, priority=p), n), at, p) for n, (at, p) in enumerate(arrivals)]
    for rank, at, priority in ranked:
        for other, other_at, other_priority in ranked:
            if other_at > at and other < rank:
                assert other_at - at < (priority - other_priority) * ageing


def test_a_stream_of_urgent_requests_does_not_starve_a_patient_one() -> None:
    background = ask(0, at=0, priority=10)
    stream = [ask(n, at=(n - 1) * 10 * MS, max_tokens=4) for n in range(1, 200)]  # four times what can be served
    found = served(Priority(LEVEL), *stream, background)
    assert found.started == [*range(1, 101), 0, *range(101, 200)], "those of the first second go before it"


def test_short_prompts_pass_long_ones_that_came_shortly_before() -> None:
    long, short, late = ask(1, 400), ask(2, 10, at=30 * MS), ask(3, 10, at=400 * MS)
    found = served(ShortestPrefill(MS), ask(0, max_tokens=60), long, short, late)
    assert found.started == [0, 2, 1, 3], "390 tokens are worth 390 ms"


def test_the_earliest_deadline_goes_first_and_those_without_one_have_patience() -> None:
    found = served(
        EarliestDeadline(500 * MS),
        ask(0, max_tokens=30),
        ask(1, at=MS),  # due at 501 ms
        ask(2, at=2 * MS, deadline_at=400 * MS),
        ask(3, at=3 * MS, deadline_at=501 * MS),
        ask(4, at=4 * MS, deadline_at=5 * MS),  # late before it starts
        ask(5, at=5 * MS, deadline_at=400 * MS),
    )
    assert found.started == [0, 4, 2, 5, 1, 3]


def test_requests_with_deadlines_do_not_starve_those_without() -> None:
    stream = [ask(n, at=n * 10 * MS, deadline_at=n * 10 * MS + 200 * MS) for n in range(1, 150)]
    found = served(EarliestDeadline(600 * MS), ask(0, at=10 * MS), *stream)
    assert found.started == [*range(1, 41), 0, *range(41, 150)], "those due before 610 ms go before it"


@pytest.mark.parametrize("kind", [Priority, ShortestPrefill, EarliestDeadline])
def test_a_negative_duration_is_refused(kind: Callable[[int], Policy]) -> None:
    with pytest.raises(ConfigError, match="at least 0"):
        kind(-1)


# ── who gets rows ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("exact", [False, True])
def test_an_urgent_prompt_gets_its_rows_before_one_that_is_under_way(exact: bool) -> None:  # noqa: FBT001 - a table
    requests = [ask(1, 200, priority=5), ask(2, 60, at=40 * MS)]
    urgent, plain = (
        run(new_scheduler(policy, slots=2, per_step=20, exact=exact), requests)
        for policy in (Priority(LEVEL), FirstComeFirstServed())
    )
    assert urgent.first_tokens == [2, 1]
    assert plain.first_tokens == [1, 2]
    assert urgent.answers() == plain.answers()


def test_decode_rows_are_never_dropped_for_rank() -> None:
    found = served(Priority(LEVEL), ask(1, 8, 30, priority=50), ask(2, 300, at=50 * MS), slots=2, per_step=16)
    steps = [event.step for event in found.events if isinstance(event, TokenEmitted) and event.request_id == 1]
    assert steps == list(range(1, 31)), "a token in every step, while the urgent prompt is computed"
    assert found.start_of(2) < 30 * 10 * MS


# ── who yields ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_who_ranks_last_yields_though_it_was_admitted_first() -> None:
    scheduler = new_scheduler(Priority(LEVEL), slots=2, num_cells=64)
    found = run(scheduler, [ask(1, 10, 40, priority=9), ask(2, 10, 40, at=5 * MS)])
    assert set(found.yielded) == {1}
    assert found.answers() == {1: list(range(40)), 2: list(range(40))}
    scheduler = new_scheduler(FirstComeFirstServed(), slots=2, num_cells=64)
    assert set(run(scheduler, [ask(1, 10, 40), ask(2, 10, 40, at=5 * MS)]).yielded) == {2}


def test_the_one_who_ranks_first_never_yields_whatever_comes() -> None:
    requests = [ask(n, 4 + 5 * n % 13, 30, at=n * 7 * MS, priority=n * 7 % 11) for n in range(12)]
    found = run(new_scheduler(Priority(10_000 * MS), slots=4, num_cells=80), requests)
    best = min(requests, key=lambda each: each.priority)
    assert found.yielded
    assert best.request_id not in found.yielded
    assert found.num_ended() == len(requests)


# ── priority inversion ──────────────────────────────────────────────────────────────────────────────────────────────

PREFIX = tuple(range(500, 620))


def inversion(policy: Policy) -> Run:
    """One of no importance computes a prefix, one of middling importance its own prompt; an urgent one needs the first.

    Three slots, 20 prompt rows a step.
    """
    requests = [
        ask(1, (*PREFIX, 1), priority=50, cache_scope="a"),
        ask(2, 400, at=25 * MS, cache_scope="b"),
        ask(3, (*PREFIX, 2), at=35 * MS, priority=-50, cache_scope="a"),
    ]
    scheduler = new_scheduler(policy, slots=3, per_step=20, starts=Following(), reuse=ReuseRules())
    return run(scheduler, requests)


def test_a_leader_gets_its_rows_by_the_rank_of_who_waits_for_it() -> None:
    found = inversion(Priority(LEVEL))
    assert found.first_tokens[0] == 3, "its leader goes first for as long as it computes the prefix"
    assert found.first_step(3) < found.first_step(2) <= found.first_step(1), "and last for its own token after it"
    rows = [row for step in found.steps for row in step.plan.rows if isinstance(row, PrefillChunk)]
    assert sum(row.num_rows for row in rows if row.request.request_id == 3) == 1, "the prefix was computed twice"


class WithoutLoans(Priority):
    """The same ranks, with rows in the order of admission: no inversion, and no urgency either."""

    by_rank = False


def test_where_rows_go_by_admission_nothing_is_lent() -> None:
    assert inversion(WithoutLoans(LEVEL)).first_tokens[0] == 1


# ── the view ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Backwards(Ranked):
    """The latest first, in one line."""

    def rank(self, request: Request, arrival_number: int) -> tuple[int, ...]:
        del request
        return (-arrival_number,)


def test_the_view_is_in_order_whenever_it_is_looked_at() -> None:
    running: list[Progress] = []
    view = ByRank(running, lambda progress: progress.rank)
    assert not view
    for number, rank in enumerate((5, 2, 9)):
        progress = Progress(ask(rank), (rank,))
        progress.admit(SequenceId(number), number)
        running.append(progress)
    assert [each.rank for each in view] == [(2,), (5,), (9,)]
    assert [each.rank for each in view[1:]] == [(5,), (9,)]
    assert view[0].rank == (2,)
    going_through = iter(view)
    next(going_through)
    running.pop(0)
    assert [each.rank for each in going_through] == [(5,), (9,)], "who was there at the beginning"
    assert len(view) == 2


def test_a_policy_of_ones_own_needs_one_method() -> None:
    policy = Backwards()
    assert isinstance(policy, Policy)
    assert served(policy, *(ask(n, at=n) for n in range(4))).started == [0, 3, 2, 1]
