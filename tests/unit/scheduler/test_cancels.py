import pytest

from arriero.core.events import CancelById, CancelByToken, CancelIgnored, IgnoreCause
from arriero.core.ids import NO_EPOCH, Epoch, RequestId
from arriero.core.request import CancelReason, Request
from arriero.scheduler.cancels import MAX_EARLY_IDS, CancelCounts, CancelLedger


def by_id(request_id: int, reason: CancelReason = CancelReason.USER) -> CancelById:
    return CancelById(RequestId(request_id), reason)


def by_token(request_id: int, epoch: int, reason: CancelReason = CancelReason.USER) -> CancelByToken:
    return CancelByToken(RequestId(request_id), Epoch(epoch), reason)


def request(request_id: int, epoch: int) -> Request:
    return Request(request_id=RequestId(request_id), prompt=(1,), max_tokens=1, arrival_at=0, epoch=Epoch(epoch))


def test_an_early_cancel_by_id_is_claimed_once_with_its_reason() -> None:
    ledger = CancelLedger()
    assert ledger.keep(by_id(1, CancelReason.DISCONNECT)) is None
    assert ledger.num_early == 1
    assert ledger.claim(request(1, 1)) is CancelReason.DISCONNECT
    assert ledger.claim(request(1, 2)) is None
    assert ledger.num_early == 0


def test_a_token_counts_before_an_id_and_leaves_the_id_for_the_next_submission() -> None:
    ledger = CancelLedger()
    ledger.keep(by_id(1, CancelReason.STOP))
    ledger.keep(by_token(1, 5, CancelReason.USER))
    assert ledger.claim(request(1, 5)) is CancelReason.USER
    assert ledger.claim(request(1, 6)) is CancelReason.STOP


def test_an_early_token_waits_for_its_own_epoch() -> None:
    ledger = CancelLedger()
    ledger.keep(by_token(1, 5))
    assert ledger.claim(request(1, 4)) is None
    assert ledger.claim(request(1, 5)) is CancelReason.USER


def test_a_token_whose_epoch_was_seen_comes_too_late() -> None:
    ledger = CancelLedger()
    ledger.claim(request(2, 7))
    assert ledger.keep(by_token(1, 7)) == CancelIgnored(RequestId(1), Epoch(7), IgnoreCause.UNKNOWN)
    assert ledger.num_early == 0


@pytest.mark.parametrize("target", [by_id(1), by_token(1, 5)], ids=["id", "token"])
def test_a_repeated_early_cancel_is_a_duplicate(target: CancelById | CancelByToken) -> None:
    ledger = CancelLedger()
    ledger.keep(target)
    epoch = target.epoch if isinstance(target, CancelByToken) else NO_EPOCH
    assert ledger.keep(target) == CancelIgnored(RequestId(1), epoch, IgnoreCause.DUPLICATE)
    assert ledger.counts == CancelCounts(duplicates=1)


def test_the_oldest_early_id_is_given_up_beyond_the_bound() -> None:
    ledger = CancelLedger()
    for each in range(MAX_EARLY_IDS):
        assert ledger.keep(by_id(each)) is None
    given_up = ledger.keep(by_id(MAX_EARLY_IDS))
    assert given_up == CancelIgnored(RequestId(0), NO_EPOCH, IgnoreCause.UNKNOWN)
    assert ledger.num_early == MAX_EARLY_IDS


def test_what_is_left_at_the_end_is_unknown_ids_first() -> None:
    ledger = CancelLedger()
    ledger.keep(by_token(3, 9))
    ledger.keep(by_id(1))
    ledger.keep(by_id(2))
    assert ledger.close() == (
        CancelIgnored(RequestId(1), NO_EPOCH, IgnoreCause.UNKNOWN),
        CancelIgnored(RequestId(2), NO_EPOCH, IgnoreCause.UNKNOWN),
        CancelIgnored(RequestId(3), Epoch(9), IgnoreCause.UNKNOWN),
    )
    assert ledger.counts == CancelCounts(unknown=3)
    assert ledger.num_early == 0
