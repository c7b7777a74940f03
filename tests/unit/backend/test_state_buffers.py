from hypothesis import given
from hypothesis import strategies as st

from arriero.backend.host_store import HostStore
from arriero.backend.sequence_state import Bytes
from arriero.backend.state_buffers import HUGE_PAGE, MOST_SPARE, SLACK, StateBuffers
from arriero.core.events import SaveSequence
from arriero.core.ids import SavedKey, SequenceId


def test_what_was_given_back_is_used_again() -> None:
    buffers = StateBuffers(10_000)
    first = buffers.take(900)
    assert first.nbytes == 900
    buffers.give_back(first)
    assert buffers.num_bytes == 900
    second = buffers.take(800)
    assert second.nbytes == 800
    assert second.base is first
    assert buffers.num_bytes == 0
    buffers.give_back(second)
    assert buffers.num_bytes == 900, "the whole of it, not the part that was used"


def test_much_larger_ones_are_left_for_what_fills_them() -> None:
    buffers = StateBuffers(10_000)
    buffers.give_back(buffers.take(900))
    assert buffers.take(700).base is None
    assert buffers.take(901).base is None
    assert buffers.num_bytes == 900


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 60)), max_size=60), st.integers(0, 200))
def test_idle_memory_stays_within_its_bounds_and_no_two_users_share_a_buffer(
    moves: list[tuple[bool, int]], max_bytes: int
) -> None:
    buffers = StateBuffers(max_bytes)
    used: list[Bytes] = []
    for is_take, number in moves:
        if is_take or not used:
            taken = buffers.take(number)
            assert taken.nbytes == number
            assert taken.base is None or taken.base.nbytes <= number + number // SLACK
            taken[:] = len(used) % 251
            used.append(taken)
        else:
            buffers.give_back(used.pop(number % len(used)))
        assert buffers.num_bytes <= max_bytes
    owners = [id(each if each.base is None else each.base) for each in used]
    assert len(set(owners)) == len(owners)


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 40)), max_size=40))
def test_saved_runs_stay_what_they_are_whatever_memory_they_lie_in(moves: list[tuple[int, int]]) -> None:
    store, kept = HostStore(1_000), dict[int, bytes]()
    for number, (key, size) in enumerate(moves):
        if key in kept:
            store.forget(SavedKey(key))
            del kept[key]
            continue
        payload = store.buffer(size)
        payload[:] = number % 251
        assert store.keep(SaveSequence(SequenceId(0), SavedKey(key), 1, "scope", (key,)), payload)
        kept[key] = payload.tobytes()
        for each, content in kept.items():
            loaded = store.load(SavedKey(each))
            assert loaded is not None
            assert loaded.tobytes() == content
    assert store.num_bytes == sum(map(len, kept.values()))


def test_at_most_so_many_lie_idle() -> None:
    buffers = StateBuffers(1_000_000)
    taken = [buffers.take(100 + number) for number in range(MOST_SPARE + 3)]
    for each in taken:
        buffers.give_back(each)
    assert buffers.num_bytes == sum(100 + number for number in range(3, MOST_SPARE + 3)), "the oldest go"


def test_large_ones_are_writable_and_are_used_again_too() -> None:
    buffers = StateBuffers(64 << 20)
    first = buffers.take(5_000_001)
    assert first.nbytes == 5_000_001
    first[:] = 7
    assert int(first[-1]) == 7
    buffers.give_back(first)
    idle = buffers.num_bytes
    assert 5_000_001 <= idle < 5_000_001 + HUGE_PAGE
    second = buffers.take(4_900_000)
    assert buffers.num_bytes == 0
    buffers.give_back(second)
    assert buffers.num_bytes == idle
    whole = StateBuffers(64 << 20)
    whole.give_back(whole.take(4 * HUGE_PAGE))
    assert whole.num_bytes == 4 * HUGE_PAGE, "one that fills its pages has no part behind it"
