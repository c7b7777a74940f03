"""Which cancel ends which decode call."""

import threading

import pytest

from arriero.core.events import CancelById, CancelByToken, CancelEverything, CancelTarget, CancelWaiting
from arriero.core.ids import Epoch, RequestId
from arriero.engine.interrupter import Interrupter, InterruptibleCall, Interruption

CALL = InterruptibleCall({RequestId(1): Epoch(3), RequestId(2): Epoch(4)}, ends_at=1000, for_one=True)


def interrupter(after: int | None = 100) -> tuple[Interrupter, list[str]]:
    told: list[str] = []
    return Interrupter(lambda: told.append("interrupt"), after), told


@pytest.mark.parametrize(
    ("target", "ends"),
    [
        (CancelById(RequestId(1)), True),
        (CancelById(RequestId(3)), False),
        (CancelByToken(RequestId(2), Epoch(4)), True),
        (CancelByToken(RequestId(2), Epoch(3)), False),
        (CancelByToken(RequestId(9), Epoch(4)), False),
        (CancelEverything(), True),
        (CancelWaiting(), False),
    ],
)
def test_a_call_ends_for_a_cancel_of_somebody_in_it(target: CancelTarget, ends: bool) -> None:  # noqa: FBT001 - a table
    found, told = interrupter()
    found.enter(CALL)
    assert found.cancelled(target, 500) is ends
    assert len(told) == ends


def test_where_it_is_off_nothing_ends() -> None:
    found, told = interrupter(None)
    assert not found.is_on
    found.enter(CALL)
    assert not found.cancelled(CancelEverything(), 0)
    assert told == []


@pytest.mark.parametrize(("now", "ends"), [(0, True), (900, True), (901, False), (1099, False), (1100, True)])
def test_it_has_to_go_on_for_long_enough(now: int, ends: bool) -> None:  # noqa: FBT001 - a table
    """Until its predicted end; and one that is late is taken to be late for as long again."""
    found, told = interrupter()
    found.enter(CALL)
    assert found.cancelled(CancelById(RequestId(1)), now) is ends
    assert len(told) == ends


def test_without_a_prediction_a_call_goes_on_for_as_long_as_it_took_so_far() -> None:
    found, _ = interrupter()
    found.enter(CALL._replace(ends_at=400))
    assert not found.cancelled(CancelById(RequestId(1)), 450)
    assert found.cancelled(CancelById(RequestId(1)), 500)


def test_a_call_is_interrupted_once() -> None:
    found, told = interrupter()
    found.enter(CALL)
    assert [found.cancelled(CancelById(RequestId(each)), 0) for each in (1, 2)] == [True, False]
    assert told == ["interrupt"]


def test_after_an_interrupted_call_only_a_cancel_of_everybody_ends_the_next() -> None:
    found, told = interrupter()
    found.enter(CALL._replace(for_one=False))
    assert not found.cancelled(CancelById(RequestId(1)), 0)
    assert found.cancelled(CancelEverything(), 0)
    assert told == ["interrupt"]


def test_nothing_is_interrupted_between_two_calls() -> None:
    found, told = interrupter()
    assert not found.cancelled(CancelEverything(), 0)
    found.enter(CALL)
    found.leave()
    assert not found.cancelled(CancelEverything(), 0)
    assert told == []


# ── overdue ─────────────────────────────────────────────────────────────────────────────────────────────────────────

LATE = CALL._replace(overdue_at=4000)


@pytest.mark.parametrize(("now", "ends"), [(0, False), (3999, False), (4000, True), (9000, True)])
def test_a_call_ends_when_it_is_overdue(now: int, ends: bool) -> None:  # noqa: FBT001 - a table
    """Also where no cancel ends any."""
    found, told = interrupter(None)
    found.enter(LATE)
    assert found.overdue_at == 4000
    assert found.end_overdue(now) is ends
    assert len(told) == ends
    assert found.last is (Interruption.OVERDUE if ends else None)
    found.enter(CALL)
    assert found.last is None


def test_a_call_that_may_take_whatever_it_takes_is_never_overdue() -> None:
    found, told = interrupter()
    assert not found.end_overdue(10**9)
    found.enter(CALL)
    assert found.overdue_at is None
    assert not found.end_overdue(10**9)
    found.leave()
    assert not found.end_overdue(10**9)
    assert told == []


def test_a_call_ends_once_whoever_comes_first() -> None:
    found, told = interrupter()
    found.enter(LATE)
    assert found.end_overdue(5000)
    assert not found.cancelled(CancelEverything(), 5000)
    found.enter(LATE)
    assert found.cancelled(CancelEverything(), 5000)
    assert not found.end_overdue(5000)
    assert found.last is Interruption.CANCEL
    assert told == ["interrupt"] * 2


def test_a_call_cannot_be_left_while_it_is_being_interrupted() -> None:
    """Else the interrupt would meet the call after."""
    inside, go_on, order = threading.Event(), threading.Event(), list[str]()

    def interrupt() -> None:
        inside.set()
        assert go_on.wait(10)
        order.append("interrupted")

    found = Interrupter(interrupt, 0)
    found.enter(CALL)

    def leave() -> None:
        found.leave()
        order.append("left")

    canceller = threading.Thread(target=found.cancelled, args=(CancelEverything(), 0))
    leaver = threading.Thread(target=leave)
    canceller.start()
    assert inside.wait(10)
    leaver.start()
    go_on.set()
    canceller.join()
    leaver.join()
    assert order == ["interrupted", "left"]
