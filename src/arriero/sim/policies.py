"""From the policy in a setup, as it stands in a journal, to the policy."""

from typing import assert_never

from arriero.record.journal_setup import (
    EarliestDeadlineSetup,
    FairShareSetup,
    FirstComeSetup,
    LongestMatchSetup,
    NobodyYieldsSetup,
    OwnPolicySetup,
    PolicySetup,
    PrioritySetup,
    ShortestPrefillSetup,
)
from arriero.scheduler.fair_share import FairShare
from arriero.scheduler.longest_match import LongestMatch
from arriero.scheduler.policies import FirstComeFirstServed, NobodyYields, Policy
from arriero.scheduler.ranked import EarliestDeadline, Priority, ShortestPrefill
from arriero.sim.user_policy import load_policy


def build_policy(setup: PolicySetup) -> Policy:  # noqa: PLR0911 - a table
    """A fresh policy.

    Raises:
        ConfigError: it has numbers that it cannot work with, or is somebody's own and cannot be loaded.
    """
    match setup:
        case FirstComeSetup():
            return FirstComeFirstServed()
        case NobodyYieldsSetup():
            return NobodyYields()
        case PrioritySetup(ageing=ageing):
            return Priority(ageing)
        case ShortestPrefillSetup(token_time=token_time):
            return ShortestPrefill(token_time)
        case EarliestDeadlineSetup(patience=patience):
            return EarliestDeadline(patience)
        case FairShareSetup(decode_weight=decode_weight):
            return FairShare(decode_weight)
        case LongestMatchSetup(window=window, max_overtakes=max_overtakes):
            return LongestMatch(window=window, max_overtakes=max_overtakes)
        case OwnPolicySetup(name=name):
            return load_policy(name)()
        case _:
            assert_never(setup)
