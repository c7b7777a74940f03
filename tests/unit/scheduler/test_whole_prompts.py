"""Planners that offer by rank, on a draft whose room never ends."""

from collections.abc import Container, Sequence

import pytest

from arriero.core.ids import RequestId, SequenceId
from arriero.core.plan import DecodeRow, Deferral, PrefillChunk
from arriero.core.request import Request
from arriero.kv.protocol import NO_HIT, PrefixHit
from arriero.scheduler.decode_given import DecodeGiven
from arriero.scheduler.draft import UNMETERED, StepDraft
from arriero.scheduler.planners import ByArrival, DecodeFirst, Planner
from arriero.scheduler.progress import Progress
from arriero.scheduler.waiting import WaitingQueue
from arriero.scheduler.whole_prompts import ArrivalOrder, DecodesThenPrompts, OversizedPrompt, PromptBounds


class Room:
    """Slots up to a number; sequence ids are request ids."""

    def __init__(self, waiting: WaitingQueue, running: list[Progress], num_slots: int) -> None:
        self.waiting, self.running, self.num_slots = waiting, running, num_slots
        self.num_asked = 0

    def lookup(self, progress: Progress) -> PrefixHit:
        del progress
        return NO_HIT

    def foreseen(self, progress: Progress) -> int:
        del progress
        return 0

    def lend(self, progress: Progress) -> None:
        del progress

    def closed_to_all(self) -> Deferral | None:
        return None

    def cells_in_use(self) -> int:
        return 0

    def overtake(self, progress: Progress, hit: PrefixHit) -> Deferral | None:
        return self.admit(progress, hit)

    def admit(self, progress: Progress, hit: PrefixHit | None = None) -> Deferral | None:
        del hit
        self.num_asked += 1
        if len(self.running) >= self.num_slots:
            return Deferral.SLOTS
        self.waiting.remove(progress)
        progress.admit(SequenceId(progress.request.request_id), 0)
        self.running.append(progress)
        return None

    def promise(self, row: PrefillChunk) -> None:
        del row

    def extend_each(self, sequence_ids: Sequence[SequenceId]) -> bool:
        del sequence_ids
        return True

    def extend(self, progress: Progress, taken: Container[SequenceId]) -> Deferral | None:
        assert progress.held_sequence not in taken
        return None


def ask(number: int, prompt: int) -> DecodeGiven:
    request = Request(request_id=RequestId(number), prompt=(1,) * prompt, max_tokens=9, arrival_at=0)
    return DecodeGiven(request, (number,))


def fill(
    planner: Planner,
    *,
    decoding: tuple[int, ...] = (),
    prefilling: dict[int, int] | None = None,
    waiting: dict[int, int] | None = None,
    rows: int = 8,
    sequences: int = 9,
    slots: int = 9,
    names: bool = False,
) -> tuple[dict[int, int], dict[Deferral, int], Room]:
    """Request → rows taken; decoding ones by number, others by number and prompt."""
    queue, running = WaitingQueue(), list[Progress]()
    for number, prompt in {**dict.fromkeys(decoding, 1), **(prefilling or {})}.items():
        progress = ask(number, prompt)
        progress.admit(SequenceId(number), 0)
        if number in decoding:
            progress.advance(progress.chunk(prompt))
        running.append(progress)
    for number, prompt in (waiting or {}).items():
        queue.add(ask(number, prompt))
    room = Room(queue, running, slots)
    draft = StepDraft(room, num_rows=rows, budget=UNMETERED, num_sequences=sequences, names_deferred=names)
    planner.fill(draft, running, queue)
    taken = {int(row.sequence_id): row.num_rows for row in draft.rows()}
    assert all(isinstance(row, DecodeRow) == (row.sequence_id in decoding) for row in draft.rows())
    return taken, draft.deferrals, room


def test_an_older_prompt_goes_before_a_younger_answer_in_arrival_order() -> None:
    assert fill(ByArrival(), decoding=(2, 3), prefilling={1: 10}, rows=5)[0] == {1: 5}
    assert fill(DecodeFirst(), decoding=(2, 3), prefilling={1: 10}, rows=5)[0] == {1: 3, 2: 1, 3: 1}


def test_by_arrival_starts_in_between_and_nobody_overtakes_a_head_that_does_not_fit() -> None:
    taken, deferrals, _ = fill(ByArrival(), decoding=(3,), waiting={1: 2, 2: 2, 4: 1}, slots=2)
    assert taken == {1: 2, 3: 1}
    assert deferrals == {Deferral.SLOTS: 1}


@pytest.mark.parametrize("planner", [DecodesThenPrompts(), ArrivalOrder()])
def test_a_prompt_that_does_not_fit_is_passed_over(planner: Planner) -> None:
    taken, deferrals, _ = fill(planner, decoding=(1,), waiting={2: 9, 3: 4, 4: 4, 5: 3}, rows=8)
    assert taken == {1: 1, 3: 4, 5: 3}
    assert deferrals == {Deferral.ROWS: 2}


def test_who_comes_first_takes_the_rows() -> None:
    assert fill(ArrivalOrder(), decoding=(2,), waiting={1: 8}, rows=8)[0] == {1: 8}
    assert fill(DecodesThenPrompts(), decoding=(2,), waiting={1: 8}, rows=8)[0] == {2: 1}


@pytest.mark.parametrize("names", [False, True])
@pytest.mark.parametrize("planner", [DecodesThenPrompts(), ArrivalOrder()])
def test_a_long_queue_is_not_gone_through_once_sequences_are_used_up(planner: Planner, names: bool) -> None:  # noqa: FBT001
    waiting = dict.fromkeys(range(10, 200), 1)
    taken, deferrals, room = fill(planner, decoding=(1, 2), waiting=waiting, rows=99, sequences=3, names=names)
    assert taken == {1: 1, 2: 1, 10: 1}
    assert deferrals == {Deferral.SEQUENCES: 189}
    assert room.num_asked == 1


def test_slots_are_missing_for_all_alike() -> None:
    _, deferrals, room = fill(DecodesThenPrompts(), waiting=dict.fromkeys(range(100), 1), slots=2)
    assert deferrals == {Deferral.SLOTS: 98}
    assert room.num_asked == 3


def test_bounds_say_when_no_prompt_can_fit_any_more() -> None:
    planner = DecodesThenPrompts(PromptBounds(fewest_rows=3))
    taken, deferrals, _ = fill(planner, waiting={1: 6, 2: 3, 3: 3}, rows=8)
    assert taken == {1: 6}
    assert deferrals == {Deferral.ROWS: 2}


def test_an_empty_prompt_fits_when_all_rows_are_taken() -> None:
    assert fill(DecodesThenPrompts(), waiting={1: 8, 2: 0}, rows=8)[0] == {1: 8, 2: 0}


def test_an_oversized_prompt_ends_the_run_even_behind_a_full_step() -> None:
    planner = DecodesThenPrompts(PromptBounds(oversized=True))
    with pytest.raises(OversizedPrompt, match="oversized unmatched prefill: request 9"):
        fill(planner, decoding=(1,), waiting={2: 1, 9: 9}, rows=8, sequences=1)
