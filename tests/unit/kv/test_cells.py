from collections.abc import Callable

import pytest

from arriero.core.errors import ConfigError, InvariantViolation
from arriero.core.ids import RequestId, SequenceId
from arriero.kv.cells import CellLayout, CellManager
from arriero.kv.ledger import OwnStreams
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


def break_ids(cells: CellManager, ids: LowestFirst) -> None:
    del cells
    ids._free.append(SequenceId(0))


def lose_an_id(cells: CellManager, ids: LowestFirst) -> None:
    del cells
    ids._free.clear()


def overfill(cells: CellManager, ids: LowestFirst) -> None:
    del ids
    cells._ledger.grow(SequenceId(0), 8)


def forget_a_holder(cells: CellManager, ids: LowestFirst) -> None:
    del ids
    del cells._held[SequenceId(0)]


def miscount(cells: CellManager, ids: LowestFirst) -> None:
    del ids
    ledger = cells._ledger
    assert isinstance(ledger, OwnStreams)
    ledger.held_tokens += 1


@pytest.mark.parametrize(
    ("breaks", "rule"),
    [
        (break_ids, "held and free at once"),
        (lose_an_id, "got lost"),
        (overfill, "exceeds its limit"),
        (forget_a_holder, "nobody has it"),
        (miscount, "do not add up"),
    ],
)
@pytest.mark.parametrize("unified", [True, False])
def test_check_names_the_rule_that_is_broken(
    breaks: Callable[[CellManager, LowestFirst], None],
    rule: str,
    unified: bool,  # noqa: FBT001 - a parameter
) -> None:
    ids = LowestFirst(2)
    cells = CellManager(CellLayout(num_sequences=2, num_cells=20, sequence_limit=10, unified=unified), ids)
    cells.start(RequestId(1), 3, headroom=0)
    cells.check()
    breaks(cells, ids)
    with pytest.raises(InvariantViolation, match=rule):
        cells.check()
