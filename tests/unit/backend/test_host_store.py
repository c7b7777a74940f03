import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from arriero.backend.fingerprint import Fingerprint
from arriero.backend.host_store import HostStore
from arriero.backend.run_files import SUFFIX, FoundRun
from arriero.backend.run_folder import open_folder
from arriero.backend.sequence_state import Bytes
from arriero.core.events import SaveSequence
from arriero.core.ids import SavedKey, SequenceId
from arriero.testing.faults import damage_file

PRINT = Fingerprint((("model", "small"),))
LIMIT_S = 30.0
SIZE = 1001
MakeStore = Callable[..., HostStore]


@pytest.fixture
def make_store(tmp_path: Path) -> Iterator[MakeStore]:
    made: list[HostStore] = []

    def make(max_bytes: int = 3 * SIZE, *, max_pending: int = 64) -> HostStore:
        made.append(HostStore(max_bytes, folder=open_folder(tmp_path, PRINT), max_pending=max_pending))
        return made[-1]

    yield make
    for store in made:
        store.close()


def payload_of(key: int) -> Bytes:
    return np.random.default_rng(key).integers(0, 256, SIZE, dtype=np.uint8)


def save(store: HostStore, key: int, tokens: tuple[int, ...] | None = None) -> bool:
    op = SaveSequence(SequenceId(0), SavedKey(key), 3, "scope", tokens or (key, 2, 3))
    return store.make_room(SIZE) and store.keep(op, payload_of(key))


def loads(store: HostStore, key: int, like: int | None = None) -> bool:
    payload = store.load(SavedKey(key))
    return payload is not None and payload.tobytes() == payload_of(like or key).tobytes()


def files(folder: Path) -> int:
    return len(list(folder.glob(f"*{SUFFIX}")))


def test_memory_gives_back_what_it_was_given() -> None:
    store = HostStore(2 * SIZE)
    assert save(store, 1)
    assert save(store, 2)
    assert not save(store, 3), "without a directory nothing may leave memory"
    assert loads(store, 1)
    assert loads(store, 2)
    assert store.load(SavedKey(3)) is None
    store.forget(SavedKey(1))
    store.forget(SavedKey(1))
    assert save(store, 3)
    assert (store.num_bytes, store.num_runs) == (2 * SIZE, 2)
    counts = store.counts
    assert (counts.saved, counts.no_room, counts.loaded, counts.forgotten) == (3, 1, 2, 1)
    assert store.flush()
    store.close()


def test_a_run_that_is_larger_than_all_room_is_refused() -> None:
    store = HostStore(SIZE - 1)
    assert not save(store, 1)
    assert store.counts.no_room == 1


def test_a_key_is_used_once() -> None:
    store = HostStore(9 * SIZE)
    assert save(store, 1)
    assert not save(store, 1)
    assert store.num_bytes == SIZE


def test_bytes_that_somebody_wrote_into_are_refused_and_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    store = HostStore(9 * SIZE)
    for at in (0, SIZE // 2, SIZE - 1):
        payload = payload_of(at)
        assert store.keep(SaveSequence(SequenceId(0), SavedKey(at + 1), 3), payload)
        payload[at] ^= 1
        with caplog.at_level(logging.ERROR, "arriero.host_store"):
            assert store.load(SavedKey(at + 1)) is None
    assert store.counts.damaged == 3
    assert (store.num_bytes, store.num_runs) == (0, 0)


def test_written_runs_leave_memory_for_new_ones_the_longest_unused_first(make_store: MakeStore) -> None:
    store = make_store(2 * SIZE)
    assert save(store, 1)
    assert save(store, 2)
    assert store.flush(LIMIT_S)
    assert loads(store, 1)
    assert save(store, 3)
    assert store.num_bytes == 2 * SIZE
    assert loads(store, 2), "from its file"
    assert store.counts.loaded_from_disk == 1
    assert loads(store, 1)
    assert loads(store, 3)
    assert store.counts.loaded == 3


def test_runs_survive_a_restart(make_store: MakeStore, tmp_path: Path) -> None:
    before = make_store()
    assert save(before, 1)
    assert save(before, 2)
    before.forget(SavedKey(1))
    before.close()
    assert files(tmp_path) == 1
    after = make_store()
    (run,) = after.adopt(found_by(after))
    assert (run.key, run.scope, run.tokens) == (1, "scope", (2, 2, 3))
    assert after.num_bytes == 0
    assert loads(after, run.key, like=2)
    assert loads(after, run.key, like=2)
    after.forget(run.key)
    assert after.flush(LIMIT_S)
    assert files(tmp_path) == 0


def found_by(store: HostStore) -> list[FoundRun]:
    assert store._folder is not None
    return store._folder.scan(100)


def test_a_damaged_file_is_told_once_and_never_used(
    make_store: MakeStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = make_store()
    assert save(before, 1)
    before.close()
    damage_file(next(tmp_path.glob(f"*{SUFFIX}")))
    after = make_store()
    (run,) = after.adopt(found_by(after))
    with caplog.at_level(logging.WARNING, "arriero.host_store"):
        assert after.load(run.key) is None
        assert after.load(run.key) is None
    assert len(caplog.records) == 1
    assert "its payload is damaged" in caplog.text
    assert after.flush(LIMIT_S)
    assert files(tmp_path) == 0
    assert after.counts.damaged == 1


def test_a_file_that_is_gone_is_no_error(make_store: MakeStore, tmp_path: Path) -> None:
    before = make_store()
    assert save(before, 1)
    before.close()
    after = make_store()
    (run,) = after.adopt(found_by(after))
    next(tmp_path.glob(f"*{SUFFIX}")).unlink()
    assert after.load(run.key) is None


def test_one_run_under_two_keys_is_one_file_until_both_are_forgotten(make_store: MakeStore, tmp_path: Path) -> None:
    store = make_store()
    assert save(store, 1, tokens=(7, 7, 7))
    assert save(store, 2, tokens=(7, 7, 7))
    assert store.flush(LIMIT_S)
    assert files(tmp_path) == 1
    store.forget(SavedKey(1))
    assert store.flush(LIMIT_S)
    assert files(tmp_path) == 1
    store.forget(SavedKey(2))
    assert store.flush(LIMIT_S)
    assert files(tmp_path) == 0


def test_what_cannot_be_written_in_time_stays_in_memory(make_store: MakeStore, tmp_path: Path) -> None:
    store = make_store(max_pending=0)
    assert save(store, 1)
    assert store.flush(LIMIT_S)
    assert store.counts.not_written == 1
    assert files(tmp_path) == 0
    assert loads(store, 1)
    store.forget(SavedKey(1))


def test_a_run_whose_tokens_nobody_told_gets_no_file(make_store: MakeStore, tmp_path: Path) -> None:
    store = make_store()
    assert store.keep(SaveSequence(SequenceId(0), SavedKey(1), 3), payload_of(1))
    assert store.flush(LIMIT_S)
    assert files(tmp_path) == 0
    assert loads(store, 1)


def test_what_a_preempted_request_has_computed_gets_no_file_and_stays_in_memory(
    make_store: MakeStore, tmp_path: Path
) -> None:
    store = make_store(2 * SIZE)
    private = SaveSequence(SequenceId(0), SavedKey(1), 3)
    assert store.make_room(SIZE)
    assert store.keep(private, payload_of(1))
    assert save(store, 2)
    assert store.flush(LIMIT_S)
    assert files(tmp_path) == 1
    assert save(store, 3), "the one with a file leaves memory"
    assert store.flush(LIMIT_S)
    assert loads(store, 1)
    assert (store.counts.loaded, store.counts.loaded_from_disk) == (1, 0)
    store.forget(SavedKey(1))
    assert store.load(SavedKey(1)) is None
    assert store.num_bytes == SIZE
