"""HeldCells: how many KV cells the sequences of a journal hold.

A sequence that starts takes the places of its whole prompt, and of its answer so far if it is resumed.
One whose run is kept for reuse after its request has ended is not cleared, and so still counts; cells that sequences
share count for each of them.
"""

from typing import Final

from arriero.record.journal_parts import AdmittedRow, Dropped, EventRow, MovedAway, OutcomeRow, PlannedRow, Trimmed

_COMPUTED: Final = frozenset({"sampled", "counted"})


class HeldCells:
    """Counts them from admissions, rows and KV operations.

    Attributes:
        held: now.
    """

    def __init__(self) -> None:
        """Nothing is held."""
        self.held = 0
        self._lengths: dict[int, int] = {}

    def start(self, sequence: int, num_tokens: int) -> None:
        """A sequence was handed out."""
        self._set(sequence, num_tokens)

    def fill(self, rows: tuple[PlannedRow, ...], outcome: OutcomeRow) -> range:
        """Rows were computed; those of a step that gave nothing are not.

        Returns:
            How many cells were held in each of the equal steps of this record: every row took one more each time.
        """
        if outcome.came in _COMPUTED:
            failed = {failure.sequence for failure in outcome.failures}
            for row in rows:
                if row.sequence not in failed:
                    reached = row.start + row.length + outcome.times - 1
                    self._set(row.sequence, max(reached, self._lengths.get(row.sequence, 0)))
        return range(self.held - (outcome.times - 1) * len(rows), self.held + 1, len(rows))

    def free(self, events: tuple[EventRow, ...], kept: frozenset[int] = frozenset()) -> None:
        """Take back what a step's events clear; a sequence that is handed out again after that keeps its places.

        Args:
            events: of the step.
            kept: sequences that are left alone.
        """
        lengths: dict[int, int] = {}
        for event in events:
            match event:
                case Dropped(sequence=sequence):
                    lengths[sequence] = 0
                case Trimmed(sequence=sequence, length=length):
                    lengths[sequence] = length
                case MovedAway(source=source, sequence=sequence):
                    lengths.pop(sequence, None)
                    self._set(sequence, self._lengths.get(source, 0))
                case AdmittedRow(sequence=sequence):
                    lengths.pop(sequence, None)
                case _:
                    pass
        for sequence, length in lengths.items():
            if sequence not in kept:
                self._set(sequence, min(length, self._lengths.get(sequence, 0)))

    def _set(self, sequence: int, length: int) -> None:
        self.held += length - self._lengths.get(sequence, 0)
        self._lengths[sequence] = length
