import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.core.errors import InvariantViolation
from arriero.core.events import AdmissionSource
from arriero.core.ids import SequenceId
from arriero.kv.protocol import ReleaseCause
from arriero.kv.sequence_ids import LowestFirst, PooledIds, SequenceIds


def take_all(ids: SequenceIds) -> list[tuple[int, AdmissionSource]]:
    taken: list[tuple[int, AdmissionSource]] = []
    while (pair := ids.take()) is not None:
        taken.append(pair)
    return taken


def test_the_lowest_free_id_comes_first_whatever_the_order_of_return() -> None:
    ids = LowestFirst(4)
    take_all(ids)
    for each in (2, 0, 3):
        ids.put_back(SequenceId(each), ReleaseCause.COMPLETED, 0)
    assert [each for each, _ in take_all(ids)] == [0, 2, 3]


@given(st.permutations(range(9)), st.integers(0, 8))
def test_taking_an_id_out_of_service_keeps_the_order_of_the_others(order: list[int], gone: int) -> None:
    for ids in (LowestFirst(9), PooledIds(9, num_preloaded=0, reuse_completed=True)):
        take_all(ids)
        for each in order:
            ids.put_back(SequenceId(each), ReleaseCause.PREEMPTED, 0)
        ids.quarantine(SequenceId(gone))
        assert [each for each, _ in take_all(ids)] == [each for each in range(9) if each != gone]


@pytest.mark.parametrize("ids", [LowestFirst(2), PooledIds(2, num_preloaded=0, reuse_completed=True)])
def test_an_id_freed_by_a_cancel_rests_for_one_step(ids: SequenceIds) -> None:
    take_all(ids)
    ids.put_back(SequenceId(0), ReleaseCause.CANCELLED, 1)
    assert (ids.take(), ids.num_resting, ids.num_free) == (None, 1, 1)
    ids.begin_step()
    assert ids.take() == (0, AdmissionSource.CANCEL_FREED)


@pytest.mark.parametrize("ids", [LowestFirst(3), PooledIds(3, num_preloaded=1, reuse_completed=False)])
def test_an_id_out_of_service_never_comes_back_and_the_order_of_the_others_stays(ids: SequenceIds) -> None:
    ids.quarantine(SequenceId(0))
    assert ids.idle() == {1, 2}
    assert [each for each, _ in take_all(ids)] == [1, 2]
    ids.put_back(SequenceId(2), ReleaseCause.CANCELLED, 0)
    ids.quarantine(SequenceId(2))
    ids.begin_step()
    assert take_all(ids) == []


def test_pools_are_emptied_in_the_published_order() -> None:
    ids = PooledIds(4, num_preloaded=1, reuse_completed=True)
    sources = [source for _, source in take_all(ids)]
    assert sources == [AdmissionSource.NONE, *[AdmissionSource.INITIAL_IDLE] * 3]
    ids.put_back(SequenceId(1), ReleaseCause.COMPLETED, 0)
    ids.put_back(SequenceId(3), ReleaseCause.COMPLETED, 1)
    ids.put_back(SequenceId(2), ReleaseCause.CANCELLED, 1)
    ids.begin_step()
    assert [source for _, source in take_all(ids)] == [
        AdmissionSource.CANCEL_FREED,
        AdmissionSource.COMPLETION_FREED,
        AdmissionSource.INITIAL_IDLE,
    ]


def test_a_preloaded_slot_retires_when_its_request_completes_without_reuse() -> None:
    ids = PooledIds(1, num_preloaded=1, reuse_completed=False)
    take_all(ids)
    ids.put_back(SequenceId(0), ReleaseCause.COMPLETED, 1)
    assert (ids.take(), ids.num_free) == (None, 0)
    assert ids.idle() == {0}


def test_a_preloaded_slot_does_not_retire_when_its_request_is_preempted() -> None:
    ids = PooledIds(1, num_preloaded=1, reuse_completed=False)
    take_all(ids)
    ids.put_back(SequenceId(0), ReleaseCause.PREEMPTED, 0)
    assert ids.take() == (0, AdmissionSource.COMPLETION_FREED)


def test_more_preloaded_requests_than_sequences_are_a_mistake() -> None:
    with pytest.raises(InvariantViolation, match="3 preloaded"):
        PooledIds(2, num_preloaded=3, reuse_completed=False)
