"""SamplerPool: the next token of each row of logits.

Plain greedy rows are answered together by one search for maxima; every other request has a sampler of its own, made
when it is first needed and closed when the request ends. A sampler that fails ends its own request and no other.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from arriero.core.errors import ArrieroError, StepFailed
from arriero.core.ids import RequestId, SequenceId, TokenId
from arriero.core.plan import Row, SequenceFailure
from arriero.core.request import Request

SAMPLER_FAILED: Final = "sampler_failed"


class TokenSampler(Protocol):
    """What the pool asks of a sampler; `arriero.backend.protocol.TokenSampler` says more."""

    def sample(self, logits: NDArray[np.float32], *, ban_end_tokens: bool) -> TokenId:
        """Choose a token and remember it."""
        ...

    def close(self) -> None:
        """Free what it holds."""
        ...


class SamplerPool:
    """The samplers of the requests that are alive; used by the thread that owns the context."""

    def __init__(self, make: Callable[[Request], TokenSampler]) -> None:
        """Start empty; `make` builds the sampler of one request and may raise."""
        self._make = make
        self._samplers: dict[RequestId, TokenSampler] = {}

    def __len__(self) -> int:
        return len(self._samplers)

    def choose(
        self, rows: Sequence[Row], logits: NDArray[np.float32]
    ) -> tuple[dict[SequenceId, TokenId], list[SequenceFailure]]:
        """Choose a token for each row that wants one; the logits may be overwritten.

        Greedy is the first maximum. A row whose maximum or choice is no finite number fails.

        Args:
            rows: the rows of the decode call, at most one for each sequence.
            logits: float32[num_logit_rows, vocab_size], what the call returned.

        Returns:
            Tokens by sequence, and the sequences that failed, in the order of the rows.
        """
        tokens: dict[SequenceId, TokenId] = {}
        failures: list[SequenceFailure] = []
        wanting = [row for row in rows if row.wants_logits and row.num_rows]
        # Row by row: one search over all rows is no faster, and would look at sampled rows in vain.
        for row, values in zip(wanting, logits, strict=True):
            try:
                token = self._choose_one(row, values)
            except Exception as problem:  # noqa: BLE001 - whatever it is, it must end this request only
                failures.append(SequenceFailure(row.sequence_id, SAMPLER_FAILED, reason_of(problem)))
            else:
                tokens[row.sequence_id] = token
        return tokens, failures

    def forget(self, request_id: RequestId) -> None:
        """Close the sampler of a request that has ended; one without a sampler is no mistake."""
        sampler = self._samplers.pop(request_id, None)
        if sampler is not None:
            sampler.close()

    def close(self) -> None:
        """Forget every request."""
        for request_id in tuple(self._samplers):
            self.forget(request_id)

    def _choose_one(self, row: Row, values: NDArray[np.float32]) -> TokenId:
        early = ends_too_early(row)
        if row.request.sampling.is_plain_greedy and not early:
            token = int(values.argmax())
        else:
            token = self._sampler_of(row.request).sample(values, ban_end_tokens=early)
        # the maximum of a row with a NaN in it is that NaN
        if not math.isfinite(values[token]):
            message = f"the model gave {values[token]} as the logit of token {token}"
            raise StepFailed(message, code=SAMPLER_FAILED)
        return token

    def _sampler_of(self, request: Request) -> TokenSampler:
        sampler = self._samplers.get(request.request_id)
        if sampler is None:
            sampler = self._samplers[request.request_id] = self._make(request)
        return sampler


def ends_too_early(row: Row) -> bool:
    """Whether an end token now would leave the answer shorter than `min_tokens`."""
    num_emitted = row.start + row.num_rows - len(row.request.prompt)
    return num_emitted < row.request.min_tokens


def reason_of(problem: Exception) -> str:
    """One line for the caller."""
    text = str(problem).partition("\n")[0]
    return text if isinstance(problem, ArrieroError) else f"the sampler raised {type(problem).__name__}: {text}"
