"""Near ties: where two answers to one prompt part, how far apart were the two tokens?

Rounding may flip a choice between two tokens whose logits are almost equal; it flips no other. So an answer that
differs under reuse is harmless if the gap between its token and the baseline's is tiny at the first difference, and a
sign of damaged KV if it is not. The gap is taken from a full computation of prompt and common text, in this process.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from arriero.backend.protocol import Backend
from arriero.bench.experiments.contexts import ContextShape, ModelSource
from arriero.core.events import DropSequence
from arriero.core.ids import RequestId, SequenceId, TokenId
from arriero.core.plan import PrefillChunk
from arriero.core.request import Request
from arriero.tokens.vocabulary import Vocabulary

_SEQUENCE = SequenceId(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """Two answers to one prompt.

    Attributes:
        name: of the request.
        prompt: as it was sent.
        text: the answer that is expected.
        other: the one that came.
    """

    name: str
    prompt: str
    text: str
    other: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NearTie:
    """Where they part.

    Attributes:
        name: of the request.
        index: of the first token that differs, from 0.
        token, other: the two, as text.
        gap: logit of the one less that of the other; None if no token of the vocabulary says what came.
    """

    name: str
    index: int
    token: str
    other: str
    gap: float | None


def near_ties(source: ModelSource, partings: Iterable[Parting], *, budget: int, slot_tokens: int) -> list[NearTie]:
    """The gap of each, computed alone.

    Args:
        source: the model that said both.
        partings: answers that differ.
        budget: tokens of an answer.
        slot_tokens: positions that a prompt and its answer need at most.
    """
    backend = source.make(ContextShape(num_sequences=1, positions=slot_tokens))
    try:
        return [_near_tie(source.vocabulary, backend, each, budget) for each in partings]
    finally:
        backend.close()


def _near_tie(vocabulary: Vocabulary, backend: Backend, parting: Parting, budget: int) -> NearTie:
    """Follow the expected text, token by token, as long as the other one says the same."""
    backend.apply(DropSequence(_SEQUENCE))
    prompt = tuple(vocabulary.encode(parting.prompt, add_special=True, parse_special=True))
    request = Request(request_id=RequestId(1), prompt=prompt, max_tokens=budget, arrival_at=0)
    text, other = parting.text.encode(), parting.other.encode()
    fresh, num_known, said = prompt, 0, 0
    for index in range(budget):
        logits = _compute(backend, request, num_known, fresh)
        token = _best(logits, vocabulary, text[said:])
        if token is None:
            break
        piece = vocabulary.piece(token)
        if not other.startswith(piece, said):
            came = _best(logits, vocabulary, other[said:])
            return NearTie(
                name=parting.name,
                index=index,
                token=_shown(piece),
                other="" if came is None else _shown(vocabulary.piece(came)),
                gap=None if came is None else float(logits[token] - logits[came]),
            )
        num_known += len(fresh)
        fresh, said = (token,), said + len(piece)
    return NearTie(name=parting.name, index=budget, token="", other="", gap=None)


def _compute(backend: Backend, request: Request, start: int, tokens: tuple[TokenId, ...]) -> NDArray[np.float32]:
    """float32[vocab_size]: the logits after these tokens, in calls of as many rows as fit."""
    limit = backend.limits.num_rows
    last = (len(tokens) - 1) // limit * limit
    for at in range(0, last, limit):
        backend.decode([PrefillChunk(request, _SEQUENCE, start + at, tokens[at : at + limit], wants_logits=False)])
    row = PrefillChunk(request, _SEQUENCE, start + last, tokens[last:], wants_logits=True)
    found: NDArray[np.float32] = backend.decode([row])[0]
    return found.copy()


def _best(logits: NDArray[np.float32], vocabulary: Vocabulary, text: bytes) -> TokenId | None:
    """The likeliest token with which the text goes on; None if none does."""
    for each in np.argsort(-logits, kind="stable"):
        piece = vocabulary.piece(TokenId(int(each)))
        if piece and text.startswith(piece):
            return TokenId(int(each))
    return None


def _shown(piece: bytes) -> str:
    return piece.decode(errors="replace")
