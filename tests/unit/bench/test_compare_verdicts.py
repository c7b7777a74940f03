"""The exit status of a comparison is that of its worst cell."""

from itertools import permutations

import pytest

from arriero.bench.compare_verdicts import Status, worst_status

WORST_FIRST = (Status.FAILED, Status.NO_VERDICT, Status.WORSE, Status.NOT_RESOLVED, Status.DECIDED)


@pytest.mark.parametrize("count", range(len(WORST_FIRST)))
def test_the_worst_wins_in_any_order(count: int) -> None:
    for statuses in permutations(WORST_FIRST[count:]):
        assert worst_status(statuses) is WORST_FIRST[count]


def test_not_resolved_and_no_larger_difference_end_differently() -> None:
    assert int(Status.DECIDED) == 0
    assert len(set(Status)) == 5
    assert Status.NOT_RESOLVED not in {Status.DECIDED, 2, 130}, "2 is misuse, 130 is an interrupt"
