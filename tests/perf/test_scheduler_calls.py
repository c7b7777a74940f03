"""Counts of Python calls in a step: they do not depend on the machine, and seconds follow them."""

import sys
from types import FrameType

import pytest

from arriero.core.choices import PolicyWord
from arriero.core.ids import RequestId
from arriero.core.plan import Sampled
from arriero.core.request import Request
from arriero.kv.cells import CellLayout, CellManager
from arriero.kv.reuse import ReuseRules
from arriero.scheduler.admission import AtMost
from arriero.scheduler.holes import Closed
from arriero.scheduler.planners import DecodeFirst
from arriero.scheduler.policies import FirstComeFirstServed, Policy
from arriero.scheduler.policy_spec import PolicySpec
from arriero.scheduler.rules import SchedulerLimits, SchedulerRules
from arriero.scheduler.scheduler import Scheduler
from arriero.scheduler.starts import Following
from arriero.testing.simulation import CountingAnswers

CALLS_A_STEP = 50
CALLS_A_ROW = 17
CALLS_OF_REUSE = 12
CALLS_OF_A_POLICY = 8
CALLS_OF_A_LOOK = 64 * 20
CROWDED = 1100
"""Cells of headroom with which a seventeenth sequence of 1,024 cells has no room beside sixteen of eight tokens."""


def decoding(
    num_sequences: int,
    *,
    unified: bool,
    num_waiting: int = 0,
    reuse: ReuseRules | None = None,
    policy: Policy | None = None,
    headroom: int = 8,
) -> Scheduler:
    """Sequences that all decode, with others waiting behind them; with rules, prefixes are kept and holes closed.

    With the headroom of a crowd, one more slot is free and nobody fits.
    """
    is_short = headroom == CROWDED
    layout = CellLayout(
        num_sequences=num_sequences + is_short,
        num_cells=1024 * (num_sequences + is_short),
        sequence_limit=1024,
        unified=unified,
    )
    scheduler = Scheduler(
        kv=CellManager(layout, reuse=reuse),
        planner=DecodeFirst(None if reuse is None else Following()),
        policy=FirstComeFirstServed() if policy is None else policy,
        limits=SchedulerLimits(num_rows=512, headroom_per_sequence=headroom),
        rules=SchedulerRules(
            reuse=reuse,
            start=AtMost(num_sequences + is_short),
            holes=None if reuse is None else Closed(),
        ),
    )
    for each in range(num_sequences + num_waiting):
        request = Request(
            request_id=RequestId(each),
            prompt=(each, *(1,) * 7),
            max_tokens=1000,
            arrival_at=0,
            end_tokens=frozenset({-1}),
            cache_scope="a",
            tenant=str(each),
        )
        scheduler.submit(request, 0)
    for _ in range(4):
        one_step(scheduler)
    return scheduler


def one_step(scheduler: Scheduler) -> None:
    """Plan and commit."""
    plan = scheduler.plan(0)
    outcome = CountingAnswers().to(plan)
    assert isinstance(outcome, Sampled)
    scheduler.commit(outcome, 0)


def count_calls(scheduler: Scheduler) -> int:
    """Calls of Python functions inside `plan` and `commit` of one step."""
    count = 0

    def profile(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        del frame, arg
        count += event == "call"

    sys.setprofile(profile)
    plan = scheduler.plan(0)
    sys.setprofile(None)
    outcome = CountingAnswers().to(plan)
    assert len(plan.rows) == plan.shape.decode_rows
    sys.setprofile(profile)
    scheduler.commit(outcome, 0)
    sys.setprofile(None)
    return count


@pytest.mark.perf
@pytest.mark.parametrize("unified", [True, False])
@pytest.mark.parametrize("num_sequences", [1, 4, 16, 64])
def test_a_decode_step_costs_so_many_calls_a_row(num_sequences: int, unified: bool) -> None:  # noqa: FBT001 - a parameter
    count = count_calls(decoding(num_sequences, unified=unified))
    assert count <= CALLS_A_STEP + CALLS_A_ROW * num_sequences


@pytest.mark.perf
@pytest.mark.parametrize("word", PolicyWord)
def test_requests_that_wait_cost_nothing_in_a_step(word: PolicyWord) -> None:
    few, many = (
        count_calls(decoding(4, unified=True, num_waiting=waiting, policy=PolicySpec(word=word.value).new()))
        for waiting in (1, 500)
    )
    assert few == many


@pytest.mark.perf
@pytest.mark.parametrize("word", PolicyWord)
def test_where_nobody_fits_a_step_looks_at_few_of_those_who_wait(word: PolicyWord) -> None:
    def most_calls(num_waiting: int) -> int:
        policy = PolicySpec(word=word.value).new()
        crowd = decoding(16, unified=True, num_waiting=num_waiting, reuse=ReuseRules(), policy=policy, headroom=CROWDED)
        return max(count_calls(crowd) for _ in range(9))

    some, many = most_calls(100), most_calls(1000)
    assert some == many
    assert many <= CALLS_A_STEP + 16 * CALLS_A_ROW + CALLS_OF_A_LOOK


@pytest.mark.perf
@pytest.mark.parametrize("word", [PolicyWord.PRIORITY, PolicyWord.FAIR_SHARE])
def test_a_policy_costs_a_few_calls_a_row(word: PolicyWord) -> None:
    policy = PolicySpec(word=word.value).new()
    count = count_calls(decoding(16, unified=True, num_waiting=500, policy=policy))
    usual = count_calls(decoding(16, unified=True, num_waiting=500))
    assert count - usual <= CALLS_OF_A_POLICY * 16


@pytest.mark.perf
@pytest.mark.parametrize("unified", [True, False])
def test_prefix_reuse_costs_a_decode_step_a_few_calls_however_many_rows_it_has(unified: bool) -> None:  # noqa: FBT001 - a parameter
    few, many = (
        count_calls(decoding(number, unified=unified, num_waiting=9, reuse=ReuseRules()))
        - count_calls(decoding(number, unified=unified, num_waiting=9))
        for number in (2, 32)
    )
    assert few == many <= CALLS_OF_REUSE
