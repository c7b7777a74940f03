import numpy as np
import pytest

from arriero.metrics.drift import FEWEST, drift, two_modes


def noisy(levels: list[float], *, noise: float = 0.005, seed: int = 1) -> list[float]:
    factors = 1 + noise * np.random.default_rng(seed).standard_normal(len(levels))
    return [float(level * factor) for level, factor in zip(levels, factors, strict=True)]


def warming_up(num_late: int = 15) -> list[float]:
    return noisy([25.0] * 5 + [43.0] * num_late)


def jumping() -> list[float]:
    return noisy([25.0, 43.0, 43.0, 25.0, 43.0, 25.0, 25.0, 43.0, 25.0, 43.0, 43.0, 43.0, 25.0, 43.0, 25.0])


def test_f4_a_run_that_is_still_warming_up_is_found_and_so_is_the_remedy() -> None:
    found = drift(warming_up())
    assert (found.found, found.is_warm_up, found.num_early, found.rest_is_steady) == (True, True, 5, True)
    assert found.change == pytest.approx(43 / 25 - 1, abs=0.02)
    assert found.words.startswith("the first 5 of 20 samples lie near 25.0")
    assert found.words.endswith("still warming up: leave out the first 5, or warm up longer")


def test_f4_after_the_warm_up_is_thrown_away_the_rest_is_steady() -> None:
    rest = warming_up()[5:]
    assert not drift(rest).found
    assert not two_modes(rest).found


def test_f4_a_run_that_jumps_between_two_levels_is_found() -> None:
    found = two_modes(jumping())
    assert (found.found, found.num_low, found.num_high, found.num_switches) == (True, 7, 8, 10)
    assert [found.low, found.high] == pytest.approx([25, 43], rel=0.01)
    assert "an average of both describes neither" in found.words
    assert not drift(jumping()).found


def test_a_warm_up_is_one_switch() -> None:
    found = two_modes(warming_up())
    assert (found.found, found.num_switches) == (True, 1)


def test_a_warm_up_that_creeps_up_to_its_level_is_one() -> None:
    found = drift(noisy([43 - 18 * 0.5**k for k in range(20)]))
    assert (found.found, found.is_warm_up, found.rest_is_steady) == (True, True, True)
    assert 4 <= found.num_early <= 7


def test_a_slope_is_no_step() -> None:
    found = drift(noisy([100 + 2 * k for k in range(20)]))
    assert (found.found, found.is_warm_up, found.num_early) == (True, False, 0)
    assert found.change == pytest.approx(0.38, abs=0.02)
    assert "rise by 3" in found.words
    assert "fall by" in drift(noisy([200 - 2 * k for k in range(20)])).words


def test_two_steps_have_no_remedy() -> None:
    found = drift(noisy([10.0] * 10 + [20.0] * 10 + [30.0] * 10))
    assert (found.found, found.rest_is_steady) == (True, False)


def test_a_warm_up_after_which_something_else_changes_has_none_either() -> None:
    found = drift(noisy([10.0] * 6 + [30.0] * 20 + [32.0] * 10, noise=0.001))
    assert (found.found, found.is_warm_up, found.rest_is_steady) == (True, True, False)
    assert found.words.endswith("and the later ones are not steady either: warm up longer, and look for what changes")


def test_a_short_rest_is_taken_as_steady() -> None:
    found = drift(noisy([25.0] * 6 + [43.0] * 5))
    assert (found.found, found.num_early, found.rest_is_steady) == (True, 6, True)


def test_a_change_that_does_not_matter_is_not_reported() -> None:
    tiny = noisy([100.0] * 10 + [100.5] * 10, noise=0.0001)
    assert drift(tiny).p_value < 0.01
    assert not drift(tiny).found
    coarse_clock = [100.0, 101.0] * 10
    assert not two_modes(coarse_clock).found


def test_equal_samples_are_steady() -> None:
    assert not drift([7.0] * 20).found
    assert not two_modes([7.0] * 20).found
    assert not drift([0.0] * 20).found
    assert not two_modes([0.0] * 20).found


def test_two_exact_levels_are_two_modes() -> None:
    assert two_modes([25.0, 43.0] * 5).found


def test_too_few_samples_say_nothing() -> None:
    few = [25.0] * 2 + [43.0] * (FEWEST - 3)
    assert not drift(few).found
    assert not two_modes(few).found


def test_two_outliers_among_forty_are_no_mode() -> None:
    samples = noisy([100.0] * 40, noise=0.02)
    samples[7] = samples[23] = 160.0
    assert not two_modes(samples).found


def test_the_same_seed_gives_the_same_answer() -> None:
    samples = noisy([100.0 + k for k in range(12)], noise=0.05)
    assert drift(samples, seed=3) == drift(samples, seed=3)


@pytest.mark.parametrize("size", [6, 10, 20])
def test_steady_samples_are_seldom_called_anything(size: int) -> None:
    runs = 100
    rng = np.random.default_rng(size)
    series = [rng.normal(100, 20, size).tolist() for _ in range(runs)]
    assert sum(drift(each, seed=seed).found for seed, each in enumerate(series)) <= 0.03 * runs
    assert sum(two_modes(each, seed=seed).found for seed, each in enumerate(series)) <= 0.01 * runs
