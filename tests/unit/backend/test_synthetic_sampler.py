from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.backend.synthetic_sampler import SyntheticSampler, keep, softmax
from arriero.core.errors import EngineFault
from arriero.core.request import SamplingParams
from arriero.testing.suites import request_of

SCORES = np.array([3.0, 2.0, 1.0, 0.0, -1.0, -2.0], np.float32)


def sampler_of(params: SamplingParams, prompt: tuple[int, ...] = (0,)) -> SyntheticSampler:
    return SyntheticSampler(request_of(prompt, sampling=params), frozenset({0}))


@given(
    top_k=st.integers(0, 9),
    top_p=st.floats(0.01, 1.0),
    min_p=st.floats(0.0, 1.0),
    min_keep=st.integers(1, 6),
    scores=st.lists(st.floats(-20, 20), min_size=1, max_size=8),
)
def test_filters_leave_at_least_one_token(
    top_k: int, top_p: float, min_p: float, min_keep: int, scores: list[float]
) -> None:
    params = SamplingParams(temperature=1, top_k=top_k, top_p=top_p, min_p=min_p, min_keep=min_keep)
    kept = keep(np.array(sorted(scores, reverse=True)), params)
    assert 1 <= kept <= min(top_k or len(scores), len(scores))


def test_filters_cut_where_they_should() -> None:
    descending = SCORES.astype(np.float64)
    assert keep(descending, SamplingParams(temperature=1)) == 6
    assert keep(descending, SamplingParams(temperature=1, top_k=2)) == 2
    assert keep(descending, SamplingParams(temperature=1, top_p=0.6)) == 1
    assert keep(descending, SamplingParams(temperature=1, top_p=0.7)) == 2
    assert keep(descending, SamplingParams(temperature=1, top_p=0.6, min_keep=3)) == 3
    assert keep(descending, SamplingParams(temperature=1, min_p=0.3)) == 2


def test_draws_follow_the_probabilities() -> None:
    sampler = sampler_of(SamplingParams(temperature=1.0, seed=1))
    counts = Counter(sampler.sample(SCORES.copy(), ban_end_tokens=False) for _ in range(3_000))
    expected = softmax(SCORES.astype(np.float64))
    assert all(abs(counts[token] / 3_000 - p) < 0.03 for token, p in enumerate(expected))


def test_penalties_look_at_the_last_tokens_only() -> None:
    params = SamplingParams(frequency_penalty=1.5, penalty_last_n=2)
    assert sampler_of(params, (0, 5, 5)).sample(SCORES.copy(), ban_end_tokens=False) == 0
    assert sampler_of(params, (5, 5, 0)).sample(SCORES.copy(), ban_end_tokens=False) == 1
    sampler = sampler_of(params, (5, 5))
    assert [sampler.sample(SCORES.copy(), ban_end_tokens=False) for _ in range(3)] == [0, 1, 0]


def test_a_request_that_bans_every_token_fails() -> None:
    sampler = sampler_of(SamplingParams(logit_bias=tuple((token, float("-inf")) for token in range(1, 6))))
    with pytest.raises(EngineFault, match="no token is left"):
        sampler.sample(SCORES.copy(), ban_end_tokens=True)
