"""Every policy passes the same suite."""

from collections.abc import Callable

import pytest

from arriero.core.choices import PolicyWord
from arriero.scheduler.fair_share import FairShare
from arriero.scheduler.longest_match import LongestMatch
from arriero.scheduler.policies import FirstComeFirstServed, Policy
from arriero.scheduler.policy_spec import PolicySpec
from arriero.scheduler.ranked import EarliestDeadline, Priority, ShortestPrefill
from arriero.testing.suites_policy import POLICY_CHECKS, PolicyCheck, check_policy

POLICIES: dict[str, Callable[[], Policy]] = {
    **{word.value: PolicySpec(word=word.value, ageing=50).new for word in PolicyWord},
    "priority-without-ageing": lambda: Priority(0),
    "priority-that-hardly-ages": lambda: Priority(10**9),
    "shortest-prefill-strictly": lambda: ShortestPrefill(10**9),
    "deadline-or-at-once": lambda: EarliestDeadline(0),
    "fair-share-of-rows": lambda: FairShare(1),
    "longest-match-of-two": lambda: LongestMatch(window=2, max_overtakes=1),
    "longest-match-overtaking-nobody": lambda: LongestMatch(max_overtakes=0),
}


@pytest.mark.parametrize("check", POLICY_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("make", POLICIES.values(), ids=POLICIES)
def test_a_policy_conforms(make: Callable[[], Policy], check: PolicyCheck) -> None:
    check(make)


def test_the_suite_finds_a_policy_whose_order_wavers() -> None:
    class Wavering(FirstComeFirstServed):
        """Ranks by how often it was asked."""

        def __init__(self) -> None:
            self.num_asked = 0

        def rank(self, request: object, arrival_number: int) -> tuple[int, ...]:
            del request
            self.num_asked += 1
            return (-self.num_asked, arrival_number) if self.num_asked % 5 else (0, -arrival_number)

    with pytest.raises(AssertionError):
        check_policy(Wavering)
