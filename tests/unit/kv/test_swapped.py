"""What preempted requests leave in the host store: whose it is, how long it stays, and what goes for it."""

import pytest

from arriero.core.errors import InvariantViolation
from arriero.core.events import (
    CopySequence,
    DropSequence,
    ForgetSaved,
    KvOp,
    RestoreSequence,
    SaveSequence,
)
from arriero.core.ids import RequestId, SavedKey, SequenceId
from arriero.kv.cells import CellLayout, CellManager
from arriero.kv.host_books import HostBooks
from arriero.kv.ledger import OwnStreams
from arriero.kv.protocol import ReleaseCause, Shortage, Started
from arriero.kv.reuse import EvictionCause, ReuseRules
from arriero.kv.reuse_counts import no_counts
from arriero.kv.swapped import SwappedRuns

ME, OTHER = RequestId(7), RequestId(8)
ON = SequenceId(0)
PROMPT = tuple(range(100, 112))


class Kept:
    """A manager that keeps so many tokens for those who yield, and one request that has computed its prompt."""

    def __init__(
        self, swap_tokens: int = 20, *, reuse: ReuseRules | None = None, unified: bool = True, num_cells: int = 60
    ) -> None:
        layout = CellLayout(num_sequences=3, num_cells=num_cells, sequence_limit=20, unified=unified)
        self.kv = CellManager(layout, reuse=reuse, swap_tokens=swap_tokens)
        self.start(ME, PROMPT)

    def start(self, request_id: RequestId, prompt: tuple[int, ...], scope: str | None = "a") -> Started:
        hit = self.kv.lookup(prompt, scope, len(prompt) - 1)
        started = self.kv.start(request_id, len(prompt), 0, hit)
        assert isinstance(started, Started), started
        self.kv.publish(started.sequence_id, len(prompt))
        return started

    def swap_out(self, request_id: RequestId = ME, on: SequenceId = ON, length: int = len(PROMPT)) -> list[KvOp]:
        assert self.kv.swaps.save(request_id, on, length)
        return self.give_back(on)

    def give_back(self, on: SequenceId = ON, computed: tuple[int, ...] | None = None) -> list[KvOp]:
        self.kv.release(on, ReleaseCause.PREEMPTED, 0, computed)
        return self.taken()

    def taken(self) -> list[KvOp]:
        self.kv.check()
        return list(self.kv.take_ops())

    def resume(self, prompt: tuple[int, ...] = PROMPT, scope: str | None = "a") -> Started | Shortage:
        return self.kv.start(ME, len(prompt) + 1, 0, self.kv.lookup(prompt, scope, len(prompt)))


def test_a_sequence_is_saved_before_it_is_dropped_and_restored_before_it_is_forgotten() -> None:
    kept = Kept()
    kept.taken()
    assert kept.swap_out() == [SaveSequence(ON, SavedKey(1), 12), DropSequence(ON)]
    usage = kept.kv.usage()
    assert (usage.swapped_requests, usage.swapped_tokens, usage.active_cells) == (1, 12, 0)
    started = kept.resume()
    assert isinstance(started, Started)
    assert (started.num_swapped_in, started.num_cached, started.prefix, started.num_there) == (12, 0, None, 12)
    assert kept.taken() == [RestoreSequence(ON, SavedKey(1), 12), ForgetSaved(SavedKey(1))]
    usage = kept.kv.usage()
    assert (usage.swapped_requests, usage.swapped_tokens, usage.active_cells) == (0, 0, 13)


def test_a_key_is_never_used_twice_however_often_a_request_yields() -> None:
    kept = Kept()
    kept.swap_out()
    for number in (2, 3):
        kept.resume()
        assert SaveSequence(ON, SavedKey(number), 13) in kept.swap_out(length=13)


def test_what_finds_no_room_is_not_kept_and_nothing_changes() -> None:
    kept = Kept(swap_tokens=11)
    kept.taken()
    before = kept.kv.usage()
    assert not kept.kv.swaps.save(ME, ON, 12)
    assert (kept.kv.usage(), kept.taken()) == (before, [])
    assert kept.kv.swaps.save(ME, ON, 11)


def test_what_is_kept_never_goes_for_another_one() -> None:
    kept = Kept(swap_tokens=20)
    kept.swap_out()
    other = kept.start(OTHER, PROMPT, scope=None)
    assert not kept.kv.swaps.save(OTHER, other.sequence_id, 9)
    assert kept.kv.swaps.save(OTHER, other.sequence_id, 8)
    assert (kept.kv.swaps.length(ME), kept.kv.swaps.length(OTHER)) == (12, 8)


def test_retained_runs_go_for_it_and_it_for_none_of_them() -> None:
    rules = ReuseRules(host_tokens=16, min_restored=1)
    kept = Kept(swap_tokens=16, reuse=rules, unified=False)
    run = kept.start(OTHER, tuple(range(10)))
    kept.kv.release(run.sequence_id, ReleaseCause.COMPLETED, 0, tuple(range(10)))
    kept.kv.save_retained()
    assert [type(op) for op in kept.taken()] == [SaveSequence]
    ops = kept.swap_out()
    assert ops[:2] == [ForgetSaved(SavedKey(1)), SaveSequence(ON, SavedKey(2), 12)], "room is made first"
    figures = kept.kv.reuse_figures()
    assert figures is not None
    assert (figures.host_tokens, figures.evictions[EvictionCause.HOST]) == (0, 1)
    assert kept.kv.save_retained() == (0, 0), "ten more do not fit beside twelve"
    kept.kv.clear_retained(EvictionCause.ERASED)
    assert kept.kv.swaps.length(ME) == 12, "what nobody can find is nobody's to erase"


def test_nobody_finds_it_whatever_the_scope() -> None:
    kept = Kept(reuse=ReuseRules(host_tokens=99, min_restored=1))
    kept.swap_out()
    for scope in ("a", "b", "", None):
        assert kept.kv.lookup(PROMPT, scope, 12).num_tokens == 0
    assert kept.kv.retained() == ()


def test_a_run_that_gives_as_much_is_taken_instead_and_the_store_is_told() -> None:
    kept = Kept(reuse=ReuseRules())
    other = kept.start(OTHER, (*PROMPT, 1))
    kept.taken()
    kept.swap_out()
    started = kept.resume()
    assert isinstance(started, Started)
    assert (started.num_cached, started.num_swapped_in) == (12, 0)
    assert kept.taken() == [CopySequence(other.sequence_id, started.sequence_id, 12), ForgetSaved(SavedKey(1))]


def test_its_own_is_taken_where_a_run_gives_less() -> None:
    kept = Kept(reuse=ReuseRules())
    kept.start(OTHER, (*PROMPT[:11], 1))
    kept.swap_out()
    started = kept.resume()
    assert isinstance(started, Started)
    assert (started.num_cached, started.num_swapped_in) == (0, 12)
    figures = kept.kv.reuse_figures()
    assert figures is not None
    assert sum(figures.hits.values()) == 1, "the other one's start"


def test_a_shortage_keeps_it() -> None:
    kept = Kept(num_cells=20)
    kept.swap_out()
    other = kept.start(OTHER, tuple(range(10)), scope=None)
    kept.taken()
    assert kept.resume() == Shortage(3)
    assert (kept.kv.swaps.length(ME), kept.taken()) == (12, [])
    kept.give_back(other.sequence_id)
    assert isinstance(kept.resume(), Started)


def test_a_refused_save_is_computed_again() -> None:
    kept = Kept()
    save = kept.swap_out()[0]
    kept.kv.refuse(save)
    assert (kept.kv.usage().swapped_tokens, kept.taken()) == (0, [])
    started = kept.resume()
    assert isinstance(started, Started)
    assert started.num_there == 0
    kept.kv.refuse(save)
    kept.kv.check()


def test_a_refused_restore_harms_nobody_else() -> None:
    kept = Kept(reuse=ReuseRules())
    kept.swap_out()
    kept.resume()
    restore = kept.taken()[0]
    assert isinstance(restore, RestoreSequence)
    kept.kv.refuse(restore)
    kept.give_back()
    started = kept.resume()
    assert isinstance(started, Started)
    assert started.num_there == 0


def test_it_goes_to_whichever_id_is_free_and_a_run_makes_way_for_it() -> None:
    kept = Kept(reuse=ReuseRules(), unified=False)
    kept.swap_out()
    for number in range(3):
        prompt = tuple(range(50 * number, 50 * number + 9))
        run = kept.start(RequestId(20 + number), prompt)
        kept.kv.release(run.sequence_id, ReleaseCause.COMPLETED, 0, prompt)
    kept.taken()
    assert kept.kv.usage().sequences_retained == 3
    started = kept.resume()
    assert isinstance(started, Started)
    assert kept.taken() == [
        DropSequence(started.sequence_id),
        RestoreSequence(started.sequence_id, SavedKey(1), 12),
        ForgetSaved(SavedKey(1)),
    ]


def test_what_a_resumed_prompt_holds_is_found_once_it_has_gone_on() -> None:
    kept = Kept(reuse=ReuseRules())
    kept.swap_out()
    started = kept.resume()
    assert isinstance(started, Started)
    assert kept.kv.lookup(PROMPT, "a", 12).num_tokens == 0, "memory may still refuse it"
    kept.kv.publish(started.sequence_id, 12)
    assert kept.kv.lookup(PROMPT, "a", 12).num_tokens == 12


def test_how_much_others_hold_counts_runs_and_not_itself() -> None:
    kept = Kept(reuse=ReuseRules())
    assert kept.kv.held_elsewhere(ON) == 0
    first = kept.start(OTHER, (*PROMPT[:5], 1, 2))
    assert kept.kv.held_elsewhere(ON) == 5
    kept.kv.release(first.sequence_id, ReleaseCause.COMPLETED, 0, (*PROMPT[:5], 1, 2))
    assert kept.kv.held_elsewhere(ON) == 5
    kept.start(RequestId(9), (*PROMPT, 3), scope="b")
    assert kept.kv.held_elsewhere(ON) == 5
    assert Kept().kv.held_elsewhere(ON) == 0, "nothing is ever found without rules"
    with pytest.raises(InvariantViolation, match="not held"):
        kept.kv.held_elsewhere(first.sequence_id)


def test_more_than_a_sequence_holds_cannot_be_kept_nor_anything_twice() -> None:
    kept = Kept(swap_tokens=99)
    for on, length in ((ON, 13), (ON, 0), (SequenceId(1), 3)):
        with pytest.raises(InvariantViolation, match="cannot be kept"):
            kept.kv.swaps.save(ME, on, length)
    kept.kv.swaps.save(ME, ON, 5)
    with pytest.raises(InvariantViolation, match="cannot be kept"):
        kept.kv.swaps.save(ME, ON, 5)


def test_check_finds_books_that_do_not_add_up() -> None:
    ops: list[KvOp] = []
    ledger = OwnStreams()
    ledger.begin(ON)
    ledger.grow(ON, 5)
    host = HostBooks(0, ops, no_counts(), swap_room=9)
    swapped = SwappedRuns(host, ledger, ops)
    assert swapped.save(ME, ON, 5)
    swapped.check()
    host.give_back(1)
    with pytest.raises(InvariantViolation, match="swapped tokens and reserved ones differ"):
        swapped.check()
