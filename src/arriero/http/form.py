"""Form: the bytes in which an answer leaves. Delivery decides what is told and when; a form only words it."""

from dataclasses import dataclass
from typing import Protocol

from arriero.core.errors import ArrieroError
from arriero.core.ids import TokenId
from arriero.engine.handle import Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The end of one sequence's answer.

    Attributes:
        index: which sequence of the request it is.
        reason: `stop` or `length`, or for the native form the terminal status.
        stop_reason: the stop string that was found, or None.
        prompt_tokens: length of the prompt.
        completion_tokens: generated tokens up to the one that completed the answer.
        result: what the engine said; None if a stop string ended the answer first, or if nothing was asked of it.
    """

    index: int
    reason: str
    stop_reason: str | None
    prompt_tokens: int
    completion_tokens: int
    result: Result | None


class Form(Protocol):
    """Words one answer; made for one request.

    Called in the order begin, then for each sequence cached, pieces*, end, then close.
    """

    @property
    def streams(self) -> bool:
        """Whether pieces leave at once; else everything leaves with `close`."""
        ...

    @property
    def tells_tokens(self) -> bool:
        """Whether every token has a piece of its own, with or without text."""
        ...

    @property
    def tells_cancels(self) -> bool:
        """Whether a cancelled or aborted answer is an ordinary answer with that status; else it is an error."""
        ...

    def begin(self, prompt_lengths: tuple[int, ...]) -> None:
        """The prompts are known: their lengths in tokens, by index."""
        ...

    def cached(self, index: int, num_tokens: int) -> None:
        """So many prompt tokens of a sequence were not computed for it; told before its first piece and its end."""
        ...

    def piece(self, index: int, text: str, token: TokenId | None, num_tokens: int) -> bytes:
        """Word a stretch of an answer that can be shown; empty if it is kept for the end.

        Args:
            index: which sequence of the request it belongs to.
            text: may be empty only where every token is told.
            token: the last token in it; None for what is released after the last one.
            num_tokens: tokens of the answer so far, those still held back included.
        """
        ...

    def end(self, ending: Ending) -> bytes:
        """Word the end of one sequence; empty if it is kept for the end of all."""
        ...

    def close(self) -> bytes:
        """The end of the answer."""
        ...

    def failed(self, error: ArrieroError) -> bytes:
        """An error after the first byte: the last event of the stream."""
        ...
