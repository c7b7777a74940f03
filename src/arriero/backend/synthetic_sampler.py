"""SyntheticSampler: a seeded sampler in numpy, for backends without llama.cpp.

It has the parameters and the order of llama.cpp's chain, and none of its speed; its random numbers are its own.
"""

import random
from collections import Counter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from arriero.core.errors import EngineFault
from arriero.core.ids import TokenId
from arriero.core.request import Request, SamplingParams

WHOLE_SEQUENCE: Final = -1


class SyntheticSampler:
    """The sampler of one request; keeps its random state and, for penalties, its tokens."""

    def __init__(self, request: Request, end_tokens: frozenset[TokenId]) -> None:
        """Begin with the request's prompt."""
        self._params = request.sampling
        self._end_tokens = np.array(sorted(end_tokens | request.end_tokens), np.int64)
        self._random = random.Random(request.sampling.seed)
        self._tokens = list(request.prompt)

    def sample(self, logits: NDArray[np.float32], *, ban_end_tokens: bool) -> TokenId:
        """Choose a token and remember it; overwrites the logits of end tokens if these are banned.

        Raises:
            EngineFault: no token is left to choose.
        """
        if ban_end_tokens:
            logits[self._end_tokens] = -np.inf
        scores = logits.astype(np.float64)
        for token, bias in self._params.logit_bias:
            scores[token] += bias
        self._penalise(scores)
        token = int(scores.argmax()) if self._params.temperature == 0 else self._draw(scores)
        if not np.isfinite(scores[token]):
            raise EngineFault("no token is left to choose", code="sampler_failed")
        self._tokens.append(token)
        return token

    def close(self) -> None:
        """Nothing is held."""

    def _penalise(self, scores: NDArray[np.float64]) -> None:
        params = self._params
        if not params.has_penalties or params.penalty_last_n == 0:
            return
        last = self._tokens if params.penalty_last_n == WHOLE_SEQUENCE else self._tokens[-params.penalty_last_n :]
        for token, count in Counter(last).items():
            scores[token] *= params.repeat_penalty if scores[token] <= 0 else 1 / params.repeat_penalty
            scores[token] -= count * params.frequency_penalty + params.presence_penalty

    def _draw(self, scores: NDArray[np.float64]) -> TokenId:
        order = np.argsort(-scores, kind="stable")
        kept = order[: keep(scores[order], self._params)]
        weights = softmax(scores[kept] / self._params.temperature)
        place = int(np.searchsorted(np.cumsum(weights), self._random.random(), side="right"))
        return int(kept[min(place, len(kept) - 1)])


def keep(descending: NDArray[np.float64], params: SamplingParams) -> int:
    """How many of the best tokens top-k, top-p and min-p leave; each looks at what the one before has left."""
    kept = min(params.top_k or len(descending), len(descending))
    if params.top_p < 1:
        mass = np.cumsum(softmax(descending[:kept]))
        kept = min(kept, max(int(np.searchsorted(mass, params.top_p)) + 1, params.min_keep))
    if params.min_p > 0:
        likely = softmax(descending[:kept])
        kept = min(kept, max(int((likely >= params.min_p * likely[0]).sum()), params.min_keep))
    return kept


def softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities of scores."""
    weights = np.exp(scores - scores.max())
    return np.asarray(weights / weights.sum(), np.float64)
