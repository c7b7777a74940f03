"""The machine's level, where it is known what it was."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.lab.level import WINDOW, lateness, running_level


@given(st.integers(1, 200), st.floats(0.1, 10))
def test_a_machine_that_is_always_wrong_by_the_same_is_at_its_usual_speed(number: int, ratio: float) -> None:
    level = running_level(np.full(number, ratio), np.ones(number))
    assert level == pytest.approx(np.ones(number))


def test_a_change_of_speed_is_seen_where_it_happens() -> None:
    ratios = np.repeat([1.0, 1.3, 1.0], [100, 60, 100])
    level = running_level(ratios, np.ones(260))
    assert level == pytest.approx(ratios * np.mean(1 / ratios))


@given(st.integers(0, 199), st.floats(1.5, 100))
def test_one_step_that_was_disturbed_says_nothing_of_the_machine(place: int, times: float) -> None:
    ratios = np.ones(200)
    ratios[place] = times
    assert running_level(ratios, np.ones(200)) == pytest.approx(np.ones(200))


def test_less_than_a_window_says_one_level() -> None:
    assert running_level(np.array([1.0, 1.2, 1.1]), np.ones(3)) == pytest.approx(np.ones(3), rel=0.1)
    assert len(running_level(np.ones(WINDOW - 1), np.ones(WINDOW - 1))) == WINDOW - 1


def test_usual_is_the_mean_over_the_time_and_not_over_the_steps() -> None:
    """Many short steps while it was slow, few long ones while it was fast."""
    ratios = np.repeat([1.2, 1.0], [300, 100])
    took = np.repeat([1.0, 10.0], [300, 100])
    level = running_level(ratios, took)
    assert np.average(level, weights=took / ratios) == pytest.approx(1)
    assert level[0] / level[-1] == pytest.approx(1.2)
    assert level[-1] == pytest.approx(1250 / 1300)  # 250 s of work that took 300 s, and 1,000 s


def test_lateness_is_what_one_second_in_twenty_exceeds() -> None:
    level = np.repeat([1.0, 1.2, 1.5], [90, 6, 4])
    assert lateness(level, np.ones(100)) == pytest.approx(0.2)
    assert lateness(np.repeat([0.9, 1.0], [40, 60]), np.ones(100)) == 0
