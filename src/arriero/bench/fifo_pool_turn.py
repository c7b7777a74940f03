"""Turn: one request alone on one context: its prompt in chunks, then a row for each token."""

from collections.abc import Callable, Sequence
from typing import Final

from arriero.backend.protocol import Backend
from arriero.bench.fifo_pool_request import PooledRequest
from arriero.core.errors import EngineFault
from arriero.core.events import DropSequence
from arriero.core.ids import SequenceId
from arriero.core.plan import DecodeRow, PrefillChunk, Row
from arriero.sampling.sampler import SamplerPool

ALONE: Final = SequenceId(0)
"""The one sequence that a pool's context uses."""


class Turn:
    """Computes one request on one context; called by one thread at a time.

    Attributes:
        error: a word for what went wrong, or None.
    """

    def __init__(self, backend: Backend, asked: PooledRequest) -> None:
        """Nothing is computed yet; the context is empty."""
        self._backend = backend
        self._asked = asked
        self._samplers = SamplerPool(backend.sampler)
        self._num_computed = 0
        self.error: str | None = None

    def step(self) -> bool:
        """Make one decode call; whether there is more to compute."""
        return self._contained(self._step)

    def close(self) -> bool:
        """Clear the context for the next request; there is never more to compute."""
        return self._contained(self._clear)

    def _contained(self, act: Callable[[], bool]) -> bool:
        """Do something; whatever goes wrong ends this request, and the pool goes on. The first error stays."""
        try:
            return act()
        except EngineFault as problem:
            self.error = self.error or problem.code
        except Exception as problem:  # noqa: BLE001 - whatever it is, others wait for this context
            self.error = self.error or type(problem).__name__
        return False

    def _clear(self) -> bool:
        self._samplers.close()
        drop = DropSequence(ALONE)
        if not (self._backend.apply(drop) or self._backend.apply(drop)):
            raise EngineFault("memory would not clear the context", code="not_cleared")
        return False

    def _step(self) -> bool:
        asked, rows = self._asked, self._rows()
        asked.decode_calls += 1
        logits = self._backend.decode(rows)
        self._num_computed += rows[0].num_rows
        tokens, failures = self._samplers.choose(rows, logits)
        if failures:
            self.error = failures[0].code
            return False
        if ALONE not in tokens:
            return True  # the prompt goes on
        if tokens[ALONE] in asked.request.end_tokens:
            return False
        asked.say(tokens[ALONE])
        return len(asked.tokens) < asked.budget

    def _rows(self) -> Sequence[Row]:
        request, start = self._asked.request, self._num_computed
        num_prompt = len(request.prompt)
        if start < num_prompt:
            end = min(num_prompt, start + self._backend.limits.num_rows)
            return (PrefillChunk(request, ALONE, start, request.prompt[start:end], wants_logits=end == num_prompt),)
        return (DecodeRow(request, ALONE, start, self._asked.tokens[-1]),)
