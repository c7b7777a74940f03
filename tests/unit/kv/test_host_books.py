import pytest

from arriero.core.errors import InvariantViolation
from arriero.core.events import ForgetSaved, KvOp, PrefixSource, SavedRun, SaveSequence
from arriero.core.ids import SavedKey, SequenceId
from arriero.kv.host_books import HostBooks
from arriero.kv.reuse import EvictionCause
from arriero.kv.reuse_counts import ReuseCounts, no_counts

ON = SequenceId(3)


class Store:
    """Books with room for some tokens, and what they ordered and counted."""

    def __init__(self, room: int) -> None:
        self.ops: list[KvOp] = []
        self.counts: ReuseCounts = no_counts()
        self.books = HostBooks(room, self.ops, self.counts)

    def save(self, *tokens: int, now: int = 0) -> bool:
        saved = self.books.save(ON, "a", tokens, now)
        self.books.check()
        return saved

    @property
    def keys(self) -> list[int | None]:
        return [run.key for run in self.books.runs()]


def test_keys_are_minted_from_one_and_the_order_names_the_tokens() -> None:
    store = Store(10)
    assert store.save(1, 2, 3)
    assert store.save(4, 5)
    assert store.ops == [
        SaveSequence(ON, SavedKey(1), 3, "a", (1, 2, 3)),
        SaveSequence(ON, SavedKey(2), 2, "a", (4, 5)),
    ]
    assert (len(store.books), store.books.num_tokens, store.counts.saves) == (2, 5, 2)


def test_what_the_store_has_is_not_saved_again_but_was_used() -> None:
    store = Store(10)
    store.save(1, 2, 3)
    store.save(4, 5)
    assert not store.save(1, 2)
    assert not store.save(1, 2, 3)
    assert store.keys == [2, 1]
    assert store.counts.saves == 2


def test_a_longer_text_takes_the_place_of_its_beginning() -> None:
    store = Store(10)
    store.save(1, 2, 3)
    assert store.save(1, 2, 3, 4)
    assert store.ops[1] == ForgetSaved(SavedKey(1))
    assert (store.keys, store.counts.evictions[EvictionCause.SUPERSEDED]) == ([2], 1)


def test_the_least_recently_used_goes_where_room_is_short() -> None:
    store = Store(6)
    for each in (1, 2, 3):
        store.save(each, each)
    store.books.use(SavedKey(1), 0)
    assert store.save(4, 4)
    assert store.keys == [3, 1, 4]
    assert (store.counts.evictions[EvictionCause.HOST], store.counts.evicted_cells[EvictionCause.HOST]) == (1, 2)


def test_a_run_that_fits_nowhere_is_not_saved_and_nobody_goes_for_it() -> None:
    store = Store(3)
    store.save(1)
    assert not store.save(2, 3, 4, 5)
    assert not Store(0).save(1)
    assert store.keys == [1]


def test_a_leased_run_stays_whatever_is_saved() -> None:
    store = Store(5)
    store.save(1, 2)
    store.books.lease(SavedKey(1))
    store.save(3, 4)
    assert store.save(5, 6)
    assert store.keys == [1, 3]
    assert store.save(1, 2, 7)
    assert store.keys == [1, 4]
    assert not store.books.has_room(4)
    store.books.lease(None)
    assert store.books.has_room(4)


def test_use_tells_whether_a_run_came_from_an_earlier_life() -> None:
    store = Store(9)
    store.books.adopt([SavedRun(SavedKey(7), "a", (1, 2))], 9, 0)
    store.save(3, 4)
    assert store.books.use(SavedKey(7), 5) is PrefixSource.DISK
    assert store.books.use(SavedKey(8), 5) is PrefixSource.HOST
    assert [(run.key, run.is_on_disk, run.num_hits) for run in store.books.runs()] == [(7, True, 1), (8, False, 1)]


def test_what_is_adopted_is_bounded_too_and_keys_go_on_above_it() -> None:
    store = Store(5)
    texts = ((1, 2), (3, 4), (3,), (5, 6))
    runs = [SavedRun(SavedKey(3 + i), "a", text) for i, text in enumerate(texts)]
    assert store.books.adopt(runs, 9, 0) == 2
    assert store.ops == [ForgetSaved(SavedKey(5)), ForgetSaved(SavedKey(3))]
    assert store.keys == [4, 6]
    store.save(9)
    assert store.keys == [4, 6, 7]


def test_what_no_sequence_can_hold_is_not_adopted() -> None:
    store = Store(9)
    texts = ((1, 2, 3), (), (4, 5))
    assert store.books.adopt([SavedRun(SavedKey(1 + i), "a", text) for i, text in enumerate(texts)], 2, 0) == 1
    assert store.ops == [ForgetSaved(SavedKey(1)), ForgetSaved(SavedKey(2))]


def test_what_nobody_used_for_too_long_goes() -> None:
    store = Store(9)
    store.save(1, now=0)
    store.save(2, now=3)
    store.save(3, now=5)
    store.books.use(SavedKey(1), 6)
    store.books.expire(5)
    assert store.keys == [3, 1]
    assert store.counts.evictions[EvictionCause.AGE] == 1


def test_a_run_that_the_store_refused_is_forgotten_without_telling_it() -> None:
    store = Store(9)
    store.save(1, 2)
    store.ops.clear()
    store.books.forget(SavedKey(1), EvictionCause.REFUSED, is_told=False)
    store.books.forget(SavedKey(1), EvictionCause.REFUSED)
    assert (store.ops, store.keys, store.books.num_tokens) == ([], [], 0)


def test_clearing_forgets_everything() -> None:
    store = Store(9)
    store.save(1)
    store.save(2)
    store.books.clear(EvictionCause.ERASED)
    assert (store.keys, store.ops[2:]) == ([], [ForgetSaved(SavedKey(1)), ForgetSaved(SavedKey(2))])
    assert SavedKey(1) not in store.books


def test_check_finds_books_that_do_not_add_up() -> None:
    store = Store(9)
    store.save(1, 2)
    store.books._num_tokens = 1
    with pytest.raises(InvariantViolation, match="saved tokens do not add up"):
        store.books.check()


# ── room that is no run's ───────────────────────────────────────────────────────────────────────────────────────────


class SharedStore(Store):
    """Books with room for runs and room for what is reserved."""

    def __init__(self, room: int, swap_room: int) -> None:
        super().__init__(room)
        self.books = HostBooks(room, self.ops, self.counts, swap_room=swap_room)

    def reserve(self, length: int) -> SavedKey | None:
        key = self.books.reserve(length)
        self.books.check()
        return key


def test_reserved_room_is_taken_from_the_runs_and_given_back_to_them() -> None:
    store = SharedStore(6, 6)
    for each in (1, 2, 3):
        store.save(each, each)
    assert store.reserve(3) == 4
    assert (store.keys, store.books.room, store.books.num_reserved) == ([3], 3, 3)
    assert not store.books.has_room(4)
    store.books.give_back(3)
    assert store.books.has_room(6)


def test_each_has_a_room_of_its_own_and_both_together_the_larger_one() -> None:
    store = SharedStore(4, 8)
    assert store.save(1, 2, 3, 4)
    assert store.reserve(4) is not None
    assert store.keys == [1], "both fit"
    assert store.reserve(1) is not None
    assert store.keys == []
    assert store.reserve(4) is None
    assert store.save(5, 6, 7)
    assert not store.save(5, 6, 7, 8)


def test_without_room_for_it_nothing_is_reserved_and_nobody_goes() -> None:
    store = SharedStore(6, 2)
    store.save(1, 2, 3, 4, 5, 6)
    assert store.reserve(3) is None
    assert store.keys == [1]
    assert SharedStore(6, 0).reserve(1) is None


def test_a_leased_run_does_not_go_for_what_is_reserved() -> None:
    store = SharedStore(6, 6)
    store.save(1, 2, 3, 4)
    store.save(5, 6)
    store.books.lease(SavedKey(1))
    assert store.reserve(3) is None
    assert store.reserve(2) is not None
    assert store.keys == [1]
