"""InProcessTarget: an engine in this process, asked without HTTP and without text.

A chunk is what the event loop finds when the engine has woken it, stamped before anything else is done with it. The
load generator shares the interpreter with the engine's thread, so this measures the two together.
"""

import asyncio
import time
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

import msgspec

from arriero.bench.ask import Ask
from arriero.bench.loops_answers import OnAnswer
from arriero.bench.runner_words import error_word
from arriero.bench.target import Clock
from arriero.core.errors import ArrieroError, ConfigError, Refused
from arriero.core.request import CancelReason, FinishReason
from arriero.engine.engine import Engine
from arriero.engine.handle import RequestHandle, Result
from arriero.metrics.client_life import ClientLife, Outcome

_FIELDS: Final = frozenset({"temperature", "ignore_eos"})
_OUTCOMES: Final = MappingProxyType({FinishReason.STOP: Outcome.STOP, FinishReason.LENGTH: Outcome.LENGTH})


class InProcessTarget:
    """A `Target`: an engine that was started, or will be before the first ask; whoever made it ends it."""

    def __init__(
        self,
        engine: Engine,
        *,
        name: str = "in-process",
        clock: Clock = time.perf_counter_ns,
        on_answer: OnAnswer | None = None,
        facts: dict[str, Any] | None = None,
        cache_scope: str | None = "",
    ) -> None:
        """Nothing is asked yet.

        Args:
            engine: takes prompts of token ids.
            name: for tables.
            clock: of every moment in the lives.
            on_answer: told the tokens of every answer, partial ones included, before its `ask` returns.
            facts: what is known of model and settings.
            cache_scope: of every request; None: no prefix is reused, whatever the engine's rules are.
        """
        self._engine = engine
        self._cache_scope = cache_scope
        self._name = name
        self._clock = clock
        self._on_answer = on_answer
        self._facts = {} if facts is None else facts
        self._under_way: dict[str, _Listener] = {}

    @property
    def name(self) -> str:
        """As it was given."""
        return self._name

    @property
    def kind(self) -> str:
        """`in-process`."""
        return "in-process"

    async def open(self) -> None:
        """Nothing to open."""

    async def ask(self, ask: Ask, intended_at: int | None) -> ClientLife:
        """See `Target.ask`.

        Raises:
            ConfigError: the prompt is no token ids, or a field of the body means nothing to an engine.
        """
        prompt = _tokens_of(ask)
        sent_at = self._clock()
        try:
            handle = self._engine.submit(
                prompt,
                ask.max_tokens,
                end_tokens=frozenset() if ask.fields.get("ignore_eos") else None,
                want_stream=True,
                session_id=ask.session_id,
                cache_scope=self._cache_scope,
            )
        except ArrieroError as error:
            outcome = Outcome.REJECTED if isinstance(error, Refused) else Outcome.ERROR
            return self._life(ask, intended_at, sent_at, outcome=outcome, error=error_word(error))
        listener = _Listener(handle, self._clock, ask)
        self._under_way[ask.request_id] = listener
        try:
            return await self._followed(ask, intended_at, sent_at, listener)
        finally:
            del self._under_way[ask.request_id]
            listener.close()

    def give_up(self, reason: str) -> None:
        """See `Target.give_up`."""
        for listener in tuple(self._under_way.values()):
            listener.give_up(reason)

    async def facts(self) -> dict[str, Any]:
        """What was given, and the limits of the backend."""
        return {**self._facts, "limits": msgspec.to_builtins(self._engine.limits)}

    async def close(self) -> None:
        """End what is under way; the engine goes on."""
        self.give_up("closed")

    async def _followed(self, ask: Ask, intended_at: int | None, sent_at: int, listener: "_Listener") -> ClientLife:
        await listener.over.wait()
        result: Result | None = None
        outcome, error = Outcome.TIMEOUT, listener.gave_up
        if listener.gave_up is None:
            try:
                result = await listener.handle.result()
                outcome, error = _ending(result, was_cancelled=listener.is_cancelled)
            except ArrieroError as died:
                outcome, error = Outcome.ERROR, error_word(died)
        if self._on_answer is not None:
            self._on_answer(ask.request_id, tuple(listener.tokens))
        life = self._life(ask, intended_at, sent_at, outcome=outcome, error=error)
        return replace(
            life,
            closed_at=listener.closed_at,
            chunk_at=tuple(listener.chunk_at),
            chunk_tokens=tuple(listener.chunk_tokens),
            num_tokens=None if result is None else result.num_decoded,
            prompt_tokens=None if result is None else ask.num_prompt_tokens,
            cached_tokens=None if result is None else result.cached_tokens,
        )

    def _life(
        self, ask: Ask, intended_at: int | None, sent_at: int, *, outcome: Outcome, error: str | None
    ) -> ClientLife:
        """A life that ends now, without an answer."""
        return ClientLife(
            request_id=ask.request_id,
            intended_at=intended_at,
            sent_at=sent_at,
            closed_at=self._clock(),
            outcome=outcome,
            error=error,
            asked_tokens=ask.max_tokens,
            asked_prompt_tokens=ask.num_prompt_tokens,
            conversation=ask.conversation,
            turn=ask.turn,
        )


class _Listener:
    """Stamps the chunks of one answer; called on the event loop."""

    def __init__(self, handle: RequestHandle, clock: Clock, ask: Ask) -> None:
        self.handle = handle
        self.over = asyncio.Event()
        self.chunk_at: list[int] = []
        self.chunk_tokens: list[int] = []
        self.tokens: list[int] = []
        self.closed_at: int | None = None
        self.gave_up: str | None = None
        self.is_cancelled = False
        self._clock = clock
        self._cancel_after = ask.cancel_after
        assert handle.stream is not None, "it was asked for"
        self._stream = handle.stream
        self._stream.on_change(self._listen)
        self._cancel_if_due()
        self._listen()  # what came before is not told

    def give_up(self, reason: str) -> None:
        """Stop listening, and let the engine forget the request."""
        if not self.over.is_set():
            self.gave_up = reason
            self.closed_at = self._clock()
            self.handle.cancel(CancelReason.USER)
            self.over.set()

    def close(self) -> None:
        """No more calls; a request that is still alive is cancelled."""
        self._stream.on_change(None)
        if self.closed_at is None:
            self.handle.cancel(CancelReason.DISCONNECT)

    def _listen(self) -> None:
        now = self._clock()
        if self.over.is_set():
            return
        closed = self._stream.close_reason is not None  # read first: a last token may come between the two
        if taken := self._stream.take():
            self.chunk_at.append(now)
            self.chunk_tokens.append(len(taken))
            self.tokens.extend(taken)
            self._cancel_if_due()
        if closed and self._stream.is_over:
            self.closed_at = now
            self.over.set()

    def _cancel_if_due(self) -> None:
        if self._cancel_after is not None and not self.is_cancelled and len(self.tokens) >= self._cancel_after:
            self.is_cancelled = True
            self.handle.cancel(CancelReason.USER)


def _tokens_of(ask: Ask) -> tuple[int, ...]:
    if ask.num_prompt_tokens is None:
        raise ConfigError("an engine takes token ids only; use --prompts tokens")
    strange = sorted(set(ask.fields) - _FIELDS)
    if strange or ask.fields.get("temperature"):
        raise ConfigError(f"{strange[0] if strange else 'temperature'}: an engine in this process answers greedily; "
                          "measure a server for other fields of the body")  # fmt: skip
    return tuple(token for token in ask.prompt if isinstance(token, int))


def _ending(result: Result, *, was_cancelled: bool) -> tuple[Outcome, str | None]:
    if result.reason in _OUTCOMES:
        return _OUTCOMES[result.reason], None
    if result.reason is FinishReason.CANCELLED and was_cancelled:
        return Outcome.CANCELLED_BY_CLIENT, None
    if result.reason is FinishReason.FAILED and result.error is not None:
        return Outcome.ERROR, result.error.code
    return Outcome.CANCELLED_BY_SERVER, str(result.cancel_reason or result.reason)
