"""Who goes first by what memory holds of its prompt, how often others are overtaken, and what a look costs."""

from dataclasses import dataclass

import pytest

from arriero.core.errors import ConfigError
from arriero.core.ids import SequenceId
from arriero.core.plan import Deferral
from arriero.kv.protocol import PrefixHit
from arriero.kv.reuse import ReuseRules
from arriero.scheduler.draft import UNMETERED, StepDraft
from arriero.scheduler.longest_match import WINDOW, LongestMatch
from arriero.scheduler.progress import Progress
from arriero.scheduler.starts import Following, InOrder, Starts
from tests.unit.scheduler.policy_runs import MS, ask, new_scheduler, run
from tests.unit.scheduler.test_starts import Hall

PREFIX = tuple(range(100))


@dataclass
class Lobby(Hall):
    """A hall whose guests know that they have been let in."""

    def admit(self, progress: Progress, hit: PrefixHit | None = None) -> Deferral | None:
        reason = super().admit(progress, hit)
        if reason is None:
            progress.admit(SequenceId(len(self.started)), len(self.started))
        return reason

    def serve(self, policy: LongestMatch, starts: Starts | None = None) -> list[int]:
        """Who has started in one step."""
        before = len(self.started)
        draft = StepDraft(self, num_rows=64, budget=UNMETERED)
        (InOrder() if starts is None else starts).start(draft, policy.queue(self.waiting, draft))
        policy.served([], 1)
        return self.started[before:]


def lobby(*numbers: int, slots: int = 99) -> Lobby:
    made = Lobby(slots=slots)
    made.arrive(*numbers)
    return made


def test_the_longest_match_goes_first_and_equals_by_arrival() -> None:
    room = lobby(1, 2, 3, 4, 5)
    room.hits = {2: 40, 3: 90, 5: 40}
    assert room.serve(LongestMatch()) == [3, 2, 5, 1, 4]


def test_what_is_found_is_what_memory_holds() -> None:
    requests = [
        ask(0, (*PREFIX, 0), 20, cache_scope="a"),
        ask(1, 20, at=MS, cache_scope="a"),
        ask(2, (*PREFIX[:60], 2), at=2 * MS, cache_scope="a"),
        ask(3, (*PREFIX, 3), at=3 * MS, cache_scope="b"),
        ask(4, (*PREFIX, 4), at=4 * MS, cache_scope="a"),
    ]
    found = run(new_scheduler(LongestMatch(), reuse=ReuseRules()), requests)
    assert found.started == [0, 4, 2, 1, 3]


def test_only_the_first_of_the_queue_are_looked_at_and_the_others_follow_by_arrival() -> None:
    room = lobby(*range(1, 9))
    room.hits = {3: 10, 7: 90}
    assert room.serve(LongestMatch(window=4)) == [3, 1, 2, 4, 5, 6, 7, 8]
    assert room.num_lookups == 4


def test_nobody_is_overtaken_more_often_than_so() -> None:
    room, policy = lobby(1, 2, slots=0), LongestMatch(max_overtakes=3)
    room.hits = dict.fromkeys(range(3, 30), 40)
    for number in range(3, 12):
        room.arrive(number)
        room.slots += 1
        room.serve(policy)
    assert room.started == [3, 4, 5, 1, 2, 6, 7, 8, 9]


def test_several_that_start_in_one_step_count_one_by_one() -> None:
    room = lobby(*range(1, 9))
    room.hits = dict.fromkeys(range(2, 9), 40)
    assert room.serve(LongestMatch(max_overtakes=2)) == [2, 3, 1, 4, 5, 6, 7, 8]


def test_only_those_who_came_before_are_overtaken() -> None:
    room, policy = lobby(1, 2, slots=0), LongestMatch(max_overtakes=1)
    room.hits = {1: 90, 3: 40}
    room.slots = 1
    assert room.serve(policy) == [1], "nobody waited before it"
    room.arrive(3)
    room.slots = 2
    assert room.serve(policy) == [3]
    room.arrive(4)
    room.hits = {4: 90}
    room.slots = 3
    assert room.serve(policy) == [2]


def test_one_that_does_not_fit_is_not_overtaken_by_worse_matches() -> None:
    room = lobby(1, 2, 3)
    room.hits, room.too_large = {2: 40, 3: 20}, {2}
    assert room.serve(LongestMatch()) == []


def test_with_followers_those_who_wait_for_a_prefix_are_passed() -> None:
    room = lobby(1, 2, 3)
    room.hits, room.to_come = {2: 40, 3: 20}, {2: 90}
    assert room.serve(LongestMatch(), Following()) == [3, 1]


def test_nobody_is_looked_at_where_nobody_can_start() -> None:
    room = lobby(1, 2, 3, slots=0)
    for starts in (InOrder(), Following()):
        assert room.serve(LongestMatch(), starts) == []
    assert room.num_lookups == 0


def test_where_nobody_fits_an_order_is_kept_for_some_steps() -> None:
    room, policy = lobby(*range(1, 200)), LongestMatch()
    room.too_large = set(range(1, 200))
    for _ in range(16):
        assert room.serve(policy) == []
    assert room.num_lookups == 2 * WINDOW
    room.waiting.remove(next(iter(room.waiting)))
    assert room.serve(policy) == []
    assert room.num_lookups == 3 * WINDOW, "the window has changed"


def test_what_comes_to_be_found_counts_within_those_steps() -> None:
    room, policy = lobby(1, 2), LongestMatch()
    room.too_large = {1}
    assert room.serve(policy) == []
    room.hits = {2: 40}
    assert [room.serve(policy) for _ in range(8)][-1] == [2]


@pytest.mark.parametrize(("window", "max_overtakes"), [(0, 1), (1, -1)])
def test_bounds_that_make_no_sense_are_refused(window: int, max_overtakes: int) -> None:
    with pytest.raises(ConfigError, match="at least 1 and 0"):
        LongestMatch(window=window, max_overtakes=max_overtakes)
