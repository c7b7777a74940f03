"""Any sequence of verbs under any policy: every invariant holds, everybody ends, and twice the same is the same."""

from collections.abc import Callable
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from arriero.core.choices import PolicyWord
from arriero.core.events import CancelById, CancelWaiting, Event, Finished, Queued
from arriero.core.ids import RequestId, Time
from arriero.core.plan import Row
from arriero.scheduler.invariants import check_scheduler
from arriero.scheduler.policy_spec import PolicySpec
from arriero.testing.strategies import (
    SCOPES,
    Pick,
    SchedulerSetup,
    hypothesis_pick,
    pick_outcome,
    pick_prompt,
    pick_request,
    pick_reuse_setup,
)

WORDS = tuple(PolicyWord)
NUM_IDS = 12


class Session:
    """One scheduler, used in every way; the picks decide."""

    def __init__(self, setup: SchedulerSetup, pick: Pick) -> None:
        self.pick = pick
        self.setup = setup
        self.scheduler = setup.new_scheduler()
        self.now: Time = 0
        self.told: list[Event | Row] = []
        self._prompts: list[tuple[int, ...]] = []
        self._epoch = 0

    def submit(self) -> None:
        """Somebody with a rank of any kind."""
        self._epoch += 1
        prompt = pick_prompt(self.pick, self._prompts, self.setup.layout.sequence_limit)
        self._prompts.append(prompt)
        request = pick_request(
            self.pick,
            request_id=self.pick(1, NUM_IDS),
            epoch=self._epoch,
            arrival_at=self.now,
            prompt=prompt,
            cache_scope=SCOPES[self.pick(0, len(SCOPES) - 1)],
        )
        ranked = replace(
            request,
            priority=self.pick(0, 4) - 2,
            deadline_at=self.now + self.pick(0, 40) if self.pick(0, 1) else None,
            tenant=(None, "x", "y")[self.pick(0, 2)],
        )
        self._hear(self.scheduler.submit(ranked, self.now))

    def cancel(self) -> None:
        """Somebody, alive or not."""
        self._hear(self.scheduler.cancel(CancelById(RequestId(self.pick(1, NUM_IDS))), self.now))

    def step(self) -> bool:
        """Plan and commit whatever it came to; whether there were rows."""
        plan = self.scheduler.plan(self.now)
        self._hear(plan.events)
        self.told += plan.rows
        if plan.rows:
            self.now += self.pick(0, 2)
            outcome = pick_outcome(self.pick, plan, self.setup.layout.num_sequences)
            self._hear(self.scheduler.commit(outcome, self.now))
        self.now += self.pick(0, 2)
        check_scheduler(self.scheduler)
        return bool(plan.rows)

    def drain(self) -> None:
        """Go on without faults until nobody is left; who can never start, as all ids are out of service, is told."""
        self.pick = lambda low, _: low
        num_idle = 0
        for _ in range(5_000):
            if not self.scheduler.has_work:
                break
            num_idle = 0 if self.step() else num_idle + 1
            if num_idle > 3:
                self._hear(self.scheduler.cancel(CancelWaiting(), self.now))
            self.now += 1
        assert not self.scheduler.has_work, "requests are left that never end"
        assert self._count(Queued) == self._count(Finished)

    def _count(self, kind: type[Queued | Finished]) -> int:
        return sum(isinstance(each, kind) for each in self.told)

    def _hear(self, events: tuple[Event, ...]) -> None:
        self.told += events


def play(setup: SchedulerSetup, pick: Pick, num_verbs: int) -> Session:
    """So many verbs, then the end."""
    session = Session(setup, pick)
    for _ in range(num_verbs):
        kind = pick(0, 9)
        if kind < 3:
            session.submit()
        elif kind == 9:
            session.cancel()
        else:
            session.step()
    session.drain()
    return session


class Tape:
    """A pick that remembers, and can be played again."""

    def __init__(self, pick: Pick) -> None:
        self._pick = pick
        self.numbers: list[int] = []

    def record(self, low: int, high: int) -> int:
        self.numbers.append(self._pick(low, high))
        return self.numbers[-1]

    def played(self) -> Callable[[int, int], int]:
        numbers = iter(self.numbers)
        return lambda _, __: next(numbers)


@given(st.data(), st.sampled_from(WORDS), st.integers(10, 60))
@settings(max_examples=max(10, settings().max_examples // 2))
def test_every_invariant_holds_everybody_ends_and_decisions_repeat(
    data: st.DataObject, word: PolicyWord, num_verbs: int
) -> None:
    pick = hypothesis_pick(data.draw)
    spec = PolicySpec(word=word.value, ageing=pick(0, 12))
    setup = replace(pick_reuse_setup(pick), reversed_policy=False, policy=spec.new)
    tape = Tape(pick)
    first = play(setup, tape.record, num_verbs)
    again = play(setup, tape.played(), num_verbs)
    assert list(map(repr, again.told)) == list(map(repr, first.told))
