"""Answering: one sequence of a request, from token ids to pieces of its answer and their end."""

from collections.abc import AsyncIterator

from arriero.core.errors import Draining, EngineFault
from arriero.core.ids import Time, TokenId
from arriero.core.request import CancelReason, FinishReason
from arriero.engine.handle import RequestHandle, Result
from arriero.http.errors import AnswerCut
from arriero.http.form import Ending, Form, Piece
from arriero.http.order import Ask
from arriero.http.request_log import status_of
from arriero.tokens.detokenizer import Detokenizer, TextDelta


class Answering:
    """One sequence while it is answered.

    Attributes:
        ask: what was asked of the engine.
        handle: None if nothing was: no token is wanted.
        ending: set as soon as the text is complete.
        result: what the engine said.
        num_takes: how often tokens were taken from the engine.
        result_at: when the result was there, where anybody asks.
    """

    def __init__(self, index: int, ask: Ask, handle: RequestHandle | None, text: Detokenizer) -> None:
        """`text` has been fed nothing yet."""
        self.index = index
        self.ask = ask
        self.handle = handle
        self.ending: Ending | None = None
        self.result: Result | None = None
        self.num_takes = 0
        self.result_at: Time | None = None
        self._text = text

    async def takes(self) -> AsyncIterator[tuple[TokenId, ...]]:
        """Tokens as they come, or all at once where no stream was wanted; then the result is there."""
        if self.handle is None:
            return
        if self.handle.stream is not None:
            async for tokens in self.handle.stream:
                self.num_takes += 1
                yield tokens
        self.result = await self.handle.result()
        if self.handle.stream is None and self.result.tokens:
            self.num_takes += 1
            yield self.result.tokens

    def word(self, tokens: tuple[TokenId, ...], form: Form, *, merge: bool) -> bytes:
        """Word some tokens: a piece for each that lets text go, or with `merge` one for all; and the end at a stop."""
        parts: list[bytes] = []
        for group in (tokens,) if merge else ((token,) for token in tokens):
            delta = self._text.feed(group)
            self._word_piece(delta, group[-1], form, parts)
            if delta.stopped is not None:
                self._word_end("stop", form, parts)
                break
        return b"".join(parts)

    def is_told(self) -> bool:
        """Whether the text is complete."""
        return self.ending is not None

    def word_rest(self, form: Form) -> bytes:
        """Word what is left when the engine is done: held-back text and the end.

        Raises:
            EngineFault: the request failed. Draining: the engine shut down before it began.
            AnswerCut: it was cancelled, and the form has no word for that.
        """
        if self.ending is not None:
            return b""
        reason = self._reason(form)
        parts: list[bytes] = []
        delta = self._text.finish()
        if delta.text:
            self._word_piece(delta, None, form, parts)
        self._word_end(reason if delta.stopped is None else "stop", form, parts)
        return b"".join(parts)

    def _reason(self, form: Form) -> str:
        result = self.result
        if result is None:
            return "length"
        if result.reason is FinishReason.FAILED:
            raise result.error or EngineFault("the request failed")
        if form.tells_cancels:
            return status_of(result)
        if result.reason is FinishReason.ABORTED:
            raise Draining("the engine shut down before this request began; try another server")
        if result.reason is FinishReason.CANCELLED:
            raise AnswerCut(result.cancel_reason or CancelReason.USER)
        return "stop" if result.reason is FinishReason.STOP else "length"

    def _word_piece(self, delta: TextDelta, token: TokenId | None, form: Form, parts: list[bytes]) -> None:
        if delta.text or form.tells_tokens:
            parts.append(form.piece(Piece(self.index, delta.text, token, self._text.num_tokens)))

    def _word_end(self, reason: str, form: Form, parts: list[bytes]) -> None:
        stopped = self._text.stopped
        self.ending = Ending(
            index=self.index,
            reason=reason,
            stop_reason=None if stopped is None else stopped.stop,
            prompt_tokens=len(self.ask.prompt),
            completion_tokens=self._text.num_tokens,
            result=self.result,
        )
        parts.append(form.end(self.ending))
