"""SyntheticRuns: tokens that have the shape of a journal's prompts and answers, and say nothing.

The first token of everything fresh is a number that no other run has there, all further ones are a filler; so two
runs share a beginning exactly as far as the journal says.
"""

from typing import Final

from arriero.core.errors import BadJournal
from arriero.core.ids import TokenId
from arriero.record.journal_parts import AnswerRow, PromptShape
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
        tokens = self._begin((), number, shape.earlier, shape.common) + self._fresh(shape.fresh)
        self._window.add(number, tokens, len(tokens))
        return tokens

    def answered(self, described: tuple[TokenId, ...], row: AnswerRow) -> tuple[TokenId, ...]:
        """The run of a request that has said more; it goes on being kept if it was.

        Args:
            described: its prompt, and what it had said when it was described before.
            row: what it has said by now.

        Raises:
            BadJournal: as `prompt`, or it does not go on after what was described.
        """
        begin = self._begin(described, row.number, row.earlier, row.common)
        if begin[: len(described)] != described:
            raise BadJournal(
                f"the run of submission {row.number} does not go on as submission {row.earlier} does; restore the file",
                field="answers",
            )
        tokens = begin + self._fresh(row.fresh)
        self._window.extend(row.number, tokens, len(tokens))
        return tokens

    def _begin(self, own: tuple[TokenId, ...], number: int, earlier: int | None, common: int) -> tuple[TokenId, ...]:
        """What comes before the fresh tokens: the run's own tokens, or those of an earlier one."""
        begin = own
        if earlier is not None:
            kept = self._window.get(earlier)
            begin = () if kept is None else kept[:common]
        if len(begin) != common:
            raise BadJournal(
                f"submission {number} shares {common} tokens with submission {earlier}, which has no such run; "
                "restore the file",
                field="prompt",
            )
        if earlier is not None:
            self._window.renew(earlier)
        return begin

    def _fresh(self, length: int) -> tuple[TokenId, ...]:
        return (self._next_fresh(), *(FILLER,) * (length - 1)) if length else ()

    def _next_fresh(self) -> TokenId:
        self._num_fresh += 1
        return self._num_fresh
