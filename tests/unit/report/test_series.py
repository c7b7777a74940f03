import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.report.columns import StepColumns
from arriero.report.series import (
    FULL,
    Cdf,
    Detail,
    Stretches,
    cdf,
    cdf_of_counts,
    count_over_time,
    detail_for,
    held_over_time,
    steps_over_time,
)

COARSE = Detail(num_bins=7, num_points=20, num_bars=3)
DETAILS = st.sampled_from([FULL, COARSE])
# (idle time before, duration, value) of each step
STEPS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 40), st.integers(0, 9)), max_size=60)


def columns(steps: list[tuple[int, int, int]]) -> StepColumns:
    began: list[float] = []
    ended: list[float] = []
    at = 0
    for idle, duration, _ in steps:
        began.append(at + idle)
        at += idle + duration
        ended.append(at)
    values = {"rows": np.array([value for _, _, value in steps], dtype=np.int64)}
    return StepColumns(began_at=np.array(began, dtype=float), ended_at=np.array(ended, dtype=float), values=values)


def value_at(curve: Stretches, at: float) -> float:
    index = int(np.searchsorted(curve.edges, at, side="right")) - 1
    return float(curve.values[index])


def naive(steps: StepColumns, at: float) -> float:
    for began, ended, value in zip(steps.began_at, steps.ended_at, steps.values["rows"], strict=True):
        if began <= at < ended:
            return float(value)
    return 0.0


def end_of(steps: StepColumns) -> float:
    return float(steps.ended_at[-1]) if len(steps.ended_at) else 0.0


# ── over time ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(STEPS, st.integers(1, 50))
def test_few_steps_are_drawn_as_they_were_and_0_between_them(steps: list[tuple[int, int, int]], rest: int) -> None:
    found = columns(steps)
    until = end_of(found) + rest
    curve = steps_over_time(found, ["rows"], (0.0, until))["rows"]
    assert curve.peaks is None
    assert curve.edges[0] == 0
    assert curve.edges[-1] == until
    assert (np.diff(curve.edges) > 0).all()
    for at in range(int(until)):
        assert value_at(curve, at + 0.5) == naive(found, at + 0.5)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 40), st.integers(0, 9)), min_size=20, max_size=60))
def test_bins_have_the_mean_over_their_time_and_the_highest_value_in_them(steps: list[tuple[int, int, int]]) -> None:
    found = columns(steps)
    until = end_of(found)
    curve = steps_over_time(found, ["rows"], (0.0, until), COARSE)["rows"]
    assert curve.num_drawn_from == len(steps)
    assert len(curve.values) == COARSE.num_bins
    assert curve.peaks is not None
    for low, high, mean, peak in zip(curve.edges, curve.edges[1:], curve.values, curve.peaks, strict=False):
        overlaps = [
            (min(high, ended) - max(low, began), value)
            for began, ended, value in zip(found.began_at, found.ended_at, found.values["rows"], strict=True)
        ]
        assert mean == pytest.approx(sum(max(0.0, time) * value for time, value in overlaps) / (high - low))
        assert peak == max((value for time, value in overlaps if time > 0), default=0)


@given(STEPS.filter(bool))
def test_what_is_held_after_a_step_lasts_until_the_end_of_the_next(steps: list[tuple[int, int, int]]) -> None:
    found = columns(steps)
    until = end_of(found) + 10
    curve = held_over_time(found, "rows", (0.0, until))
    for at in range(int(until)):
        ended = [value for end, value in zip(found.ended_at, found.values["rows"], strict=True) if end <= at + 0.5]
        assert value_at(curve, at + 0.5) == (ended[-1] if ended else 0)


@given(st.lists(st.tuples(st.integers(0, 40), st.none() | st.integers(0, 40)), max_size=30), DETAILS)
def test_stays_are_counted_at_every_moment(stays: list[tuple[int, int | None]], detail: Detail) -> None:
    begins = np.array([begin for begin, _ in stays], dtype=float)
    ends = np.array([np.nan if length is None else begin + length for begin, length in stays], dtype=float)
    curve = count_over_time(begins, ends, (0.0, 100.0), detail)
    counts = [
        sum(begin <= at + 0.5 and (length is None or at + 0.5 < begin + length) for begin, length in stays)
        for at in range(100)
    ]
    if curve.peaks is None:
        assert [value_at(curve, at + 0.5) for at in range(100)] == counts
    else:
        area = (np.diff(curve.edges) * curve.values).sum()
        assert area == pytest.approx(sum(counts))
        assert curve.highest == max(counts)


def test_who_never_began_is_not_counted() -> None:
    curve = count_over_time(np.array([np.nan, 5.0]), np.array([7.0, 9.0]), (0.0, 10.0))
    assert [value_at(curve, at) for at in (4.0, 6.0, 9.5)] == [0, 1, 0]


def test_nothing_at_all_is_a_flat_line() -> None:
    curve = count_over_time(np.array([]), np.array([]), (0.0, 10.0))
    assert (curve.edges.tolist(), curve.values.tolist(), curve.num_drawn_from) == ([0.0, 10.0], [0.0], 0)


# ── distributions ─────────────────────────────────────────────────────────────────────────────────────────────────────


def check_against(samples: list[int], curve: Cdf, censored: int) -> None:
    total = len(samples) + censored
    ordered = sorted(samples)
    for at, share in zip(curve.at.tolist(), curve.shares.tolist(), strict=True):
        rank = round(share * total)
        assert share == pytest.approx(rank / total)
        assert ordered[rank - 1] == at
    assert curve.at[0] == ordered[0]
    assert curve.at[-1] == ordered[-1]
    assert curve.shares[-1] == pytest.approx(len(samples) / total)


@given(st.lists(st.integers(0, 500), min_size=1, max_size=300), st.integers(0, 9), DETAILS)
def test_every_drawn_point_of_a_distribution_is_a_sample_at_its_rank(
    samples: list[int], censored: int, detail: Detail
) -> None:
    curve = cdf(np.array([*samples, np.nan], dtype=float), num_censored=censored, detail=detail)
    assert curve is not None
    assert curve.num_samples == len(samples)
    assert curve.is_thinned == (len(curve.at) < len(samples))
    assert len(curve.at) == len(samples) or len(curve.at) <= detail.num_points
    check_against(samples, curve, censored)


@given(st.lists(st.integers(0, 200), min_size=1, max_size=300), DETAILS)
def test_counts_stand_for_as_many_samples(samples: list[int], detail: Detail) -> None:
    counts = {value: samples.count(value) for value in samples}
    curve = cdf_of_counts(counts, detail=detail)
    assert curve is not None
    assert curve.num_samples == len(samples)
    assert len(curve.at) == len(counts) or len(curve.at) <= detail.num_points + 1
    for at, share in zip(curve.at.tolist(), curve.shares.tolist(), strict=True):
        assert share == pytest.approx(sum(value <= at for value in samples) / len(samples))
    assert curve.at[-1] == max(samples)


def test_thinning_is_close_at_both_ends() -> None:
    curve = cdf(np.arange(1.0, 1_000_001.0))
    assert curve is not None
    assert curve.at[:3].tolist() == [1, 2, 3]
    assert curve.at[-3:].tolist() == [999_998, 999_999, 1_000_000]
    assert np.diff(curve.shares).max() < 0.01
    assert len(curve.at) <= FULL.num_points


def test_without_samples_there_is_no_distribution() -> None:
    assert cdf(np.array([np.nan])) is None
    assert cdf_of_counts({}) is None


def test_more_results_are_drawn_in_less_detail() -> None:
    sizes = [detail_for(num).num_bins for num in (1, 4, 5, 10, 11, 100)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == FULL.num_bins
