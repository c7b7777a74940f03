"""LogitBench: a backend, and the few calls of which comparisons of logits are made."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from arriero.backend.protocol import Backend
from arriero.core.errors import ConfigError
from arriero.core.events import DropSequence, KvOp
from arriero.core.ids import RequestId, SequenceId, TokenId
from arriero.core.option_kinds import Threads
from arriero.core.plan import DecodeRow, PrefillChunk, Row
from arriero.core.request import Request

ANSWER: Final = 8
"""Positions that a prompt leaves free for its answer."""


class LogitBench:
    """One request alone, in chunks, beside others: copies of logits, never views.

    Attributes:
        limits, support: the backend's.
        longest: rows of the longest chunk that one call takes.
    """

    def __init__(self, backend: Backend) -> None:
        """The backend stays its owner's."""
        self.limits = backend.limits
        self.support = backend.reuse_support
        self.longest = min(self.limits.micro_batch, self.limits.num_rows)
        self._backend = backend

    def fits(self, length: int) -> int:
        """So long a prompt, or as long as a sequence can hold beside the answer."""
        return max(1, min(length, self.limits.sequence_limit - ANSWER))

    def apply(self, op: KvOp) -> None:
        """Change the KV memory.

        Raises:
            ConfigError: it refuses, so nothing can be compared.
        """
        if not self._backend.apply(op):
            message = f"this model's memory refuses {type(op).__name__}, which exact mode needs; leave out --exact"
            raise ConfigError(message)

    def compute_with(self, number: int) -> None:
        """Let so many threads compute from now on."""
        self._backend.set_threads(Threads(number, number))

    def clear(self) -> None:
        """Empty every sequence."""
        for number in range(self.limits.num_sequences):
            self.apply(DropSequence(SequenceId(number)))

    def decode(self, rows: Sequence[Row]) -> NDArray[np.float32]:
        """One call; float32[num_logit_rows, vocab_size]."""
        return self._backend.decode(rows).copy()

    def prefill(self, request: Request, sequence_id: int, cuts: Sequence[int] = ()) -> NDArray[np.float32]:
        """A prompt on an emptied sequence, in chunks that end at the cuts, none longer than one call takes."""
        self.apply(DropSequence(SequenceId(sequence_id)))
        return self.finish(request, sequence_id, 0, cuts)

    def finish(self, request: Request, sequence_id: int, start: int, cuts: Sequence[int] = ()) -> NDArray[np.float32]:
        """The rest of a prompt; a copy of its last row of logits."""
        num_prompt = len(request.prompt)
        logits: NDArray[np.float32] | None = None
        for cut in (*cuts, num_prompt):
            while start < cut:
                end = _end_of_chunk(start, cut, self.longest)
                tokens = tuple(request.prompt[start:end])
                chunk = PrefillChunk(request, SequenceId(sequence_id), start, tokens, end == num_prompt)
                logits = self.decode([chunk])
                start = end
        assert logits is not None, "a prompt has tokens"
        last: NDArray[np.float32] = logits[0]
        return last

    def answer(self, request: Request, sequence_id: int, step: int) -> DecodeRow:
        """The row of a decode step; its token is settled, whatever the model says."""
        token = request.prompt[step % len(request.prompt)]
        return DecodeRow(request, SequenceId(sequence_id), len(request.prompt) + step, token)

    def solo(self, request: Request) -> list[NDArray[np.float32]]:
        """A request alone: the logits of its prompt and of its first decode row; its sequence is empty afterwards."""
        found = [self.prefill(request, 0), self.decode([self.answer(request, 0, 0)])[0]]
        self.apply(DropSequence(SequenceId(0)))
        return found


def _end_of_chunk(start: int, end: int, longest: int) -> int:
    """Where a chunk ends that leaves no single row over, as exact mode cuts."""
    remaining = end - start
    size = min(longest, remaining)
    return start + (size - 1 if remaining == size + 1 and size > 2 else size)


def made_up_request(number: int, length: int) -> Request:
    """A request whose prompt is its own; ids below 250 are in every vocabulary."""
    prompt: list[TokenId] = [3 + (number * 101 + 37 * place + place * place) % 240 for place in range(length)]
    return Request(request_id=RequestId(number), prompt=tuple(prompt), max_tokens=ANSWER, arrival_at=0)


def unlike(found: NDArray[np.float32], expected: NDArray[np.float32]) -> float | None:
    """The largest difference of two rows of logits; None if every bit is the same."""
    if found.tobytes() == expected.tobytes():
        return None
    return float(np.abs(found.astype(np.float64) - expected).max())
