"""From a word to a policy, and to what a journal says of it."""

import pytest

from arriero.core.choices import PolicyWord
from arriero.core.errors import ConfigError
from arriero.core.ids import SequenceId
from arriero.record.journal_setup import policy_setup
from arriero.scheduler.policies import FirstComeFirstServed, NobodyYields, Policy
from arriero.scheduler.policy_spec import FCFS, PolicySpec
from arriero.scheduler.progress import Progress
from arriero.scheduler.ranked import Priority
from arriero.sim.policies import build_policy
from tests.unit.scheduler.policy_runs import ask


def traits(policy: Policy) -> dict[str, object]:
    """Its class, and the numbers that it tells."""
    return {"class": type(policy), **{name: value for name, value in vars(policy).items() if name[0] != "_"}}


@pytest.mark.parametrize("word", PolicyWord)
@pytest.mark.parametrize("ageing", [0, 7_000_000, 0.5])
def test_a_journal_says_enough_to_build_it_again(word: PolicyWord, ageing: float) -> None:
    spec = PolicySpec(word=word.value, ageing=ageing)
    assert traits(build_policy(policy_setup(spec.described()))) == traits(spec.new())
    assert spec.new() is not spec.new()


def test_first_come_first_served_is_what_one_gets_unasked() -> None:
    assert type(FCFS.new()) is FirstComeFirstServed
    assert traits(build_policy(policy_setup({"kind": "nobody_yields"}))) == traits(NobodyYields())


def test_waiting_is_worth_levels_tokens_and_patience() -> None:
    spec = PolicySpec(word="shortest-prefill", ageing=7_000_000)
    assert (spec.token_time, spec.patience) == (7000, 42_000_000)
    assert isinstance(spec.token_time, int), "whole microseconds stay whole"
    assert PolicySpec(ageing=0.5).token_time == 0.0005


def test_a_policy_of_somebodys_own_is_made_by_its_class_and_named_by_its_word() -> None:
    spec = PolicySpec(word="here:Urgent", own=lambda: Priority(3))
    assert traits(spec.new()) == {"class": Priority, "ageing": 3}
    assert spec.described() == {"kind": "own", "name": "here:Urgent"}


def test_an_ageing_that_is_negative_is_refused() -> None:
    with pytest.raises(ConfigError, match="ageing must be at least 0, not -1"):
        PolicySpec(word="priority", ageing=-1).new()


def test_where_nobody_yields_there_is_no_victim() -> None:
    progress = Progress(ask(1), (0,))
    progress.admit(SequenceId(0), 0)
    policies: list[Policy] = [NobodyYields(), FirstComeFirstServed()]
    assert [policy.victim([progress]) for policy in policies] == [None, progress]
