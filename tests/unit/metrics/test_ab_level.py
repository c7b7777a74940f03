import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.metrics.ab_level import LevelShift, level_shift

AA = ((100.0, 101.0), (99.0, 102.0), (98.0, 103.0))  # median 100.5
Pairs = list[tuple[float, float]]


def pairs(*a: float, b: float = 1.0) -> Pairs:
    return [(value, b) for value in a]


def test_a_level_that_moved_by_more_than_the_floor_is_told_with_both_levels() -> None:
    found = level_shift(AA, pairs(110.0, 105.525, 90.0), 0.04)
    assert found == LevelShift(before=100.5, after=105.525, floor=0.04)
    assert found.change == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("level", "is_told"), [(1.0, False), (1.049, False), (1.051, True), (0.953, False), (0.952, True)]
)
def test_the_floor_is_a_ratio_either_way(level: float, is_told: bool) -> None:  # noqa: FBT001
    assert (level_shift(AA, pairs(100.5 * level), 0.05) is not None) == is_told


def test_what_b_does_moves_no_level_of_a() -> None:
    assert level_shift(AA, pairs(100.5, 100.5, b=500.0), 0.0) is None


@given(
    st.lists(st.floats(1, 1e6), min_size=2, max_size=20),
    st.floats(0, 1),
    st.floats(1e-3, 1e3),
    st.floats(0.2, 5),
)
def test_the_unit_of_the_metric_does_not_matter(values: list[float], floor: float, unit: float, moved: float) -> None:
    aa, ab = list(zip(values, reversed(values), strict=True)), pairs(*(value * moved for value in values))
    found = level_shift(aa, ab, floor)
    scaled = level_shift([(unit * a, unit * b) for a, b in aa], [(unit * a, b) for a, b in ab], floor)
    if abs(abs(moved - 1) - floor) > 1e-6 and abs(abs(1 / moved - 1) - floor) > 1e-6:  # else rounding decides
        assert (found is None) == (scaled is None)
    if found is not None and scaled is not None:
        assert scaled.change == pytest.approx(found.change)
        assert found.change == pytest.approx(moved - 1)
