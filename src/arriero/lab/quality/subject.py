"""Subject: one model file, opened so that it predicts windows and answers prompts.

Everything goes through one context with one sequence, which is emptied before each window and each prompt, so that
nothing depends on what came before.
"""

import hashlib
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from arriero.backend.context import ContextOptions
from arriero.backend.llama_cpp import LlamaCppBackend
from arriero.backend.llama_model import LlamaModel
from arriero.backend.protocol import Backend
from arriero.backend.vocabulary import LlamaVocabulary
from arriero.core.errors import ConfigError, EngineFault
from arriero.core.events import DropSequence
from arriero.core.ids import RequestId, SequenceId, TokenId
from arriero.core.plan import DecodeRow, PrefillChunk, Row
from arriero.core.request import Request
from arriero.record.cpu_lab.quality_figures import Finish
from arriero.tokens.vocabulary import Vocabulary

_SEQUENCE: Final = SequenceId(0)


class Said(NamedTuple):
    """A greedy answer."""

    tokens: tuple[TokenId, ...]  # the end token left out
    finish: Finish


class Subject(Protocol):
    """A model that predicts and answers; the same tokens always give the same values."""

    @property
    def name(self) -> str:
        """For complaints."""
        ...

    def predict(self, tokens: Sequence[TokenId], num_given: int) -> NDArray[np.float32]:
        """Logits of the tokens that follow each prefix of `tokens` from the length `num_given` on.

        Returns:
            float32[len(tokens) - num_given, vocab_size]: row i belongs to the token at `num_given + i`. A view, valid
            until the next call. Finite.

        Raises:
            EngineFault: a logit is no finite number, or the decode call failed.
        """
        ...

    def answer(self, prompt: Sequence[TokenId], max_tokens: int) -> Said:
        """Continue a prompt by the first maximum, token by token, up to an end token or `max_tokens`."""
        ...


class BackendSubject:
    """A `Subject` over a backend, which it borrows."""

    def __init__(self, name: str, backend: Backend) -> None:
        """The backend gives a row of logits for each row of a decode call, and holds the longest window."""
        self._name = name
        self._backend = backend

    @property
    def name(self) -> str:
        """As it was given."""
        return self._name

    def predict(self, tokens: Sequence[TokenId], num_given: int) -> NDArray[np.float32]:
        """One decode call for all rows; see `Subject.predict`."""
        self._backend.apply(DropSequence(_SEQUENCE))
        # the last token is only a target: nothing is predicted from it
        request = _request(tokens)
        last_given = num_given - 1
        rows: list[Row] = [PrefillChunk(request, _SEQUENCE, 0, tokens[:last_given], wants_logits=False)]
        rows.extend(DecodeRow(request, _SEQUENCE, at, tokens[at]) for at in range(last_given, len(tokens) - 1))
        return self._finite(self._backend.decode(rows))

    def answer(self, prompt: Sequence[TokenId], max_tokens: int) -> Said:
        """The prompt in one decode call, then one a token; see `Subject.answer`."""
        self._backend.apply(DropSequence(_SEQUENCE))
        request = _request(prompt)
        said: list[TokenId] = []
        row: Row = PrefillChunk(request, _SEQUENCE, 0, prompt, wants_logits=True)
        while len(said) < max_tokens:
            token = int(self._finite(self._backend.decode([row]))[0].argmax())
            if token in self._backend.end_tokens:
                return Said(tuple(said), Finish.STOP)
            row = DecodeRow(request, _SEQUENCE, len(prompt) + len(said), token)
            said.append(token)
        return Said(tuple(said), Finish.LENGTH)

    def _finite(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        if not np.isfinite(logits).all():
            raise EngineFault(f"{self._name}: the model gave a logit that is no finite number; the file is damaged")
        return logits


class Opened(NamedTuple):
    """A loaded file with its vocabulary; a context is made once it is known how large it must be."""

    model: LlamaModel
    vocabulary: Vocabulary


@contextmanager
def load(path: Path) -> Generator[Opened]:
    """Load a file and its vocabulary, and free them at the end; `process_start` has been called.

    Raises:
        ModelUnreadable: see `LlamaModel`.
    """
    model = LlamaModel(path)
    try:
        yield Opened(model, LlamaVocabulary(model))
    finally:
        model.close()


@contextmanager
def open_subject(model: LlamaModel, options: ContextOptions) -> Generator[Subject]:
    """Make a context for a loaded file, and free it at the end.

    Raises:
        ConfigError: memory does not suffice, or the window is longer than the context that the model was trained for.
    """
    trained = model.capabilities.trained_context
    if options.ctx_size > trained:
        raise ConfigError(
            f"{model.path.name}: {options.ctx_size} tokens of context are more than the {trained} that the model was "
            "trained for; lower --window or --answer-tokens"
        )
    backend = LlamaCppBackend(model, options)
    try:
        yield BackendSubject(model.path.name, backend)
    finally:
        backend.close()


def vocabulary_digest(vocabulary: Vocabulary) -> str:
    """SHA-256 over all that makes token ids of two files comparable: pieces in their order, end and start tokens."""
    digest = hashlib.sha256()
    for token in range(vocabulary.size):
        piece = vocabulary.piece(token, special=True)
        digest.update(b"%d:%b" % (len(piece), piece))
    digest.update(repr((sorted(vocabulary.end_tokens), vocabulary.adds_start_token)).encode())
    return digest.hexdigest()


def start_token_of(vocabulary: Vocabulary) -> TokenId | None:
    """The token that the vocabulary puts before a text; None if it puts none."""
    if not vocabulary.adds_start_token:
        return None
    return vocabulary.encode("", add_special=True, parse_special=False)[0]


def _request(tokens: Sequence[TokenId]) -> Request:
    return Request(request_id=RequestId(0), prompt=tokens, max_tokens=1, arrival_at=0)
