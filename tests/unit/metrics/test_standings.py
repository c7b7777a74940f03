"""Standings on a front whose figures are known within ranges."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.metrics.pareto import pareto_front
from arriero.metrics.spread import spread
from arriero.metrics.standings import Offer, Range, Standing, offer_standings, standings

EXACT = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5)), max_size=8)
RANGE = st.tuples(st.integers(0, 6), st.integers(0, 3)).map(lambda pair: Range(pair[0], pair[0] + pair[1]))
POINTS = st.lists(st.tuples(RANGE, RANGE), max_size=8)
WIDENING = st.lists(st.integers(0, 3), min_size=32, max_size=32)


def widened(points: list[tuple[Range, Range]], by: list[int]) -> list[list[Range]]:
    """Every range with something added below and above."""
    steps = iter(by)
    return [[Range(each.low - next(steps), each.high + next(steps)) for each in point] for point in points]


@given(EXACT)
def test_without_any_spread_it_is_the_exact_front(points: list[tuple[int, int, int]]) -> None:
    found = standings([[Range(value, value) for value in point] for point in points])
    assert [each is Standing.ON_FRONT for each in found] == list(pareto_front(points))
    assert Standing.NOT_RESOLVED not in found


@given(POINTS, WIDENING)
def test_more_spread_never_makes_a_verdict(points: list[tuple[Range, Range]], by: list[int]) -> None:
    for before, after in zip(standings(points), standings(widened(points, by)), strict=True):
        assert after in {before, Standing.NOT_RESOLVED}


@given(POINTS)
def test_what_is_beaten_is_beaten_by_something_that_is_not(points: list[tuple[Range, Range]]) -> None:
    found = standings(points)
    stay = [point for point, standing in zip(points, found, strict=True) if standing is not Standing.BEATEN]
    assert bool(stay) == bool(points)
    for point, standing in zip(points, found, strict=True):
        surely = any(
            all(a.high <= b.low for a, b in zip(other, point, strict=True))
            and any(a.high < b.low for a, b in zip(other, point, strict=True))
            for other in stay
        )
        assert surely is (standing is Standing.BEATEN)


def test_ranges_that_overlap_resolve_nothing_and_ranges_that_touch_do() -> None:
    small = (Range(1, 1), Range(10, 12))
    assert standings([small, (Range(2, 2), Range(11, 13))]) == (Standing.ON_FRONT, Standing.NOT_RESOLVED)
    assert standings([small, (Range(2, 2), Range(12, 13))]) == (Standing.ON_FRONT, Standing.BEATEN)
    assert standings([small, (Range(2, 2), Range(8, 9))]) == (Standing.ON_FRONT, Standing.ON_FRONT)


def test_a_larger_file_stays_until_its_fastest_repetition_is_no_faster() -> None:
    small = Offer(100, spread([20.0, 22.0]))
    assert offer_standings([small, Offer(200, spread([19.0, 21.0]))]) == (Standing.ON_FRONT, Standing.NOT_RESOLVED)
    assert offer_standings([small, Offer(200, spread([18.0, 19.0]))]) == (Standing.ON_FRONT, Standing.BEATEN)
    assert offer_standings([small, Offer(200, spread([23.0, 25.0]))]) == (Standing.ON_FRONT, Standing.ON_FRONT)


def test_one_repetition_beats_nothing_and_is_beaten_by_nothing() -> None:
    once, twice = spread([50.0]), spread([20.0, 22.0])
    assert offer_standings([Offer(100, once), Offer(200, twice)]) == (Standing.ON_FRONT, Standing.NOT_RESOLVED)
    assert offer_standings([Offer(100, twice), Offer(200, once)]) == (Standing.ON_FRONT, Standing.NOT_RESOLVED)


def test_divergence_counts_only_where_every_file_has_it() -> None:
    slow, fast = spread([18.0, 19.0]), spread([20.0, 22.0])
    both = offer_standings([Offer(200, slow, 0.001, 0.002), Offer(100, fast, 0.1, 0.12)])
    assert both == (Standing.ON_FRONT, Standing.ON_FRONT)
    assert offer_standings([Offer(200, slow, 0.001), Offer(100, fast)]) == (Standing.BEATEN, Standing.ON_FRONT)


def test_divergences_whose_intervals_overlap_resolve_nothing() -> None:
    slow, fast = spread([18.0, 19.0]), spread([20.0, 22.0])
    for high, standing in ((0.13, Standing.NOT_RESOLVED), (0.105, Standing.ON_FRONT), (None, Standing.ON_FRONT)):
        found = offer_standings([Offer(200, slow, 0.1, high), Offer(100, fast, 0.12, high and high + 0.02)])
        assert found == (standing, Standing.ON_FRONT)


def test_no_point_has_no_standing_and_other_objectives_are_refused() -> None:
    assert standings([]) == ()
    assert offer_standings([]) == ()
    with pytest.raises(ValueError, match="same objectives"):
        standings([[Range(1, 1)], [Range(1, 1), Range(2, 2)]])
