"""Scores of single tokens: the reference and a candidate predict the same windows side by side.

Both models' logits of one window are held at a time, and nothing of the window before: `num_scored` rows a model, 50 MB
for 256 rows of a vocabulary of 49,152. The reference is computed again beside each candidate. Its log-probabilities
of a whole text would take a gigabyte for this small vocabulary, on disk as in memory; and the second time it shows
whether it gives the same bits.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from arriero.lab.quality.subject import Subject
from arriero.lab.quality.windows import Window
from arriero.metrics.next_token import score_rows, token_nll
from arriero.record.cpu_lab.quality_figures import Rows, TokenScores


class PairScores(NamedTuple):
    """What two models made of a text."""

    reference_nll: Rows
    candidate: TokenScores


def score_alone(windows: Sequence[Window], subject: Subject, tell: Callable[[int], None]) -> Rows:
    """Negative log-likelihoods of one model, without another one beside it; see `score_windows`."""
    found: list[tuple[float, ...]] = []
    for number, window in enumerate(windows):
        tell(number)
        logits = subject.predict(window.tokens, window.num_context)
        found.append(tuple(token_nll(logits, np.asarray(window.targets, np.int64)).tolist()))
    return tuple(found)


def score_windows(
    windows: Sequence[Window], reference: Subject, candidate: Subject, tell: Callable[[int], None]
) -> PairScores:
    """Let both models predict every window.

    Args:
        windows: of one text.
        reference: whose distribution is the one that the other's diverges from.
        candidate: with the same vocabulary.
        tell: gets the number of windows that are done.

    Raises:
        EngineFault: see `Subject.predict`.
    """
    reference_nll: list[tuple[float, ...]] = []
    nll: list[tuple[float, ...]] = []
    divergence: list[tuple[float, ...]] = []
    same_top: list[tuple[int, ...]] = []
    for number, window in enumerate(windows):
        tell(number)
        scores = score_rows(
            reference.predict(window.tokens, window.num_context),
            candidate.predict(window.tokens, window.num_context),
            np.asarray(window.targets, np.int64),
        )
        reference_nll.append(tuple(scores.reference_nll.tolist()))
        nll.append(tuple(scores.candidate_nll.tolist()))
        divergence.append(tuple(scores.divergence.tolist()))
        same_top.append(tuple(map(int, scores.same_top.tolist())))
    found = TokenScores(nll=tuple(nll), divergence=tuple(divergence), same_top=tuple(same_top))
    return PairScores(tuple(reference_nll), found)
