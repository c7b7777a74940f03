"""Windows of a text: what is scored, and what is refused."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from arriero.core.errors import ConfigError
from arriero.lab.quality.windows import cut, windowing_of
from arriero.metrics.window_bootstrap import FEWEST_WINDOWS


@given(st.integers(16, 64), st.integers(1, 64), st.integers(0, 400))
def test_no_token_is_scored_twice_and_each_has_half_a_window_before_it(window: int, stride: int, beyond: int) -> None:
    assume(stride <= window)
    num_tokens = window + (FEWEST_WINDOWS - 1) * stride + beyond
    windowing = windowing_of(num_tokens, window, stride, start_token=False)
    scored: list[int] = []
    for each in cut(range(num_tokens), windowing, None):
        assert len(each.tokens) == window
        assert list(each.tokens) == list(range(each.start, each.start + window))
        assert each.num_context >= window / 2
        scored.extend(each.targets)
    assert len(scored) == len(set(scored)) == windowing.num_windows * windowing.num_scored
    assert windowing.num_left_out == num_tokens - len(scored)
    assert num_tokens - (windowing.num_windows - 1) * stride < window + stride, "one window more would have fitted"


def test_half_a_window_apart_scores_all_but_the_beginning() -> None:
    windowing = windowing_of(32 * 6, 64, None, start_token=False)
    scored = [token for each in cut(range(32 * 6), windowing, None) for token in each.targets]
    assert scored == list(range(32, 32 * 6))


def test_the_start_token_takes_a_place_that_is_not_scored() -> None:
    windowing = windowing_of(200, 32, 16, start_token=True)
    first, second = cut(range(200), windowing, 999)[:2]
    assert (first.tokens[0], second.tokens[0]) == (999, 999)
    assert second.tokens[1:] == tuple(range(17, 48))
    assert 999 not in second.targets


def test_no_more_windows_than_asked_for() -> None:
    assert windowing_of(1000, 32, 16, start_token=False, most=7).num_windows == 7
    assert windowing_of(1000, 32, 16, start_token=False, most=7000).num_windows == 61


def test_a_text_that_is_too_short_says_how_many_tokens_are_missing() -> None:
    with pytest.raises(ConfigError, match=r"need 1536 tokens, and 36 of them are missing"):
        windowing_of(1500, 512, None, start_token=False)
    with pytest.raises(ConfigError, match=r"and 1535 of them are missing"):
        windowing_of(1, 512, None, start_token=False)
    assert windowing_of(1536, 512, None, start_token=False).num_windows == FEWEST_WINDOWS


@pytest.mark.parametrize(
    ("window", "stride", "words"),
    [(15, None, "--window 15: at least 16"), (64, 65, "--stride 65: from 1 to the 64"), (64, 0, "--stride 0")],
)
def test_sizes_that_cannot_work_are_refused(window: int, stride: int | None, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        windowing_of(10_000, window, stride, start_token=False)
