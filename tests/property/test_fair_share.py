"""The bound of the fair share: what two tenants get while both have requests waiting differs by a constant."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from arriero.core.plan import DecodeRow
from arriero.core.request import Request
from arriero.scheduler.fair_share import FairShare
from arriero.scheduler.policies import FirstComeFirstServed, Policy
from arriero.sim.simulator import Simulator, Submission
from arriero.testing.simulation import CountingAnswers
from tests.unit.scheduler.policy_runs import COST, MS, ask, new_scheduler

LONGEST_PROMPT = 24
LONGEST_ANSWER = 6
TENANTS = ("a", "b", None)


@dataclass(frozen=True, slots=True)
class House:
    """Where they are served; with few cells, some yield and are computed again."""

    slots: int
    num_cells: int
    per_step: int

    def bound(self, weight: int) -> int:
        """How far service may drift apart while two tenants have requests waiting.

        One is chosen while it has no more than the other, and then gets what it was chosen for, its prompt and at most
        the answers of all slots. What is promised and not computed is off by the prompts of all slots.
        """
        computed_again = LONGEST_PROMPT + LONGEST_ANSWER
        ahead = computed_again + weight * self.slots * LONGEST_ANSWER
        return 2 * (ahead + self.slots * computed_again) + 2 * self.slots * computed_again


def drift(policy: Policy, house: House, requests: Sequence[Request], weight: int) -> int:
    """The most by which the service of two tenants differs between two moments, both having requests waiting."""
    scheduler = new_scheduler(policy, slots=house.slots, num_cells=house.num_cells, per_step=house.per_step)
    served: Counter[str | None] = Counter()
    ranges: dict[tuple[str | None, str | None], tuple[int, int]] = {}
    worst = 0
    simulator = Simulator(scheduler=scheduler, cost=COST, answers=CountingAnswers(), check=True)
    for step in simulator.run([Submission(request) for request in requests]):
        for row in step.plan.rows:
            served[row.request.tenant] += weight if isinstance(row, DecodeRow) else row.num_rows
        waiting = {progress.request.tenant for progress in scheduler.inspect().waiting}
        for pair in combinations(TENANTS, 2):
            if not waiting.issuperset(pair):
                ranges.pop(pair, None)
                continue
            now = served[pair[0]] - served[pair[1]]
            low, high = ranges.get(pair, (now, now))
            ranges[pair] = low, high = min(low, now), max(high, now)
            worst = max(worst, high - low)
    assert not scheduler.has_work
    return worst


@st.composite
def crowds(draw: st.DrawFn) -> list[Request]:
    """Requests of tenants with habits: long prompts or short ones, long answers or short ones, at once or in turn."""
    found: list[Request] = []
    for tenant in TENANTS:
        longest = draw(st.sampled_from((1, 4, LONGEST_PROMPT)))
        talks = draw(st.sampled_from((1, LONGEST_ANSWER)))
        pause = draw(st.sampled_from((0, 0, 30, 200)))
        at = draw(st.integers(0, 400))
        for _ in range(draw(st.integers(5, 25))):
            at += draw(st.integers(0, pause))
            prompt, answer = draw(st.integers(1, longest)), draw(st.integers(1, talks))
            found.append(ask(len(found), prompt, answer, at * MS, tenant=tenant))
    return found


@given(
    crowds(),
    st.builds(House, slots=st.integers(1, 4), num_cells=st.sampled_from((40, 400)), per_step=st.sampled_from((5, 64))),
    st.sampled_from((1, 2)),
)
def test_service_of_tenants_that_wait_stays_within_a_constant(
    requests: list[Request], house: House, weight: int
) -> None:
    assert drift(FairShare(weight), house, requests, weight) <= house.bound(weight)


def test_first_come_first_served_knows_no_such_bound() -> None:
    house = House(slots=2, num_cells=400, per_step=64)
    greedy = [ask(n, LONGEST_PROMPT, 2, n, tenant="a") for n in range(0, 400, 2)]
    modest = [ask(n, 1, 2, n, tenant="b") for n in range(1, 400, 2)]
    requests = sorted((*greedy, *modest), key=lambda each: each.arrival_at)
    assert drift(FirstComeFirstServed(), house, requests, 2) > 8 * house.bound(2)
    assert drift(FairShare(2), house, requests, 2) <= house.bound(2) / 2


def test_a_tenant_that_comes_late_does_not_make_up_for_the_time_before() -> None:
    house = House(slots=2, num_cells=400, per_step=64)
    early = [ask(n, LONGEST_PROMPT, 2, 0, tenant="a") for n in range(200)]
    late = [ask(200 + n, LONGEST_PROMPT, 2, 1500 * MS, tenant="b") for n in range(60)]
    assert drift(FairShare(2), house, [*early, *late], 2) <= house.bound(2) / 2
