"""The Pareto front, against its definition."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.metrics.pareto import pareto_front

POINTS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5)), max_size=12)


@given(POINTS)
def test_what_is_off_the_front_is_beaten_by_something_on_it(points: list[tuple[int, int, int]]) -> None:
    front = pareto_front(points)
    on = [point for point, is_on in zip(points, front, strict=True) if is_on]
    assert bool(on) == bool(points)
    for point, is_on in zip(points, front, strict=True):
        beaten = any(other != point and all(a <= b for a, b in zip(other, point, strict=True)) for other in on)
        assert beaten is not is_on


def test_equal_points_stand_on_the_front_together() -> None:
    assert pareto_front([(1, 2), (1, 2), (2, 1), (2, 2)]) == (True, True, True, False)


def test_other_objectives_are_refused() -> None:
    with pytest.raises(ValueError, match="same objectives"):
        pareto_front([(1,), (1, 2)])
