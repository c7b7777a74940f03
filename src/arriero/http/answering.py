"""Answering: one sequence of a request, from token ids to pieces of its answer and their end."""

from arriero.core.errors import Draining, EngineFault, QueueTimeout
from arriero.core.ids import Time, TokenId
from arriero.core.request import CancelReason, FinishReason
from arriero.engine.handle import RequestHandle, Result
from arriero.http.errors import AnswerCut
from arriero.http.form import Ending, Form
from arriero.http.order import Ask
from arriero.http.request_log import status_of
from arriero.tokens.detokenizer import Detokenizer


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
        self._has_begun = False  # whether the form knows how much of the prompt was cached

    async def take_result(self, form: Form) -> None:
        """Wait for the engine's result, and word its tokens where no stream was wanted: the form keeps them."""
        assert self.handle is not None, "nothing was asked"
        self.result = await self.handle.result()
        if self.handle.stream is None and self.result.tokens:
            self.num_takes += 1
            kept = self.word(self.result.tokens, form, merge=True)
            assert not kept, "a form that streams needs a stream"

    def word(self, tokens: tuple[TokenId, ...], form: Form, *, merge: bool) -> bytes:
        """Word some tokens: a piece for each that lets text go, or with `merge` one for all; and the end at a stop."""
        if not self._has_begun:
            self._begin(form)
        if merge or len(tokens) == 1:
            return self._word_group(tokens, form)
        parts: list[bytes] = []
        for token in tokens:
            parts.append(self._word_group((token,), form))
            if self.ending is not None:
                break
        return b"".join(parts)

    def stop(self) -> None:
        """The text is complete: no further token is wanted."""
        if self.handle is not None:
            self.handle.cancel(CancelReason.STOP)

    def word_rest(self, form: Form) -> bytes:
        """Word what is left when the engine is done: held-back text and the end.

        Raises:
            EngineFault: the request failed. Draining: the engine shut down before it began.
            QueueTimeout: it did not begin in time.
            AnswerCut: it was cancelled, and the form has no word for that.
        """
        if self.ending is not None:
            return b""
        reason = self._reason(form)
        if not self._has_begun:
            self._begin(form)
        text, stopped = self._text.finish()
        data = form.piece(self.index, text, None, self._text.num_tokens) if text else b""
        return data + self._word_end(reason if stopped is None else "stop", form)

    def _begin(self, form: Form) -> None:
        self._has_begun = True
        if self.handle is not None:
            form.cached(self.index, self.handle.cached_tokens)

    def _reason(self, form: Form) -> str:
        result = self.result
        if result is None:
            return "length"
        if result.reason is FinishReason.FAILED:
            raise result.error or EngineFault("the request failed")
        if result.cancel_reason is CancelReason.QUEUE_TIMEOUT:
            raise QueueTimeout("the request did not begin in time; try again later")
        if form.tells_cancels:
            return status_of(result)
        if result.reason is FinishReason.ABORTED:
            raise Draining("the engine shut down before this request began; try another server")
        if result.reason is FinishReason.CANCELLED:
            raise AnswerCut(result.cancel_reason or CancelReason.USER)
        return "stop" if result.reason is FinishReason.STOP else "length"

    def _word_group(self, tokens: tuple[TokenId, ...], form: Form) -> bytes:
        """One piece, and the end at a stop."""
        text, stopped = self._text.feed(tokens)
        data = form.piece(self.index, text, tokens[-1], self._text.num_tokens) if text or form.tells_tokens else b""
        return data if stopped is None else data + self._word_end("stop", form)

    def _word_end(self, reason: str, form: Form) -> bytes:
        stopped = self._text.stopped
        self.ending = Ending(
            index=self.index,
            reason=reason,
            stop_reason=None if stopped is None else stopped.stop,
            prompt_tokens=len(self.ask.prompt),
            completion_tokens=self._text.num_tokens,
            result=self.result,
        )
        return form.end(self.ending)
