"""Closing holes between sequence ids, where ids are streams."""

from arriero.core.events import DropSequence, MoveSequence, SaveSequence
from arriero.core.ids import SavedKey, SequenceId
from arriero.kv.reuse import ReuseRules
from tests.unit.kv.cell_user import SYSTEM, CellUser

S0, S1, S2, S3 = map(SequenceId, range(4))


def test_a_running_sequence_moves_to_the_lowest_free_id_with_everything_that_is_known_of_it() -> None:
    user = CellUser(unified=False)
    for each in range(3):
        user.start(*SYSTEM, each)
    user.end(0, keeps=False)
    user.end(1, keeps=False)
    assert user.kv.move_down(S2) == 0
    assert user.take() == (MoveSequence(S2, S0), DropSequence(S2))
    user.known[0] = user.known.pop(2)
    user.say(0, 7)
    assert user.start(*SYSTEM, 2, 9).previous_request_id == 2
    assert (user.figures.moves, user.figures.copies) == (1, 3)
    user.end(0)
    assert user.lengths == {0: 42}


def test_nobody_moves_up_or_where_no_id_is_free_below() -> None:
    user = CellUser(unified=False)
    user.start(1)
    user.start(2)
    assert user.kv.move_down(S0) is None
    assert user.kv.move_down(S1) is None
    assert user.take() == ()


def test_the_order_of_ids_does_not_matter_in_one_pool() -> None:
    user = CellUser(unified=True)
    user.start(1)
    user.start(2)
    user.end(0, keeps=False)
    assert user.kv.move_down(S1) is None


def test_a_sequence_waits_until_what_it_was_started_with_is_done() -> None:
    user = CellUser(unified=False)
    user.start(1)
    user.ask(*SYSTEM)
    user.end(0, keeps=False)
    assert user.kv.move_down(S1) is None
    user.kv.publish(S1, 8)
    assert user.kv.move_down(S1) == 0


def test_a_run_in_the_way_is_moved_to_a_free_id() -> None:
    user = CellUser(unified=False)
    user.start(*SYSTEM)
    user.start(2)
    user.end(0)
    assert user.kv.move_down(S1) == 0
    assert user.take() == (MoveSequence(S0, S2), DropSequence(S0), MoveSequence(S1, S0), DropSequence(S1))
    assert user.lengths == {2: 40}
    assert user.kv.lookup((*SYSTEM, 1), "a", 40).num_tokens == 40


def test_without_a_free_id_a_run_stays_and_nobody_moves() -> None:
    user = CellUser(unified=False, num_sequences=2)
    user.start(*SYSTEM)
    user.start(2)
    user.end(0)
    assert user.kv.move_down(S1) is None
    assert user.lengths == {0: 40}


def test_with_a_host_store_a_run_in_the_way_is_saved() -> None:
    user = CellUser(ReuseRules(host_tokens=100), unified=False, num_sequences=2)
    user.start(*SYSTEM)
    user.start(2)
    user.end(0)
    assert user.kv.move_down(S1) == 0
    ordered = user.take()
    assert ordered[0] == SaveSequence(S0, SavedKey(1), 40, "a", SYSTEM)
    assert ordered[1:] == (DropSequence(S0), MoveSequence(S1, S0), DropSequence(S1))


def test_a_run_that_moved_keeps_its_place_in_the_order_of_use() -> None:
    user = CellUser(unified=False)
    user.start(*SYSTEM)
    user.start(2)
    user.start(3)
    user.end(0)
    user.end(1)
    assert user.kv.move_down(S2) == 0
    user.take()
    assert list(user.lengths) == [3, 1]
