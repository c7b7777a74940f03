from collections.abc import Callable

import pytest

from arriero.core.errors import ConfigError, InvariantViolation
from arriero.core.ids import RequestId, SequenceId
from arriero.kv.cells import CellLayout, CellManager
from arriero.kv.protocol import ReleaseCause, Shortage, Started
from arriero.kv.sequence_ids import LowestFirst


def manager(*, unified: bool, num_sequences: int = 2, num_cells: int = 20, sequence_limit: int = 10) -> CellManager:
    return CellManager(
        CellLayout(num_sequences=num_sequences, num_cells=num_cells, sequence_limit=sequence_limit, unified=unified)
    )


@pytest.mark.parametrize(
    ("num_sequences", "num_cells", "sequence_limit", "unified"),
    [(0, 20, 10, True), (2, 20, 0, True), (2, 20, 21, True), (2, 20, 11, False)],
)
def test_a_layout_that_promises_more_than_there_is_is_refused(
    num_sequences: int,
    num_cells: int,
    sequence_limit: int,
    unified: bool,  # noqa: FBT001 - a parameter
) -> None:
    with pytest.raises(ConfigError, match=r"20 KV cells"):
        CellLayout(num_sequences=num_sequences, num_cells=num_cells, sequence_limit=sequence_limit, unified=unified)


def test_what_fits_alone_is_never_kept_out_by_headroom() -> None:
    cells = manager(unified=True, num_cells=10)
    assert isinstance(cells.start(RequestId(1), 10, headroom=8), Started)


def test_headroom_counts_where_somebody_runs() -> None:
    cells = manager(unified=True)
    cells.start(RequestId(1), 10, headroom=8)
    assert cells.start(RequestId(2), 5, headroom=8) == Shortage(3)
    assert isinstance(cells.start(RequestId(2), 2, headroom=8), Started)


def test_a_stream_of_its_own_is_not_narrowed_by_others() -> None:
    cells = manager(unified=False)
    assert isinstance(cells.start(RequestId(1), 10, headroom=8), Started)
    assert isinstance(cells.start(RequestId(2), 10, headroom=8), Started)
    assert cells.grow(SequenceId(0), 1) == Shortage(1)


def test_a_missing_sequence_id_is_told_apart_from_missing_cells() -> None:
    cells = manager(unified=True, num_sequences=1)
    cells.start(RequestId(1), 1, headroom=0)
    assert cells.start(RequestId(2), 1, headroom=0) == Shortage(0)


VERBS: dict[str, Callable[[CellManager], object]] = {
    "grow": lambda cells: cells.grow(SequenceId(1), 1),
    "rewind": lambda cells: cells.rewind(SequenceId(1), 0),
    "release": lambda cells: cells.release(SequenceId(1), ReleaseCause.COMPLETED, 0),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_sequence_that_nobody_holds_cannot_be_changed(verb: str) -> None:
    cells = manager(unified=True)
    cells.start(RequestId(1), 3, headroom=0)
    before = cells.usage()
    with pytest.raises(InvariantViolation, match="sequence 1 is not held"):
        VERBS[verb](cells)
    assert cells.usage() == before
    cells.check()


@pytest.mark.parametrize(
    ("held", "active", "idle", "rule"),
    [
        ({0: 3}, 4, [1], "do not add up"),
        ({0: 10, 1: 11}, 21, [], "more cells held"),
        ({0: 11}, 11, [1], "exceeds its limit"),
        ({0: 3}, 3, [0, 1], "held and free at once"),
        ({0: 3}, 3, [], "got lost"),
    ],
)
def test_check_names_the_rule_that_is_broken(held: dict[int, int], active: int, idle: list[int], rule: str) -> None:
    ids = LowestFirst(2)
    cells = CellManager(CellLayout(num_sequences=2, num_cells=20, sequence_limit=10, unified=True), ids)
    cells.start(RequestId(1), 3, headroom=0)
    cells.check()
    cells._held = {SequenceId(each): num_cells for each, num_cells in held.items()}
    cells._active_cells = active
    ids._free = [SequenceId(each) for each in idle]
    with pytest.raises(InvariantViolation, match=rule):
        cells.check()
