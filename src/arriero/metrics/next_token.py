"""Two models' predictions of the same next tokens: likelihood of what follows, divergence, equal first choices.

All logarithms are natural, so figures are in nats. Logits come as float32 and are taken to float64 before anything is
computed: in float32 the sum over a vocabulary of 50,000 alone would cost the last three digits, and a divergence of
0.0001 is made of differences in the fifth.

    log p(i) = z(i) - m - log(sum(exp(z(j) - m)))      z logits, m their maximum
    nll      = -log p(target)
    KL(p||q) = sum(p(i) * (log p(i) - log q(i)))       p reference, q candidate

Source: Kullback and Leibler, On Information and Sufficiency (1951), for the divergence.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

_BLOCK_VALUES: Final = 1 << 21
"""Values that are computed at once, so that no more than about 16 MiB are held for each intermediate array."""


class RowScores(NamedTuple):
    """One value for each next token; float64[num_rows], `same_top` bool[num_rows]."""

    reference_nll: NDArray[np.float64]
    candidate_nll: NDArray[np.float64]
    divergence: NDArray[np.float64]
    same_top: NDArray[np.bool_]


def log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """Logarithms of probabilities, float64[num_rows, vocab_size], of finite logits of the same shape."""
    wide = logits.astype(np.float64)
    wide -= wide.max(axis=1, keepdims=True)
    wide -= np.log(np.exp(wide).sum(axis=1, keepdims=True))
    return wide


def divergence(reference: NDArray[np.float64], candidate: NDArray[np.float64]) -> NDArray[np.float64]:
    """KL(reference || candidate) of each row, from logarithms of probabilities; float64[num_rows].

    Equal rows give exactly 0. No divergence is below 0, so what rounding leaves there is 0.
    """
    terms = np.exp(reference) * (reference - candidate)
    return np.asarray(np.maximum(terms.sum(axis=1), 0.0), np.float64)


def token_nll(logits: NDArray[np.float32], targets: NDArray[np.int64]) -> NDArray[np.float64]:
    """Negative log-likelihood of the tokens that really follow; see `score_rows`."""
    parts = [_target_nll(log_softmax(logits[part]), targets[part]) for part in _blocks(*logits.shape)]
    return np.concatenate(parts)


def score_rows(reference: NDArray[np.float32], candidate: NDArray[np.float32], targets: NDArray[np.int64]) -> RowScores:
    """Score both models' logits against the tokens that really follow.

    Args:
        reference: float32[num_rows, vocab_size], finite.
        candidate: the same shape, finite.
        targets: int64[num_rows], ids within the vocabulary.

    Cost: O(num_rows * vocab_size) time; memory for about two million values at a time, beside the arguments.
    """
    parts = [_score_block(reference[part], candidate[part], targets[part]) for part in _blocks(*reference.shape)]
    return RowScores(
        np.concatenate([part.reference_nll for part in parts]),
        np.concatenate([part.candidate_nll for part in parts]),
        np.concatenate([part.divergence for part in parts]),
        np.concatenate([part.same_top for part in parts]),
    )


def _score_block(
    reference: NDArray[np.float32], candidate: NDArray[np.float32], targets: NDArray[np.int64]
) -> RowScores:
    log_p, log_q = log_softmax(reference), log_softmax(candidate)
    return RowScores(
        _target_nll(log_p, targets),
        _target_nll(log_q, targets),
        divergence(log_p, log_q),
        np.asarray(reference.argmax(axis=1) == candidate.argmax(axis=1), np.bool_),
    )


def _target_nll(log_p: NDArray[np.float64], targets: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.asarray(-log_p[np.arange(len(targets)), targets], np.float64)


def _blocks(num_rows: int, vocab_size: int) -> list[slice]:
    block = max(1, _BLOCK_VALUES // vocab_size)
    return [slice(at, at + block) for at in range(0, num_rows, block)]
