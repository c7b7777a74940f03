from collections.abc import Callable
from dataclasses import replace

import pytest

from arriero.core.events import PreemptionCause
from arriero.core.ids import RequestId, SequenceId
from arriero.core.plan import Deferral
from arriero.core.request import BlankTokens, CancelReason, FinishReason, Request, RequestState
from arriero.kv.cells import CellLayout, CellManager
from arriero.kv.reuse import ReuseRules
from arriero.scheduler.policies import FirstComeFirstServed
from arriero.scheduler.preemption import SwapRule
from arriero.scheduler.progress import Progress
from arriero.scheduler.rules import LIVE_RULES, SchedulerRules
from arriero.scheduler.slots import Slots


def waiting(slots: Slots, request_id: int, prompt: int) -> Progress:
    request = Request(request_id=RequestId(request_id), prompt=(1,) * prompt, max_tokens=4, arrival_at=0)
    progress = Progress(request, (request_id,))
    slots.waiting.add(progress)
    return progress


def new_slots(num_sequences: int) -> Slots:
    layout = CellLayout(num_sequences=num_sequences, num_cells=20, sequence_limit=20, unified=True)
    return Slots(CellManager(layout), FirstComeFirstServed(), LIVE_RULES, headroom_per_sequence=3)


def test_who_finds_every_slot_taken_is_told_apart_from_who_finds_no_cells() -> None:
    slots = new_slots(2)
    assert slots.admit(waiting(slots, 1, prompt=4)) is None
    assert slots.admit(waiting(slots, 2, prompt=14)) is Deferral.KV
    assert slots.admit(waiting(slots, 3, prompt=2)) is None
    assert slots.admit(waiting(slots, 4, prompt=2)) is Deferral.SLOTS
    assert [progress.request.request_id for progress in slots.running] == [1, 3]
    assert [progress.request.request_id for progress in slots.waiting] == [2, 4]


def test_events_are_handed_out_once() -> None:
    slots = new_slots(1)
    slots.admit(waiting(slots, 1, prompt=4))
    assert len(slots.take_events()) == 1
    assert slots.take_events() == ()


# ── what is left behind ─────────────────────────────────────────────────────────────────────────────────────────────


def kept(reuse: ReuseRules, end: Callable[[Slots, Progress], object], *, scope: str | None = "a") -> int:
    """Tokens that are retained after a request of 5 computed tokens, one of them said, came to this end."""
    layout = CellLayout(num_sequences=2, num_cells=40, sequence_limit=20, unified=True)
    manager = CellManager(layout, reuse=reuse)
    slots = Slots(manager, FirstComeFirstServed(), SchedulerRules(reuse=reuse), headroom_per_sequence=0)
    request = Request(request_id=RequestId(1), prompt=(1, 2, 3, 4), max_tokens=4, arrival_at=0, cache_scope=scope)
    progress = Progress(request, (1,))
    slots.waiting.add(progress)
    slots.begin_step(1)
    assert slots.admit(progress) is None
    slots.publish([row := progress.chunk(4)])
    progress.advance(row)
    progress.append(5)
    assert slots.extend_each([progress.held_sequence])
    progress.advance(progress.decode_row())
    progress.append(6)
    end(slots, progress)
    manager.check()
    return sum(run.length for run in manager.retained())


def finish(reason: FinishReason, cancel_reason: CancelReason | None = None) -> Callable[[Slots, Progress], object]:
    return lambda slots, progress: slots.finish(progress, reason, cancel_reason=cancel_reason)


def preempt(*, keeps: bool) -> Callable[[Slots, Progress], object]:
    return lambda slots, progress: slots.preempt(progress, PreemptionCause.NO_ROOM, keeps=keeps)


TREE, SESSIONS, PROMPTS = ReuseRules(), ReuseRules(per_session=True), ReuseRules(keeps_answers=False)


ENDS: dict[str, tuple[Callable[[Slots, Progress], object], tuple[int, int, int]]] = {
    "stop": (finish(FinishReason.STOP), (5, 5, 4)),
    "length": (finish(FinishReason.LENGTH), (5, 5, 4)),
    "stop string": (finish(FinishReason.CANCELLED, CancelReason.STOP), (5, 5, 4)),
    "cancelled": (finish(FinishReason.CANCELLED, CancelReason.USER), (5, 0, 4)),
    "timeout": (finish(FinishReason.CANCELLED, CancelReason.TIMEOUT), (5, 0, 4)),
    "failed": (finish(FinishReason.FAILED), (0, 0, 0)),
    "yielded": (preempt(keeps=True), (5, 5, 4)),
    "put back": (preempt(keeps=False), (0, 0, 0)),
}
"""How a request ends, and what of its 5 tokens is kept: in the tree, in sessions, where only prompts are kept."""


@pytest.mark.parametrize("name", ENDS)
def test_what_a_request_leaves_behind_depends_on_its_end(name: str) -> None:
    end, expected = ENDS[name]
    assert (kept(TREE, end), kept(SESSIONS, end), kept(PROMPTS, end)) == expected
    assert kept(TREE, end, scope=None) == 0


def test_who_yields_its_place_leaves_its_run_unless_runs_belong_to_completed_turns() -> None:
    store = ReuseRules(host_tokens=99, min_restored=1)
    for reuse, expected in ((store, 3), (replace(store, per_session=True), 0)):
        layout = CellLayout(num_sequences=2, num_cells=8, sequence_limit=8, unified=True)
        manager = CellManager(layout, reuse=reuse)
        slots = Slots(manager, FirstComeFirstServed(), SchedulerRules(reuse=reuse), headroom_per_sequence=0)
        slots.begin_step(1)
        for number in (1, 2):
            request = Request(
                request_id=RequestId(number), prompt=(number,) * 4, max_tokens=4, arrival_at=0, cache_scope="a"
            )
            progress = Progress(request, (number,))
            slots.waiting.add(progress)
            assert slots.admit(progress) is None
            slots.publish([row := progress.chunk(4)])
            progress.advance(row)
            progress.append(5)
        first, second = slots.running
        assert slots.extend(first, {}) is None
        assert (second.state, slots.has_preempted) == (RequestState.WAITING, True)
        assert manager.lookup(second.request.prompt, "a", 3).num_tokens == expected


def test_an_answer_that_is_only_counted_is_found_by_nobody() -> None:
    progress = Progress(Request(request_id=RequestId(1), prompt=(7, 8), max_tokens=9, arrival_at=0), (0,))
    progress.admit(SequenceId(0), 0)
    progress.count(progress.chunk(2), 1)
    progress.count(progress.decode_row(), 3)
    assert progress.num_computed == 5
    assert progress.computed == [7, 8]
    blank = Progress(Request(request_id=RequestId(2), prompt=BlankTokens(4), max_tokens=9, arrival_at=0), (0,))
    assert blank.computed is None


def test_a_resumed_request_looks_for_its_answer_too_where_answers_are_kept() -> None:
    for reuse, expected in ((TREE, 5), (PROMPTS, 4)):
        layout = CellLayout(num_sequences=2, num_cells=40, sequence_limit=20, unified=True)
        manager = CellManager(layout, reuse=reuse)
        slots = Slots(manager, FirstComeFirstServed(), SchedulerRules(reuse=reuse), headroom_per_sequence=0)
        request = Request(request_id=RequestId(1), prompt=(1, 2, 3, 4), max_tokens=9, arrival_at=0, cache_scope="a")
        progress = Progress(request, (1,))
        slots.waiting.add(progress)
        slots.begin_step(1)
        slots.admit(progress)
        slots.publish([row := progress.chunk(4)])
        progress.advance(row)
        progress.append(5)
        slots.extend_each([progress.held_sequence])
        progress.advance(progress.decode_row())
        progress.append(6)
        slots.preempt(progress, PreemptionCause.NO_ROOM, keeps=True)
        assert slots.lookup(progress).num_tokens == expected


def test_one_whose_own_kv_is_kept_waits_for_nobodys_prefix() -> None:
    layout = CellLayout(num_sequences=2, num_cells=40, sequence_limit=20, unified=True)
    manager = CellManager(layout, reuse=TREE, swap_tokens=9)
    slots = Slots(manager, FirstComeFirstServed(), SchedulerRules(reuse=TREE), headroom_per_sequence=0)
    prompt = (1, 2, 3, 4, 5, 6)
    for number in (1, 2):
        request = Request(request_id=RequestId(number), prompt=prompt, max_tokens=4, arrival_at=0, cache_scope="a")
        slots.waiting.add(Progress(request, (number,)))
    leader, follower = slots.waiting
    slots.begin_step(1)
    assert slots.admit(leader) is None
    assert slots.foreseen(follower) == 5
    assert manager.swaps.save(RequestId(2), leader.held_sequence, 3)
    assert slots.foreseen(follower) == 0


def test_what_is_swapped_is_left_to_nobody_else() -> None:
    rule = SwapRule(row_time=1, answer_row_time=1)
    for swap_tokens, found in ((9, 0), (3, 4)):
        layout = CellLayout(num_sequences=2, num_cells=40, sequence_limit=20, unified=True)
        manager = CellManager(layout, reuse=TREE, swap_tokens=swap_tokens)
        rules = SchedulerRules(reuse=TREE, swap=rule)
        slots = Slots(manager, FirstComeFirstServed(), rules, headroom_per_sequence=0)
        request = Request(request_id=RequestId(1), prompt=(1, 2, 3, 4), max_tokens=4, arrival_at=0, cache_scope="a")
        progress = Progress(request, (1,))
        slots.waiting.add(progress)
        slots.begin_step(1)
        assert slots.admit(progress) is None
        slots.publish([row := progress.chunk(4)])
        progress.advance(row)
        progress.append(5)
        slots.preempt(progress, PreemptionCause.NO_ROOM, keeps=True, swaps=True)
        assert manager.swaps.length(RequestId(1)) == 4 - found
        assert manager.lookup((1, 2, 3, 4, 9), "a", 4).num_tokens == found
