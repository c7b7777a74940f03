"""CountingKernels: a backend whose last bits depend on how many rows are computed together, as some formats' do.

    consecutive ids are computed together, and each break starts anew
    of each such run, whole groups of rows take one kernel, and what is left over takes another

Tokens stay what they were: only the bits of the logits change.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from arriero.backend.protocol import Backend
from arriero.core.plan import Row
from arriero.testing.fakes import FaultyBackend

TRACE: Final = np.float32(2**-10)
"""What the other kernel leaves in a logit: far less than lies between two tokens."""


class CountingKernels(FaultyBackend):
    """Any backend, whose rows outside whole groups get other bits."""

    def __init__(self, inner: Backend, group: int) -> None:
        """`group` rows take the kernel for many; with 1 nothing depends on anything."""
        super().__init__(inner)
        self._group = group

    def decode(self, rows: Sequence[Row]) -> NDArray[np.float32]:
        """The inner call; rows that are left over are marked."""
        logits = super().decode(rows).copy()
        computed = [row for row in rows if row.num_rows]
        places = [place for place, row in enumerate(computed) if row.wants_logits]
        left_over = {place for run in _runs(computed) for place in self._left_over(computed, run)}
        for number, place in enumerate(places):
            if place in left_over:
                logits[number, 0] += TRACE
        return logits

    def _left_over(self, rows: Sequence[Row], run: range) -> Iterator[int]:
        """Entries of a run whose last row comes after the last whole group."""
        total = sum(rows[place].num_rows for place in run)
        whole, end = total - total % self._group, 0
        for place in run:
            end += rows[place].num_rows
            if end > whole:
                yield place


def _runs(rows: Sequence[Row]) -> Iterator[range]:
    """Stretches of entries whose ids follow one another without a hole."""
    breaks = [
        place + 1
        for place, (one, other) in enumerate(pairwise(rows))
        if other.sequence_id not in {one.sequence_id, one.sequence_id + 1}
    ]
    for start, end in pairwise([0, *breaks, len(rows)]):
        yield range(start, end)
