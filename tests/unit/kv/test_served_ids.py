from arriero.core.events import AdmissionSource
from arriero.core.ids import RequestId, SequenceId
from arriero.kv.protocol import ReleaseCause
from arriero.kv.sequence_ids import LowestFirst, PooledIds, SequenceIds
from arriero.kv.served_ids import ServedIds


def test_any_free_id_can_be_claimed_and_the_order_of_the_others_stays() -> None:
    supplies: tuple[SequenceIds, ...] = (LowestFirst(4), PooledIds(4, num_preloaded=2, reuse_completed=True))
    for supply in supplies:
        ids = ServedIds(supply)
        assert ids.next_free() == 0
        ids.claim(SequenceId(2))
        claimed: list[int] = []
        while (each := ids.next_free()) is not None:
            ids.claim(each)
            claimed.append(each)
        assert claimed == [0, 1, 3]


def test_an_id_is_claimed_with_how_it_became_free() -> None:
    ids = ServedIds(LowestFirst(2))
    assert ids.claim(SequenceId(1)) is AdmissionSource.INITIAL_IDLE
    ids.put_back(SequenceId(1), ReleaseCause.EVICTED, 0)
    assert ids.claim(SequenceId(1)) is AdmissionSource.COMPLETION_FREED


def test_an_id_on_which_a_run_lay_is_never_retired() -> None:
    ids = ServedIds(PooledIds(2, num_preloaded=2, reuse_completed=False))
    ids.claim(SequenceId(0))
    ids.claim(SequenceId(1))
    ids.put_back(SequenceId(0), ReleaseCause.COMPLETED, 0)
    ids.put_back(SequenceId(1), ReleaseCause.EVICTED, 0)
    assert (ids.next_free(), ids.num_free) == (1, 1)


def test_an_id_out_of_service_does_not_come_back_whether_it_was_free_or_held() -> None:
    ids = ServedIds(LowestFirst(3))
    ids.claim(SequenceId(0))
    for each in (0, 1, 1):
        ids.quarantine(SequenceId(each))
    ids.put_back(SequenceId(0), ReleaseCause.COMPLETED, 0)
    assert ids.is_quarantined(SequenceId(0))
    assert (ids.num_quarantined, set(ids.quarantined()), set(ids.idle())) == (
        2,
        {SequenceId(0), SequenceId(1)},
        {SequenceId(2)},
    )


def test_the_last_owner_of_an_id_is_known() -> None:
    ids = ServedIds(LowestFirst(1))
    assert ids.change_owner(SequenceId(0), RequestId(5)) is None
    assert ids.change_owner(SequenceId(0), RequestId(6)) == 5
    assert ids.owner(SequenceId(0)) == 6
