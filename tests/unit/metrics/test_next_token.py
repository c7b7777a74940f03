"""Log-probabilities and divergences, against scipy and against a computation in long doubles."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy.special import log_softmax as scipy_log_softmax
from scipy.special import rel_entr

from arriero.metrics import next_token
from arriero.metrics.next_token import divergence, log_softmax, score_rows, token_nll

SHAPES = st.tuples(st.integers(1, 6), st.integers(1, 9))
FINITE = st.floats(-80, 80, width=32)


@st.composite
def logit_pairs(draw: st.DrawFn) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int64]]:
    shape = draw(SHAPES)
    first, second = (draw(arrays(np.float32, shape, elements=FINITE)) for _ in range(2))
    return first, second, draw(arrays(np.int64, shape[0], elements=st.integers(0, shape[1] - 1)))


@given(logit_pairs())
def test_scores_are_those_of_scipy(given_: tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int64]]) -> None:
    first, second, targets = given_
    found = score_rows(first, second, targets)
    log_p, log_q = (scipy_log_softmax(each.astype(np.float64), axis=1) for each in (first, second))
    rows = np.arange(len(targets))
    np.testing.assert_allclose(found.reference_nll, -log_p[rows, targets], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.candidate_nll, -log_q[rows, targets], rtol=1e-12, atol=1e-12)
    expected = rel_entr(np.exp(log_p), np.exp(log_q)).sum(axis=1)
    np.testing.assert_allclose(found.divergence, expected, rtol=1e-9, atol=1e-12)
    assert found.same_top.tolist() == (first.argmax(axis=1) == second.argmax(axis=1)).tolist()


@given(logit_pairs())
def test_scores_are_those_of_long_doubles(
    given_: tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int64]],
) -> None:
    first, second, targets = given_
    found = score_rows(first, second, targets)
    for row, target in enumerate(targets):
        log_p, log_q = (
            wide - np.log(np.exp(wide).sum())
            for wide in (each[row].astype(np.longdouble) - each[row].max() for each in (first, second))
        )
        assert math.isclose(found.candidate_nll[row], float(-log_q[target]), rel_tol=1e-12, abs_tol=1e-13)
        expected = float((np.exp(log_p) * (log_p - log_q)).sum())
        assert math.isclose(found.divergence[row], expected, rel_tol=1e-9, abs_tol=1e-13)


@given(logit_pairs())
def test_equal_logits_diverge_by_exactly_nothing(
    given_: tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int64]],
) -> None:
    first, _, targets = given_
    found = score_rows(first, first.copy(), targets)
    assert found.divergence.tolist() == [0.0] * len(targets)
    assert found.same_top.all()
    assert found.reference_nll.tolist() == found.candidate_nll.tolist() == token_nll(first, targets).tolist()


@given(logit_pairs())
def test_a_divergence_is_never_below_zero(
    given_: tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int64]],
) -> None:
    first, second, targets = given_
    assert (score_rows(first, second, targets).divergence >= 0).all()


def test_a_certain_token_beside_impossible_ones_is_no_trouble() -> None:
    sure = np.array([[3e4, -3e4, 0.0]], np.float32)
    unsure = np.zeros((1, 3), np.float32)
    assert log_softmax(sure)[0, 0] == 0
    found = score_rows(sure, unsure, np.array([1]))
    assert found.reference_nll[0] == 6e4
    assert math.isclose(found.divergence[0], math.log(3), rel_tol=1e-15)


def test_the_divergence_is_taken_from_the_reference() -> None:
    reference = np.log(np.array([[0.75, 0.25]]))
    candidate = np.log(np.array([[0.5, 0.5]]))
    expected = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    assert math.isclose(divergence(reference, candidate)[0], expected, rel_tol=1e-14)
    assert not math.isclose(divergence(candidate, reference)[0], expected, rel_tol=1e-3)


def test_small_divergences_of_large_vocabularies_keep_their_digits() -> None:
    """In single precision this one would have no right digit."""
    rng = np.random.default_rng(1)
    first = rng.normal(0, 3, (2, 50_000)).astype(np.float32)
    second = first + rng.normal(0, 1e-3, first.shape).astype(np.float32)
    found = score_rows(first, second, np.array([5, 7]))
    wide = [each.astype(np.longdouble) for each in (first, second)]
    log_p, log_q = (each - np.log(np.exp(each).sum(axis=1, keepdims=True)) for each in wide)
    expected = (np.exp(log_p) * (log_p - log_q)).sum(axis=1).astype(np.float64)
    assert 1e-8 < expected.min() < 1e-5
    np.testing.assert_allclose(found.divergence, expected, rtol=1e-6)


def test_blocks_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    first, second = (rng.normal(0, 2, (7, 50)).astype(np.float32) for _ in range(2))
    targets = rng.integers(0, 50, 7)
    whole = score_rows(first, second, targets)
    monkeypatch.setattr(next_token, "_BLOCK_VALUES", 110)
    parts = score_rows(first, second, targets)
    for one, other in zip(whole, parts, strict=True):
        assert one.tolist() == other.tolist()
