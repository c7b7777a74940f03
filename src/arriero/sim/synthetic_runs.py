"""SyntheticRuns: tokens that have the shape of a journal's prompts and answers, and say nothing.

The first token of everything fresh is a number that no other run has there, all further ones are a filler; so two
runs share a beginning exactly as far as the journal says. Where two answers, or an answer and a prompt written before
it was there, happened to be equal, the journal does not know, and they are told apart here.
"""

from typing import Final

from arriero.core.errors import BadJournal
from arriero.core.ids import TokenId
from arriero.record.journal_parts import PromptShape
from arriero.record.runs import RunWindow

FILLER: Final[TokenId] = 0
END: Final[TokenId] = -1
"""Stands for every end token."""


class SyntheticRuns:
    """Keeps the same runs as the writer did."""

    def __init__(self, max_runs: int, max_tokens: int) -> None:
        """Start empty, with the writer's bounds."""
        self._window: RunWindow[tuple[TokenId, ...]] = RunWindow(max_runs, max_tokens)
        self._num_fresh = 0

    def prompt(self, number: int, shape: PromptShape) -> tuple[TokenId, ...]:
        """The tokens of a submission's prompt, which is kept from now on.

        Raises:
            BadJournal: it refers to a run that is not kept, or to more of it than there is.
        """
        begin: tuple[TokenId, ...] = ()
        if shape.earlier is not None:
            begin = (self._window.get(shape.earlier) or ())[: shape.common]
        if len(begin) != shape.common:
            raise BadJournal(
                f"submission {number} shares {shape.common} tokens with submission {shape.earlier}, which has no such "
                "run; restore the file",
                field="prompt",
            )
        tokens = begin + self._fresh(shape.fresh)
        self._window.add(number, tokens, len(tokens))
        return tokens

    def answer_token(self, index: int) -> TokenId:
        """The next ordinary token of an answer, `index` tokens after its beginning."""
        return FILLER if index else self._next_fresh()

    def extend(self, number: int, run: tuple[TokenId, ...]) -> None:
        """A request has ended: its run is its prompt and its answer."""
        self._window.extend(number, run, len(run))

    def _fresh(self, length: int) -> tuple[TokenId, ...]:
        return (self._next_fresh(), *(FILLER,) * (length - 1)) if length else ()

    def _next_fresh(self) -> TokenId:
        self._num_fresh += 1
        return self._num_fresh
