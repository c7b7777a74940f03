"""Ledger: how many cells each sequence holds, and how many are left.

    OwnStreams     a stream of cells for each sequence id; a copy takes cells of its own
    SharedCells    one pool; sequences that begin alike may hold the same cells

A sequence in the books is running or retained. Nothing here knows why; it only counts the cells of the two apart, where
a cell that both hold counts as running.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from arriero.core.errors import InvariantViolation
from arriero.core.ids import SequenceId


class Ledger(Protocol):
    """Cells by sequence; in use + free = total at any moment."""

    @property
    def lengths(self) -> Mapping[SequenceId, int]:
        """Cells of each sequence, shared ones for each."""
        ...

    @property
    def active_cells(self) -> int:
        """Cells that running sequences hold, each once."""
        ...

    @property
    def retained_cells(self) -> int:
        """Cells that only retained sequences hold, each once."""
        ...

    @property
    def shared_cells(self) -> int:
        """Cells that several sequences hold, each once."""
        ...

    @property
    def held_tokens(self) -> int:
        """Cells of running sequences, shared ones for each."""
        ...

    @property
    def largest(self) -> int:
        """The most cells that one sequence ever held."""
        ...

    def missing(self, more: int) -> int:
        """How many cells too few there are for `more`, if every retained sequence goes; not above 0 if there are."""
        ...

    def lack(self, more: int) -> int:
        """How many cells too few are free for `more` now; not above 0 if there are enough."""
        ...

    def wakes(self, source: SequenceId, length: int) -> int:
        """How many of its first `length` cells become active where a running sequence takes or shares them."""
        ...

    def freed_by(self, sequence_id: SequenceId) -> int:
        """How many cells nobody would hold if this sequence were gone."""
        ...

    def begin(self, sequence_id: SequenceId) -> None:
        """An empty sequence runs."""
        ...

    def share(self, source: SequenceId, sequence_id: SequenceId, length: int) -> None:
        """An empty sequence runs and gets the first `length` positions of another one."""
        ...

    def grow(self, sequence_id: SequenceId, num_cells: int) -> None:
        """A running sequence takes free cells, of which there are enough."""
        ...

    def grow_each(self, sequence_ids: Sequence[SequenceId], limit: int) -> bool:
        """Each of these takes one free cell, unless cells are too few or one would exceed `limit`; then no change."""
        ...

    def steps_ahead(self, sequence_ids: Sequence[SequenceId], limit: int) -> int:
        """How often `grow_each` will succeed in a row."""
        ...

    def trim(self, sequence_id: SequenceId, length: int) -> None:
        """A sequence gives back its cells from `length` on."""
        ...

    def retain(self, sequence_id: SequenceId) -> None:
        """A running sequence is retained from now on."""
        ...

    def resume(self, sequence_id: SequenceId) -> None:
        """A retained sequence runs from now on."""
        ...

    def drop(self, sequence_id: SequenceId) -> None:
        """A sequence gives everything back."""
        ...

    def move(self, source: SequenceId, sequence_id: SequenceId) -> None:
        """An empty sequence takes the place of another one, running or retained."""
        ...

    def check(self) -> None:
        """Verify the books from scratch.

        Raises:
            InvariantViolation: they do not add up.
        """
        ...


class OwnStreams:
    """A stream for each id: nobody narrows another one, so only a sequence's own limit counts."""

    def __init__(self) -> None:
        """Start empty."""
        self.lengths: dict[SequenceId, int] = {}
        self.held_tokens: int = 0
        self.retained_cells: int = 0
        self.largest: int = 0
        self._retained: set[SequenceId] = set()

    @property
    def active_cells(self) -> int:
        """All that running sequences hold."""
        return self.held_tokens

    @property
    def shared_cells(self) -> int:
        """None."""
        return 0

    def missing(self, more: int) -> int:
        """Never any."""
        del more
        return 0

    def lack(self, more: int) -> int:
        """Never any."""
        del more
        return 0

    def wakes(self, source: SequenceId, length: int) -> int:
        """A copy wakes nobody's cells."""
        del source, length
        return 0

    def freed_by(self, sequence_id: SequenceId) -> int:
        """All that it holds."""
        return self.lengths[sequence_id]

    def begin(self, sequence_id: SequenceId) -> None:
        """Hold nothing yet."""
        self.lengths[sequence_id] = 0

    def share(self, source: SequenceId, sequence_id: SequenceId, length: int) -> None:
        """Take as many cells of its own."""
        del source
        self.begin(sequence_id)
        self.grow(sequence_id, length)

    def grow(self, sequence_id: SequenceId, num_cells: int) -> None:
        """Take cells of its stream."""
        held = self.lengths[sequence_id] + num_cells
        self.lengths[sequence_id] = held
        self.held_tokens += num_cells
        self.largest = max(self.largest, held)

    def grow_each(self, sequence_ids: Sequence[SequenceId], limit: int) -> bool:
        """One more cell of each stream."""
        held = self.lengths
        lengths = [held[each] + 1 for each in sequence_ids]
        longest = max(lengths, default=0)
        if longest > limit:
            return False
        held.update(zip(sequence_ids, lengths, strict=True))
        self.held_tokens += len(lengths)
        self.largest = max(self.largest, longest)
        return True

    def steps_ahead(self, sequence_ids: Sequence[SequenceId], limit: int) -> int:
        """As long as the nearest limit allows."""
        return limit - max((self.lengths[each] for each in sequence_ids), default=0)

    def trim(self, sequence_id: SequenceId, length: int) -> None:
        """Give back the end of a stream."""
        given_back = self.lengths[sequence_id] - length
        if given_back <= 0:
            return
        self.lengths[sequence_id] = length
        if sequence_id in self._retained:
            self.retained_cells -= given_back
        else:
            self.held_tokens -= given_back

    def retain(self, sequence_id: SequenceId) -> None:
        """Count a stream as retained."""
        self._retained.add(sequence_id)
        self.held_tokens -= self.lengths[sequence_id]
        self.retained_cells += self.lengths[sequence_id]

    def resume(self, sequence_id: SequenceId) -> None:
        """Count a stream as running."""
        self._retained.remove(sequence_id)
        self.held_tokens += self.lengths[sequence_id]
        self.retained_cells -= self.lengths[sequence_id]

    def drop(self, sequence_id: SequenceId) -> None:
        """Give a stream back."""
        self.trim(sequence_id, 0)
        del self.lengths[sequence_id]
        self._retained.discard(sequence_id)

    def move(self, source: SequenceId, sequence_id: SequenceId) -> None:
        """Take as much of another stream and give that back."""
        self.lengths[sequence_id] = self.lengths.pop(source)
        if source in self._retained:
            self._retained.remove(source)
            self._retained.add(sequence_id)

    def check(self) -> None:
        """Count again."""
        retained = sum(self.lengths[each] for each in self._retained)
        rules = (
            (retained == self.retained_cells, "retained cells do not add up"),
            (sum(self.lengths.values()) - retained == self.held_tokens, "held cells do not add up"),
        )
        require(rules, f"held {self.lengths}, running {self.held_tokens}, retained {self.retained_cells}")


def require(rules: Sequence[tuple[bool, str]], figures: str) -> None:
    """Raise for the first rule that does not hold.

    Raises:
        InvariantViolation: names it, and the figures.
    """
    for holds, rule in rules:
        if not holds:
            message = f"{rule}: {figures}"
            raise InvariantViolation(message)
