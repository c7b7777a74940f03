"""Who goes first under a fair share, and what a tenant pays for."""

import pytest

from arriero.core.errors import ConfigError
from arriero.core.events import CancelById
from arriero.core.ids import RequestId, SequenceId
from arriero.core.plan import Sampled
from arriero.core.request import Request
from arriero.kv.reuse import ReuseRules
from arriero.scheduler.fair_share import Accounts, FairShare
from arriero.scheduler.progress import Progress
from arriero.scheduler.scheduler import Scheduler
from arriero.scheduler.starts import Following
from arriero.scheduler.waiting import WaitingQueue
from tests.unit.scheduler.policy_runs import MS, ask, new_scheduler, run


def tenants_of(started: list[int], requests: list[Request]) -> str:
    names = {request.request_id: request.tenant or "-" for request in requests}
    return "".join(names[RequestId(number)] for number in started)


def test_a_crowd_of_one_tenant_does_not_delay_another_one() -> None:
    crowd = [ask(n, tenant="a") for n in range(20)]
    guest = [ask(100 + n, at=MS, tenant="b") for n in range(3)]
    found = run(new_scheduler(FairShare()), [*crowd, *guest])
    assert tenants_of(found.started, [*crowd, *guest]).startswith("abababaaa")


def test_long_prompts_are_paid_for_when_they_start_not_when_they_are_computed() -> None:
    long = [ask(n, 200, 4, tenant="a") for n in range(8)]
    short = [ask(100 + n, 4, 4, tenant="b") for n in range(60)]
    found = run(new_scheduler(FairShare(), slots=4, per_step=20), [*long, *short])
    order = tenants_of(found.started, [*long, *short])
    assert order.startswith("abbb"), "it would have got all slots before a row of the first prompt is computed"
    assert 18 <= order[1:].index("a") <= 24, "200 tokens and an answer are worth some twenty times 4 and an answer"


def test_those_without_a_tenant_are_one_tenant() -> None:
    nameless = [ask(n) for n in range(9)]
    named = [ask(100 + n, at=MS, tenant="a") for n in range(3)]
    found = run(new_scheduler(FairShare()), [*nameless, *named])
    assert tenants_of(found.started, [*nameless, *named]).startswith("-a-a-a---")


def test_time_in_which_a_tenant_asked_for_nothing_is_not_made_up_for() -> None:
    busy = [ask(n, tenant="a") for n in range(40)]
    late = [ask(100 + n, at=500 * MS, tenant="b") for n in range(6)]
    found = run(new_scheduler(FairShare()), [*busy, *late])
    order = tenants_of(found.started, [*busy, *late])
    first = order.index("b")
    assert order[first : first + 11].count("b") in (5, 6)
    assert "bb" not in order


def test_a_tenant_that_comes_back_while_nobody_waits_is_not_ahead_of_the_last_one_either() -> None:
    alone = [ask(0, 200, 20, tenant="a"), ask(1, 4, 4, at=MS, tenant="a")]
    both = [ask(10 + n, at=2000 * MS + n, tenant="ab"[n % 2]) for n in range(8)]
    found = run(new_scheduler(FairShare()), [*alone, *both])
    assert tenants_of(found.started, [*alone, *both]) == "aaabababab"


def test_what_lies_in_memory_costs_nothing() -> None:
    prefix = tuple(range(100))
    first = ask(0, (*prefix, 0), tenant="a", cache_scope="x")
    shared = [ask(n, (*prefix, n), at=200 * MS, tenant="a", cache_scope="x") for n in range(1, 13)]
    own = [ask(100 + n, 101, at=200 * MS, tenant="b", cache_scope="y") for n in range(12)]
    found = run(new_scheduler(FairShare(), starts=Following(), reuse=ReuseRules()), [first, *shared, *own])
    order = tenants_of(found.started, [first, *shared, *own])
    assert order[1:].index("b" * 2) > 12, "all those who share go before the second one who does not"


def commit(scheduler: Scheduler) -> list[int]:
    """One step; the requests that had rows in it."""
    plan = scheduler.plan(0)
    if plan.rows:
        scheduler.commit(Sampled(tokens={row.sequence_id: 5 for row in plan.rows if row.wants_logits}), 0)
    return [row.request.request_id for row in plan.rows]


def test_a_prompt_that_is_cancelled_costs_what_was_computed_of_it() -> None:
    policy = FairShare()
    scheduler = new_scheduler(policy, slots=1, per_step=10)
    scheduler.submit(ask(0, 300, 4, tenant="a"), 0)
    commit(scheduler)
    scheduler.submit(ask(1, 4, 4, tenant="a"), 0)
    scheduler.submit(ask(2, 40, 4, tenant="b"), 0)  # lifted to what the other one is due: 300
    scheduler.submit(ask(3, 4, 4, tenant="b"), 0)
    scheduler.cancel(CancelById(RequestId(0)), 0)
    commit(scheduler)
    scheduler.plan(0)  # who was cancelled rests for a step
    assert policy._accounts.due("a") == 10 + 4, "its tokens that were computed, and the next prompt"


def test_who_yields_is_the_latest_of_the_tenant_with_the_most() -> None:
    policy = FairShare()
    running: list[Progress] = []
    for number, tenant in enumerate(("a", "b", "b", "a")):
        request = ask(number, 8, tenant=tenant)
        progress = Progress(request, policy.rank(request, number))
        progress.admit(SequenceId(number), number)
        running.append(progress)
    assert policy.victim(running) is running[3], "nobody got anything: the latest"
    policy.served([running[1].chunk(8)], 1)
    assert policy.victim(running) is running[2]
    policy.served([running[0].chunk(8), running[3].chunk(1)], 1)
    assert policy.victim(running) is running[3]


def test_equal_steps_that_are_counted_together_cost_as_many() -> None:
    policy = FairShare(3)
    request = ask(0, 4, 50, tenant="a")
    progress = Progress(request, (0,))
    progress.admit(SequenceId(0), 0)
    progress.advance(progress.chunk(4))
    progress.append(1)
    policy.served([progress.decode_row()], 7)
    assert policy._accounts.due("a") == 21


def test_tenants_that_could_be_new_ones_are_forgotten() -> None:
    accounts, queue = Accounts(1), WaitingQueue()
    queue.watch(accounts)
    anchor = Progress(ask(0, 8, tenant="anchor"), (0,))
    queue.add(anchor)
    for number in range(1, 5000):
        progress = Progress(ask(number, 8, tenant=f"tenant {number}"), (number,))
        queue.add(progress)
        queue.remove(progress)
    assert len(accounts._tenants) < 2100
    assert accounts.head() is anchor


def test_a_tenant_with_more_than_its_share_is_not_forgotten() -> None:
    accounts, queue = Accounts(1), WaitingQueue()
    queue.watch(accounts)
    queue.add(Progress(ask(0, 8, tenant="anchor"), (0,)))
    greedy = Progress(ask(1, 8, tenant="greedy"), (1,))
    greedy.admit(SequenceId(0), 0)
    accounts.serve([greedy.chunk(8)], 1)
    for number in range(2, 3000):
        progress = Progress(ask(number, 8, tenant=f"tenant {number}"), (number,))
        queue.add(progress)
        queue.remove(progress)
    assert accounts.due("greedy") == 8


def test_a_token_that_costs_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least 1, not 0"):
        FairShare(0)
