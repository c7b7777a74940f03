"""SoloBook: what each prompt is answered when it is all alone, token by token and bit by bit.

Alone means: under the same composition rule, one request at a time, with nothing reused. Answers are kept by prompt,
so that the same prompt in other company is compared with one and the same run.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from types import TracebackType
from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from arriero.backend.protocol import Backend
from arriero.core.ids import TokenId
from arriero.core.plan import Row
from arriero.engine.options import EngineOptions
from arriero.testing.fakes import FaultyBackend
from arriero.testing.gates.backends import Shape
from arriero.testing.gates.containment import Wrapped
from arriero.testing.gates.context import GateContext
from arriero.testing.gates.findings import Findings
from arriero.testing.gates.rig import Rig

NUM_BEST: Final = 8
"""Logits that are kept of each row; a token that company brings up and that is not among them was no near tie."""


class Gap(NamedTuple):
    """How far a token was from being chosen.

    Attributes:
        logits: between the best token and that one.
        is_exact: False if it was not among the best that were kept, and the gap is at least this.
    """

    logits: float
    is_exact: bool

    def __str__(self) -> str:
        """As a person reads it."""
        return f"{'' if self.is_exact else 'more than '}{self.logits:.3g}"


class Answered(NamedTuple):
    """One row of logits.

    Attributes:
        digest: of its bits.
        best: the best tokens, best first.
        logits: theirs.
    """

    digest: bytes
    best: tuple[TokenId, ...]
    logits: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Solo:
    """The answer to a prompt that is alone.

    Attributes:
        tokens: as many as were ever asked for.
        rows: the logits that each of them was chosen from.
    """

    tokens: tuple[TokenId, ...]
    rows: tuple[Answered, ...]

    def gap(self, place: int, token: TokenId) -> Gap:
        """How far a token was from being chosen at a place of the answer."""
        row = self.rows[place]
        if token in row.best:
            return Gap(row.logits[0] - row.logits[row.best.index(token)], is_exact=True)
        return Gap(row.logits[0] - row.logits[-1], is_exact=False)


class SoloBook:
    """An engine with one request at a time, and what it has said; entered as an async context manager."""

    def __init__(self, context: GateContext, findings: Findings, shape: Shape, options: EngineOptions) -> None:
        """The composition is that of `options`; whatever they say of reuse, slots and backlog is not taken over."""
        self._recorded: dict[int, list[Answered]] = {}
        wrapped = replace(context, backends=Wrapped(context.backends, self._wrap))
        alone = EngineOptions(exact=options.exact)
        self._rig = Rig(wrapped, findings, replace(shape, num_sequences=1, host_tokens=0), alone)
        self._book: dict[tuple[TokenId, ...], Solo] = {}
        self._num_asked = 0

    async def __aenter__(self) -> Self:
        """Start the engine."""
        await self._rig.__aenter__()
        self._rig.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """End it."""
        await self._rig.__aexit__(kind, error, tb)

    def __len__(self) -> int:
        """Prompts that were answered."""
        return len(self._book)

    async def answer(self, prompt: Sequence[TokenId], max_tokens: int) -> Solo:
        """The answer to a prompt, with at least so many tokens; computed when it is first asked for."""
        key = tuple(prompt)
        known = self._book.get(key)
        if known is not None and len(known.tokens) >= max_tokens:
            return known
        self._num_asked += 1
        handle = self._rig.submit(key, max_tokens, request_id=self._num_asked, stream=False)
        result = await handle.result()
        self._book[key] = Solo(result.tokens, tuple(self._recorded.pop(self._num_asked, [])))
        return self._book[key]

    def _wrap(self, backend: Backend) -> Backend:
        return _Recorder(backend, self._recorded)


class _Recorder(FaultyBackend):
    """Any backend, of whose logits the digests and the best are kept, by request."""

    def __init__(self, inner: Backend, recorded: dict[int, list[Answered]]) -> None:
        super().__init__(inner)
        self._recorded = recorded

    def decode(self, rows: Sequence[Row]) -> NDArray[np.float32]:
        """The inner call; every row of its answer is noted."""
        logits = super().decode(rows)
        wanting = [row for row in rows if row.wants_logits and row.num_rows]
        for row, values in zip(wanting, logits, strict=True):
            self._recorded.setdefault(row.request.request_id, []).append(_answered(values))
        return logits


def digest_of(values: NDArray[np.float32]) -> bytes:
    """A digest of a row's bits."""
    return blake2b(values.tobytes(), digest_size=16).digest()


def _answered(values: NDArray[np.float32]) -> Answered:
    number = min(NUM_BEST, len(values))
    best = np.argpartition(values, -number)[-number:]
    best = best[np.argsort(-values[best], kind="stable")]
    return Answered(digest_of(values), tuple(best.tolist()), tuple(values[best].astype(float).tolist()))
