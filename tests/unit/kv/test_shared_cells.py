from collections import Counter

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from arriero.core.errors import InvariantViolation
from arriero.core.ids import SequenceId
from arriero.kv.shared_cells import SharedCells
from tests.property.machines import machine_settings

NUM_CELLS = 60
IDS = st.integers(0, 6)


class SharedCellsMachine(RuleBasedStateMachine):
    """Sequences share, grow, shrink, rest and wake; cells are numbers in lists."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = SharedCells(NUM_CELLS)
        self.cells: dict[int, list[int]] = {}
        self.retained: set[int] = set()
        self.num_made = 0

    def of(self, sequences: set[int]) -> set[int]:
        return {cell for each in sequences for cell in self.cells[each]}

    def active(self) -> set[int]:
        return self.of(self.cells.keys() - self.retained)

    def free(self) -> int:
        return NUM_CELLS - len(self.of(set(self.cells)))

    @rule(each=IDS, number=st.integers(0, 12))
    def grow(self, each: int, number: int) -> None:
        if each in self.retained:
            return
        if each not in self.cells:
            self.ledger.begin(SequenceId(each))
            self.cells[each] = []
        number = min(number, self.free())
        self.ledger.grow(SequenceId(each), number)
        self.cells[each] += range(self.num_made, self.num_made + number)
        self.num_made += number

    @rule(limit=st.integers(1, 30))
    def grow_each(self, limit: int) -> None:
        running = sorted(self.cells.keys() - self.retained)
        fits = len(running) <= self.free() and all(len(self.cells[each]) < limit for each in running)
        steps = self.ledger.steps_ahead([SequenceId(each) for each in running], limit)
        assert not running or (steps > 0) == fits
        assert self.ledger.grow_each([SequenceId(each) for each in running], limit) == fits
        for each in running if fits else []:
            self.cells[each].append(self.num_made)
            self.num_made += 1

    @precondition(lambda self: self.cells)
    @rule(data=st.data(), each=IDS, share=st.floats(0, 1))
    def share(self, data: st.DataObject, each: int, share: float) -> None:
        source = data.draw(st.sampled_from(sorted(self.cells)))
        length = round(share * len(self.cells[source]))
        woken = len(set(self.cells[source][:length]) - self.active())
        assert self.ledger.wakes(SequenceId(source), length) == woken
        if each not in self.cells and length:
            self.ledger.share(SequenceId(source), SequenceId(each), length)
            self.cells[each] = self.cells[source][:length]

    @precondition(lambda self: self.cells)
    @rule(data=st.data(), share=st.floats(0, 1))
    def trim(self, data: st.DataObject, share: float) -> None:
        each = data.draw(st.sampled_from(sorted(self.cells)))
        length = round(share * len(self.cells[each]))
        self.ledger.trim(SequenceId(each), length)
        del self.cells[each][length:]

    @precondition(lambda self: self.cells)
    @rule(data=st.data())
    def retain_or_resume(self, data: st.DataObject) -> None:
        each = data.draw(st.sampled_from(sorted(self.cells)))
        if each in self.retained:
            self.ledger.resume(SequenceId(each))
            self.retained.remove(each)
        else:
            self.ledger.retain(SequenceId(each))
            self.retained.add(each)

    @precondition(lambda self: self.cells)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        each = data.draw(st.sampled_from(sorted(self.cells)))
        self.ledger.drop(SequenceId(each))
        del self.cells[each]
        self.retained.discard(each)

    @precondition(lambda self: self.cells)
    @rule(data=st.data(), to=IDS)
    def move(self, data: st.DataObject, to: int) -> None:
        each = data.draw(st.sampled_from(sorted(self.cells)))
        if to in self.cells:
            return
        self.ledger.move(SequenceId(each), SequenceId(to))
        self.cells[to] = self.cells.pop(each)
        if each in self.retained:
            self.retained.remove(each)
            self.retained.add(to)

    @invariant()
    def the_books_agree(self) -> None:
        ledger, active = self.ledger, self.active()
        ledger.check()
        everything = self.of(set(self.cells))
        assert ledger.lengths == {each: len(cells) for each, cells in self.cells.items()}
        assert (ledger.active_cells, ledger.retained_cells) == (len(active), len(everything - active))
        assert ledger.held_tokens == sum(len(self.cells[each]) for each in self.cells.keys() - self.retained)
        counts = Counter(cell for cells in self.cells.values() for cell in cells)
        assert ledger.shared_cells == sum(number > 1 for number in counts.values())
        assert (ledger.lack(5), ledger.missing(5)) == (5 - self.free(), 5 - (NUM_CELLS - len(active)))
        for each, cells in self.cells.items():
            assert ledger.freed_by(SequenceId(each)) == sum(counts[cell] == 1 for cell in cells)

    @invariant()
    def no_cut_is_left_that_nobody_needs(self) -> None:
        counts = Counter(cell for cells in self.cells.values() for cell in cells)
        for each, own in self.ledger._segments.items():
            bounds = {0, *(i for i in range(1, len(self.cells[each])) if self.differs(each, i))}
            shared = sum(counts[cell] > 1 for cell in self.cells[each])
            assert len(own) <= len(bounds), f"{shared} shared cells in {len(own)} segments"

    def differs(self, each: int, at: int) -> bool:
        """Whether other sequences hold the cell at this position than the one before it."""
        cells = self.cells[each]
        holders = [{name for name, held in self.cells.items() if cell in held} for cell in (cells[at - 1], cells[at])]
        return holders[0] != holders[1]


TestSharedCells = SharedCellsMachine.TestCase
TestSharedCells.settings = machine_settings(one_in=5)


def test_traffic_that_shares_nothing_has_no_segments() -> None:
    ledger = SharedCells(100)
    for each in map(SequenceId, range(3)):
        ledger.begin(each)
        ledger.grow(each, 10)
    ledger.retain(SequenceId(1))
    ledger.drop(SequenceId(2))
    ledger.trim(SequenceId(0), 4)
    assert ledger._segments == {}
    assert (ledger.active_cells, ledger.retained_cells, ledger.lack(0)) == (4, 10, -86)


def test_check_finds_cells_that_got_lost() -> None:
    ledger = SharedCells(100)
    ledger.begin(SequenceId(0))
    ledger.grow(SequenceId(0), 10)
    ledger.share(SequenceId(0), SequenceId(1), 6)
    ledger.check()
    ledger._num_spared -= 1
    with pytest.raises(InvariantViolation, match="active cells do not add up"):
        ledger.check()
