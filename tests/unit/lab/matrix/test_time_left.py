"""How long a matrix will still take."""

import pytest

from arriero.lab.matrix.cases import Invocation, invocations
from arriero.lab.matrix.time_left import TimeLeft, in_words
from tests.unit.lab.matrix.matrices import cases

SHORT, LONG = cases(8, threads=(1, 2))


def planned(*matrix: object) -> list[Invocation]:
    return list(invocations(["m"], matrix, warmup_runs=0, repetitions=2))  # type: ignore[arg-type]


def test_nothing_is_known_at_the_beginning() -> None:
    assert TimeLeft().left_s(planned(SHORT)) is None


def test_a_case_that_ran_is_expected_to_take_as_long_again_and_others_the_mean() -> None:
    left = TimeLeft()
    left.note(planned(SHORT)[0], 2.0)
    assert left.left_s(planned(SHORT, LONG)) == pytest.approx(8.0)
    left.note(planned(LONG)[0], 10.0)
    assert left.left_s(planned(SHORT, LONG)) == pytest.approx(24.0)
    assert left.left_s([]) == 0


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "time left unknown"),
        (0, "nothing left"),
        (0.2, "about 1 s left"),
        (59, "about 59 s left"),
        (90, "about 2 min left"),
        (9000, "about 2.5 h left"),
    ],
)
def test_time_is_told_in_words(seconds: float | None, words: str) -> None:
    assert in_words(seconds) == words
