import statistics

import pytest

from arriero.metrics.paired_percent import LineFit, PercentSummary, Signs, count_signs, fit_line, paired_percent


def test_the_published_figures_of_a_metric() -> None:
    a, b = (100.0, 104.0, 98.0, 101.0, 103.0), (102.0, 103.0, 99.0, 101.0, 110.0)
    found = paired_percent(
        list(zip(a, b, strict=True)), higher_is_better=True, executions=[(0, 1), (3, 2), (4, 5), (7, 6), (8, 9)]
    )
    differences = [100 * (after - before) / before for before, after in zip(a, b, strict=True)]
    assert found.differences == tuple(differences)
    assert found.summary.median == statistics.median(differences)
    assert found.summary.signs == Signs(better=3, worse=1, ties=1)
    assert found.summary.cv_a == pytest.approx(100 * statistics.stdev(a) / statistics.mean(a))
    assert found.summary.half_medians == (statistics.median(differences[:2]), statistics.median(differences[2:]))
    expected = statistics.linear_regression(range(5), differences)
    assert found.differences_line.slope == pytest.approx(expected.slope)
    assert found.summary.r == pytest.approx(statistics.correlation(range(5), differences))
    assert found.line_b.slope == pytest.approx(statistics.linear_regression([1, 2, 5, 6, 9], b).slope)


def test_less_is_better_turns_the_signs() -> None:
    assert count_signs([1.0, -1.0, -2.0, 0.0], higher_is_better=False) == Signs(better=2, worse=1, ties=1)
    assert Signs(7, 3, 0).share_better == 0.7


def test_lines_that_do_not_exist() -> None:
    assert fit_line([0], [1.0]) == LineFit(None, None)
    assert fit_line([1, 1], [1.0, 2.0]) == LineFit(None, None)
    assert fit_line([0, 1], [3.0, 3.0]) == LineFit(0.0, None)


@pytest.mark.parametrize("pairs", [[], [(0.0, 1.0)], [(1.0, float("inf"))]])
def test_pairs_without_a_difference_are_refused(pairs: list[tuple[float, float]]) -> None:
    with pytest.raises(ValueError, match="finite values above 0"):
        paired_percent(pairs, higher_is_better=True)


def summary(*, r: float | None = 0.1, halves: tuple[float, float] | None = (0.0, 0.5)) -> PercentSummary:
    return PercentSummary(higher_is_better=True, num_pairs=20, median=1.0, low=0.5, high=1.5, r=r, half_medians=halves)


def test_material_drift_by_either_sign_and_unknown_without_one() -> None:
    assert summary().has_material_drift is False
    assert summary(r=-0.5).has_material_drift is True
    assert summary(halves=(0.0, -1.01)).has_material_drift is True
    assert summary(halves=(0.0, 1.0)).has_material_drift is False
    assert summary(r=None).has_material_drift is None
    assert summary(r=None, halves=(2.0, 0.0)).has_material_drift is True
    assert summary(halves=None, r=0.4).has_material_drift is None


def test_drift_is_detected_in_pairs_that_get_slower() -> None:
    pairs = [(100.0, 103.0 - 0.3 * number + 0.2 * (number % 3)) for number in range(20)]
    found = paired_percent(pairs, higher_is_better=True)
    assert found.summary.r is not None
    assert found.summary.r < -0.9
    assert found.summary.has_material_drift is True
