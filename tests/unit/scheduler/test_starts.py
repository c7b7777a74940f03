"""Who is offered a slot, in which order, and who waits for whom."""

from dataclasses import dataclass, field

import pytest

from arriero.core.ids import RequestId
from arriero.core.plan import Deferral
from arriero.core.request import Request
from arriero.kv.protocol import PrefixHit
from arriero.scheduler.draft import UNMETERED, StepDraft
from arriero.scheduler.progress import Progress
from arriero.scheduler.starts import Following, InOrder, ReuseFirst, Starts
from arriero.scheduler.waiting import WaitingQueue
from tests.unit.scheduler.test_draft import EndlessRoom


@dataclass
class Hall(EndlessRoom):
    """Slots, what each request finds in memory, and what it will find."""

    waiting: WaitingQueue = field(default_factory=WaitingQueue)
    slots: int = 99
    hits: dict[int, int] = field(default_factory=dict[int, int])
    to_come: dict[int, int] = field(default_factory=dict[int, int])
    too_large: set[int] = field(default_factory=set[int])
    started: list[int] = field(default_factory=list[int])
    overtaken: list[int] = field(default_factory=list[int])
    lenders: list[int] = field(default_factory=list[int])
    num_lookups: int = 0

    def lookup(self, progress: Progress) -> PrefixHit:
        self.num_lookups += 1
        return PrefixHit(self.hits.get(progress.request.request_id, 0))

    def foreseen(self, progress: Progress) -> int:
        return self.to_come.get(progress.request.request_id, 0)

    def lend(self, progress: Progress) -> None:
        self.lenders.append(progress.request.request_id)

    def closed_to_all(self) -> Deferral | None:
        return Deferral.SLOTS if len(self.started) >= self.slots else None

    def overtake(self, progress: Progress, hit: PrefixHit) -> Deferral | None:
        reason = self.admit(progress, hit)
        if reason is None:
            self.overtaken.append(progress.request.request_id)
        return reason

    def admit(self, progress: Progress, hit: PrefixHit | None = None) -> Deferral | None:
        del hit
        number = progress.request.request_id
        if (closed := self.closed_to_all()) is not None:
            return closed
        if number in self.too_large:
            return Deferral.KV
        self.waiting.remove(progress)
        self.started.append(number)
        return None

    def arrive(self, *numbers: int) -> None:
        for number in numbers:
            request = Request(request_id=RequestId(number), prompt=(1,) * 9, max_tokens=4, arrival_at=0)
            self.waiting.add(Progress(request, (number,)))

    def step(self, starts: Starts) -> tuple[list[int], dict[Deferral, int]]:
        """Who has started in one step, and why others have not."""
        before = len(self.started)
        draft = StepDraft(self, num_rows=64, budget=UNMETERED)
        starts.start(draft, self.waiting)
        return self.started[before:], draft.deferrals


def hall(*numbers: int, slots: int = 99) -> Hall:
    made = Hall(slots=slots)
    made.arrive(*numbers)
    return made


@pytest.mark.parametrize("starts", [InOrder(), Following(), ReuseFirst()])
def test_a_head_that_does_not_fit_keeps_those_behind_it_waiting(starts: Starts) -> None:
    room = hall(1, 2, 3)
    room.too_large = {2}
    assert room.step(starts) == ([1], {Deferral.KV: 1})


# ── followers ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_follower_waits_from_so_many_rows_on_and_lets_others_pass() -> None:
    room = hall(1, 2, 3)
    room.to_come = {1: 40, 2: 31}
    assert room.step(Following()) == ([2, 3], {Deferral.PREFIX: 1})
    assert room.lenders == [1]


def test_what_it_finds_already_is_nothing_to_wait_for() -> None:
    room = hall(1, 2)
    room.to_come, room.hits = {1: 100, 2: 100}, {1: 69, 2: 68}
    assert room.step(Following()) == ([1], {Deferral.PREFIX: 1})


def test_who_has_begun_to_wait_waits_until_nothing_is_left_to_be_saved() -> None:
    room, starts = hall(1), Following()
    room.to_come = {1: 100}
    for found in (0, 60, 80, 99):
        room.hits = {1: found}
        assert room.step(starts) == ([], {Deferral.PREFIX: 1})
    room.arrive(2)
    room.hits[2] = room.to_come[2] = 99
    room.to_come[2] = 100
    assert room.step(starts)[0] == [2], "one row is no reason to begin to wait"
    room.hits = {1: 100}
    assert room.step(starts)[0] == [1]


def test_when_the_leader_is_gone_the_first_follower_starts() -> None:
    room, starts = hall(1, 2), Following()
    room.to_come = {1: 100, 2: 100}
    assert room.step(starts)[0] == []
    room.to_come = {}
    room.hits = {1: 40, 2: 40}
    assert room.step(starts)[0] == [1, 2]


def test_a_long_queue_of_followers_is_not_searched_to_its_end() -> None:
    room = hall(*range(1, 100))
    room.to_come = dict.fromkeys(range(1, 100), 50)
    assert room.step(Following(max_followers=7)) == ([], {Deferral.PREFIX: 7})
    assert room.num_lookups == 7


def test_nothing_is_looked_up_where_nobody_can_start() -> None:
    room = hall(1, 2, slots=0)
    assert room.step(Following()) == ([], {Deferral.SLOTS: 1})
    assert room.step(ReuseFirst()) == ([], {Deferral.SLOTS: 1})
    assert room.num_lookups == 0


# ── continuations first ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_continuation_overtakes_those_who_wait() -> None:
    room = hall(1, 2, 3, slots=1)
    room.hits = {3: 40}
    assert room.step(ReuseFirst())[0] == [3]
    assert room.overtaken == [3]


def test_a_continuation_at_the_head_overtakes_nobody() -> None:
    room = hall(1, 2, slots=1)
    room.hits = {1: 40}
    assert room.step(ReuseFirst())[0] == [1]
    assert room.overtaken == []


def test_a_continuation_that_does_not_fit_keeps_nobody_waiting() -> None:
    room = hall(1, 2, 3)
    room.hits, room.too_large = {2: 40, 3: 40}, {2}
    assert room.step(ReuseFirst())[0] == [3, 1]


def test_nobody_is_overtaken_more_often_than_so() -> None:
    room, starts = hall(1, slots=0), ReuseFirst(max_overtakes=3)
    room.hits = dict.fromkeys(range(2, 20), 40)
    for number in range(2, 8):
        room.arrive(number)
        room.slots += 1
        room.step(starts)
    assert room.started == [2, 3, 4, 1, 5, 6]
    assert room.overtaken == [2, 3, 4]


def test_several_overtakes_of_one_step_count_one_by_one() -> None:
    room = hall(1, 2, 3, 4, 5)
    room.too_large = {1}
    room.hits = dict.fromkeys(range(2, 6), 40)
    assert room.step(ReuseFirst(max_overtakes=2))[0] == [2, 3]


def test_one_who_comes_back_to_the_head_does_not_hide_who_was_overtaken() -> None:
    room, starts = hall(5, slots=0), ReuseFirst(max_overtakes=2)
    room.hits = dict.fromkeys((6, 7, 8), 40)
    for number in (6, 7):
        room.arrive(number)
        room.slots += 1
        room.step(starts)
    room.arrive(1, 8)  # 1 was preempted and has an older rank
    room.slots += 1
    assert room.step(starts)[0] == [1]


def test_no_overtaking_at_all_is_the_plain_order() -> None:
    room = hall(1, 2, 3)
    room.hits = {3: 40}
    assert room.step(ReuseFirst(max_overtakes=0))[0] == [1, 2, 3]
    assert room.overtaken == []
