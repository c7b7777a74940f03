r"""Whether A stood still: its level among the A/A pairs against its level among the pairs, which come later.

    A A A A A A A A ... A B B A A B ...     A is the same thing in both parts,
    \_____ A/A ____/   \___ pairs ___/      so what its level moves by between them is the machine's doing

The noise floor is measured in the first part and used in the second. Where A moved by more than the floor, the machine
was not the same in both, and nothing says that its noise was.
"""

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from arriero.metrics.paired_figures import Interval, band


class LevelShift(NamedTuple):
    """A's level in both parts, further apart than the noise floor."""

    before: float  # median of every run of the A/A pairs
    after: float  # median of A's runs among the pairs
    floor: float  # relative

    @property
    def change(self) -> float:
        """Relative."""
        return self.after / self.before - 1


def level_shift(
    aa_pairs: Sequence[tuple[float, float]], ab_pairs: Sequence[tuple[float, float]], floor: float
) -> LevelShift | None:
    """How A's level moved between the parts; None if by no more than the floor.

    Args:
        aa_pairs: at least one; both of each are A; above 0.
        ab_pairs: at least one; the first of each is A; above 0.
        floor: relative noise floor of the A/A pairs.
    """
    before = median(value for pair in aa_pairs for value in pair)
    after = median(a for a, _ in ab_pairs)
    ratio = after / before
    return None if Interval(ratio, ratio).lies_within(band(floor)) else LevelShift(before, after, floor)
