import pytest

from arriero.core.errors import InvariantViolation
from arriero.core.events import AdmissionSource, DropSequence
from arriero.core.ids import RequestId, SequenceId
from arriero.kv.places import ENDLESS, PlaceManager
from arriero.kv.protocol import NO_HIT, ReleaseCause, Shortage, Started

FIRST, SECOND = SequenceId(0), SequenceId(1)


def test_the_lowest_free_id_is_handed_out_and_nothing_else_is_scarce() -> None:
    places = PlaceManager(2)
    assert places.lookup([1, 2], "scope", 2) is NO_HIT
    assert places.start(RequestId(7), 10**12, 0) == Started(FIRST, AdmissionSource.INITIAL_IDLE, None)
    assert places.start(RequestId(8), 3, 10**12) == Started(SECOND, AdmissionSource.INITIAL_IDLE, None)
    assert places.start(RequestId(9), 1, 0) == Shortage(0)
    places.release(FIRST, ReleaseCause.COMPLETED, 1)
    assert places.start(RequestId(9), 1, 0) == Started(FIRST, AdmissionSource.COMPLETION_FREED, RequestId(7))
    places.check()


def test_tokens_are_counted_and_memory_is_as_large_as_they_are() -> None:
    places = PlaceManager(2)
    places.start(RequestId(1), 5, 0)
    places.grow(FIRST, 2)
    assert places.grow_each([FIRST])
    places.grow_together([FIRST], 4)
    places.rewind(FIRST, 9)
    places.rewind(FIRST, 20)
    usage = places.usage()
    assert (usage.num_cells, usage.active_cells, usage.free_cells, usage.largest_sequence) == (9, 9, 0, 12)
    assert places.steps_ahead([FIRST]) == places.sequence_limit == ENDLESS
    places.check()


def test_an_id_that_a_cancel_freed_rests_for_a_step() -> None:
    places = PlaceManager(1)
    places.start(RequestId(1), 1, 0)
    places.release(FIRST, ReleaseCause.CANCELLED, 0)
    seen = [places.is_resting]
    assert places.start(RequestId(2), 1, 0) == Shortage(0)
    places.begin_step(1)
    assert [*seen, places.is_resting] == [True, False]
    assert places.take_ops() == ()
    assert isinstance(places.start(RequestId(2), 1, 0), Started)


def test_sequences_that_nobody_holds_and_refusals_are_bugs() -> None:
    places = PlaceManager(1)
    with pytest.raises(InvariantViolation, match="not held"):
        places.grow(FIRST, 1)
    with pytest.raises(InvariantViolation, match="no memory"):
        places.refuse(DropSequence(FIRST))
